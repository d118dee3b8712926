package storeapi

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
)

// A rawClient writes HTTP/2 frames that no gRPC client would.
type rawClient struct {
	t     *testing.T
	conn  net.Conn
	frame *http2.Framer
	last  uint32 // last stream id
}

func dialRaw(t *testing.T, addr string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testwait.Limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, conn: conn, frame: http2.NewFramer(conn, conn)}
	c.frame.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.frame.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a stream and sends data, without the end of the stream.
func (c *rawClient) open(method string, data []byte) {
	c.t.Helper()
	var headers bytes.Buffer
	e := hpack.NewEncoder(&headers)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "store"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.last = max(c.last+2, 1) | 1
	if err := c.frame.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last, BlockFragment: headers.Bytes(), EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	if len(data) == 0 {
		return
	}
	if err := c.frame.WriteData(c.last, false, data); err != nil {
		c.t.Fatal(err)
	}
}

// statuses reads until the given number of streams have finished, and returns how many have each grpc-status.
func (c *rawClient) statuses(streams int) map[string]int {
	c.t.Helper()
	codes := make(map[string]int)
	for ended := 0; ended < streams; {
		f, err := c.frame.ReadFrame()
		if err != nil {
			c.t.Fatalf("after the end of %d streams of %d: %v", ended, streams, err)
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			ended++
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					codes[h.Value]++
				}
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.frame.WriteSettingsAck()
			}
		case *http2.PingFrame:
			err = c.frame.WritePing(true, f.Data)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return codes
}

// TestOpenCallsAreBounded counts the calls that the server admits on a connection.
func TestOpenCallsAreBounded(t *testing.T) {
	conn := teststore.Dial(t, New(labelStore(t), Options{}).NewServer())
	client := dialRaw(t, conn.Target())
	for {
		f, err := client.frame.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
			if n, ok := s.Value(http2.SettingMaxConcurrentStreams); !ok || n != maxStreams {
				t.Errorf("%d calls are admitted on a connection (bounded: %t), want %d", n, ok, maxStreams)
			}
			return
		}
	}
}

// TestIncompleteRequests lets a client open many streams of each method and send nothing, a part of a
// message, or a message without the end of the request. All are cancelled and counted within WriteTimeout, no
// query is admitted for them, and another client is served.
func TestIncompleteRequests(t *testing.T) {
	g := labelStore(t)
	a := New(g, Options{WriteTimeout: 200 * time.Millisecond}) // without a time-out of queries
	conn := teststore.Dial(t, a.NewServer())
	empty := make([]byte, 5) // a valid message of any type
	part := append(binary.BigEndian.AppendUint32([]byte{0}, 1000), make([]byte, 999)...)
	methods := []string{
		"/thanos.Store/Series", "/thanos.Store/LabelNames", "/thanos.Store/LabelValues",
		"/thanos.info.Info/Info", healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
	}
	client := dialRaw(t, conn.Target())
	const each = 20
	streams := 0
	for _, method := range methods {
		for _, data := range [][]byte{nil, part[:3], part, empty} {
			for range each {
				client.open(method, data)
				streams++
			}
		}
	}
	got := client.statuses(streams)
	if got["1"] != streams { // Canceled
		t.Errorf("%d incomplete requests end with %v", streams, got)
	}
	testwait.Equal(t, "the clients to be counted as slow", uint64(streams), a.cancelled.Load)
	if n := g.Gate().Stats(); n.Admitted+n.Cancelled != 0 {
		t.Errorf("%d queries were admitted and %d waited", n.Admitted, n.Cancelled)
	}
	values := teststore.UntilFast(t, "label values beside incomplete requests", func() (*storepb.LabelValuesResponse, error) {
		return storepb.NewStoreClient(conn).LabelValues(t.Context(), valuesOfI())
	})
	if len(values.GetValues()) != 8000 {
		t.Errorf("beside incomplete requests: %d values", len(values.GetValues()))
	}
	for _, method := range []string{healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName} {
		got := teststore.UntilFast(t, method, func() (healthpb.HealthCheckResponse_ServingStatus, error) {
			var r healthpb.HealthCheckResponse
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
			if err == nil {
				_ = stream.SendMsg(&healthpb.HealthCheckRequest{}) // RecvMsg returns the error of the call
				_ = stream.CloseSend()
				err = stream.RecvMsg(&r)
			}
			return r.GetStatus(), err
		})
		if got != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s: %v", method, got)
		}
	}
}
