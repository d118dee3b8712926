package storegateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

// smallBuffers makes the kernel buffer little unread data.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4 << 10)
	}
	return c, err
}

// slowStore returns a store that runs two concurrent queries, with responses of some megabytes.
func slowStore(t *testing.T) *storegateway.Gateway {
	t.Helper()
	dir := t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 60
	if _, err := shape.Write(dir, testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	return teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 2 * slowQuota, PerQuery: slowQuota})
	})
}

const (
	slowQuota       = 16 << 20
	partialResponse = 128 << 10 // less than the unsent rest of each response
)

// slowServer serves Prometheus' API of a gateway. It returns the URL of a query with a long response.
func slowServer(t *testing.T, g *storegateway.Gateway, o storegateway.HTTPOptions) (*promapi.API, string) {
	t.Helper()
	api, s := slowHTTPServer(t, g, o)
	return api, s.URL + "/api/v1/query?time=86400&query=" + url.QueryEscape(`{foo="bar"}[1d]`)
}

func slowHTTPServer(t *testing.T, g *storegateway.Gateway, o storegateway.HTTPOptions) (*promapi.API, *httptest.Server) {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	api, err := storegateway.NewHTTPAPI(g, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(api)
	s.Listener = smallBuffers{s.Listener}
	s.Start()
	t.Cleanup(s.Close)
	return api, s
}

// stall sends a request and reads one byte of the response.
func stall(t *testing.T, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	stallRequest(t, u.Host, "GET "+u.RequestURI()+" HTTP/1.1\r\nHost: store\r\n\r\n")
}

// stallRequest sends a request and reads one byte of the response.
func stallRequest(t *testing.T, host, request string) {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(testwait.Limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the first byte of a response: %v", err)
	}
}

// TestStalledRequests lets more clients of /series and of sampled remote read stop reading than queries can
// run. Another request is served, and no query keeps running.
func TestStalledRequests(t *testing.T) {
	dir := shared.Dir(t, "many series", func(dir string) error {
		_, err := testblock.Shape{Count: 8000, Samples: 20, Seed: 1}.Write(dir, testblock.Options{})
		return err
	})
	read, err := (&prompb.ReadRequest{Queries: []*prompb.Query{{
		EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{{Name: "foo", Value: "bar"}},
	}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body := string(snappy.Encode(nil, read))
	for name, request := range map[string]string{
		"series": "GET /api/v1/series?match[]=" + url.QueryEscape(`{foo="bar"}`) + " HTTP/1.1\r\nHost: store\r\n\r\n",
		"read": fmt.Sprintf("POST /api/v1/read HTTP/1.1\r\nHost: store\r\nContent-Type: application/x-protobuf\r\n"+
			"Content-Encoding: snappy\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			g := teststore.Open(t, dir, func(o *storegateway.Options) {
				o.Gate = slab.NewGate(slab.GateOptions{Bytes: 2*32<<20 + 16<<20, PerQuery: 32 << 20, Light: 16 << 20})
			})
			api, target := slowServer(t, g, storegateway.HTTPOptions{WriteTimeout: time.Hour, ResponseBytes: 512 << 20})
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			const stalled = 5
			for range stalled {
				stallRequest(t, u.Host, request)
			}
			if code, respond := getJSON(t, "http://"+u.Host+"/api/v1/labels", ""); code != http.StatusOK {
				t.Errorf("beside stalled clients: %d %v", code, respond["error"])
			}
			teststore.WaitForIdle(t, g)
			if n := api.Responses(); n.Held < stalled*partialResponse || n.Cut != 0 || n.Unbuffered != 0 {
				t.Errorf("%d stalled clients: %+v", stalled, n)
			}
		})
	}
}

// TestStalledHTTP lets more clients stop reading than queries can run. Their responses wait in the budget of
// responses, so that another query runs although no client is disconnected during the test.
func TestStalledHTTP(t *testing.T) {
	g := slowStore(t)
	api, target := slowServer(t, g, storegateway.HTTPOptions{WriteTimeout: time.Hour, ResponseBytes: 512 << 20})
	const stalled = 5
	for range stalled {
		stall(t, target)
	}
	if code, respond := getJSON(t, target, ""); code != http.StatusOK {
		t.Errorf("beside stalled clients: %d %v", code, respond["error"])
	}
	teststore.WaitForIdle(t, g)
	if n := api.Responses(); n.Held < stalled*partialResponse || n.Cut != 0 || n.Unbuffered != 0 {
		t.Errorf("%d stalled clients: %+v", stalled, n)
	}
}

// TestStalledUnbuffered has no room for responses: they are written while their query is admitted, and a
// client that takes no data for WriteTimeout is disconnected, so that the next query is admitted.
func TestStalledUnbuffered(t *testing.T) {
	g := slowStore(t)
	api, target := slowServer(t, g, storegateway.HTTPOptions{WriteTimeout: 500 * time.Millisecond, ResponseBytes: 1})
	const stalled = 5
	for range stalled {
		stall(t, target)
	}
	n := testwait.Value(t, "all stalled clients to be cut", api.Responses, func(n promapi.ResponseStats) bool { return n.Cut == stalled })
	if n.Held != 0 || n.Unbuffered == 0 {
		t.Errorf("after %d stalled clients: %+v", stalled, n)
	}
	teststore.WaitForIdle(t, g)
}

// TestStalledStreams lets as many gRPC clients stop reading as queries can run. They are disconnected, and
// another query receives the complete response.
func TestStalledStreams(t *testing.T) {
	g := slowStore(t)
	a := storeapi.New(g, storeapi.Options{WriteTimeout: 200 * time.Millisecond})
	client := storepb.NewStoreClient(teststore.Dial(t, a.NewServer(), grpc.WithStaticStreamWindowSize(64<<10)))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var streams []storepb.Store_SeriesClient
	for range 2 {
		streams = append(streams, teststore.UntilFast(t, "the first message of a stream", func() (storepb.Store_SeriesClient, error) {
			stream, err := client.Series(ctx, teststore.EverythingIn())
			if err == nil {
				_, err = stream.Recv()
			}
			return stream, err
		}))
	}
	responses := teststore.UntilFast(t, "a response beside stalled clients", func() ([]*storepb.SeriesResponse, error) {
		responses, _, err := teststore.Receive(client.Series(t.Context(), teststore.EverythingIn()))
		return responses, err
	})
	if len(responses) == 0 {
		t.Error("beside stalled clients: no messages")
	}
	teststore.WaitForIdle(t, g) // nothing else stops the stalled streams
	if n := a.SlowClients(); n < 2 {
		t.Errorf("%d streams were cut", n)
	}
	for _, stream := range streams {
		_, err := stream.Recv()
		for err == nil {
			_, err = stream.Recv()
		}
		if code := status.Code(err); code != codes.Aborted && code != codes.Canceled {
			t.Errorf("a stalled stream ends with %v", err)
		}
	}
}
