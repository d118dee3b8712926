package storeapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A bytesCodec sends bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// TestMalformedRequests refuses messages that are no requests, of each method.
func TestMalformedRequests(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	conn := teststore.Dial(t, New(g, Options{}).NewServer())
	for _, method := range []string{
		"/thanos.Store/Series", "/thanos.Store/LabelNames", "/thanos.Store/LabelValues", "/thanos.info.Info/Info", healthpb.Health_Check_FullMethodName,
	} {
		for _, text := range []string{"\xff", "\x0a\x05x", "\x07"} { // a partial number, a short field, a wrong type
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(bytesCodec{}))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(stream.SendMsg([]byte(text)), stream.CloseSend()); err != nil {
				t.Fatal(err)
			}
			var got []byte
			if err := stream.RecvMsg(&got); err == nil || errors.Is(err, io.EOF) || status.Code(err) != codes.Internal {
				t.Errorf("%s of %q: %q, %v; want code Internal", method, text, got, err)
			}
		}
	}
	teststore.WaitForIdle(t, g)
}

// A failingListener accepts no connection.
type failingListener struct {
	net.Listener
	err error
}

func (l failingListener) Accept() (net.Conn, error) { return nil, l.err }

// TestServeFails returns the error of the listener.
func TestServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := New(teststore.Open(t, t.TempDir(), nil), Options{})
	if err := a.Serve(a.NewServer(), failingListener{l, io.ErrUnexpectedEOF}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "serve gRPC: ") {
		t.Errorf("serving: %v", err)
	}
}

// TestAggregatesOfRequest converts the aggregates that a request has, each alone and together, and fails for one that a chunk
// lacks only if the request has it.
func TestAggregatesOfRequest(t *testing.T) {
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	quota, err := gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer quota.Close()
	var all tsblock.Aggregates
	kinds := []storepb.Aggr{storepb.Aggr_COUNT, storepb.Aggr_SUM, storepb.Aggr_MIN, storepb.Aggr_MAX, storepb.Aggr_COUNTER}
	for kind := range all {
		all[kind].Encoding, all[kind].Data = byte(chunkenc.EncXOR), bytes.Repeat([]byte{byte('a' + kind)}, 20+kind)
	}
	for mask := range 1 << len(kinds) {
		for missing := -1; missing < len(kinds); missing++ {
			some := all
			if missing >= 0 {
				some[missing].Data = nil
			}
			c := &converter{quota: quota}
			for kind, aggr := range kinds {
				if mask>>kind&1 != 0 {
					c.aggregates = append(c.aggregates, aggr)
				}
			}
			chunk := storegateway.ChunkView{MinTime: 1, MaxTime: 2, Encoding: tsblock.EncodingAggregates, Data: some.AppendTo(nil)}
			err := c.growAggregates([]storegateway.ChunkView{chunk})
			if err == nil {
				err = c.append(&chunk)
			}
			if lacks := missing >= 0 && mask>>missing&1 != 0; (err != nil) != lacks {
				t.Errorf("aggregates %v without %d: %v", c.aggregates, missing, err)
			}
			if err == nil {
				var message storepb.AggrChunk
				if err := message.UnmarshalVT(c.chunks[0].Data); err != nil {
					t.Fatal(err)
				}
				for kind, got := range []*storepb.Chunk{message.GetCount(), message.GetSum(), message.GetMin(), message.GetMax(), message.GetCounter()} {
					if requested := slices.Contains(c.aggregates, kinds[kind]); requested != (got != nil) || requested && !bytes.Equal(got.GetData(), some[kind].Data) {
						t.Errorf("aggregates %v: %s is %q", c.aggregates, kinds[kind], got.GetData())
					}
				}
			}
			c.close()
		}
	}
}
