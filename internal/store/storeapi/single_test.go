package storeapi

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

// labelStore returns a store with some hundred kilobytes of label values, for one whole query and light ones.
func labelStore(t *testing.T) *storegateway.Gateway {
	t.Helper()
	dir := shared.Dir(t, "labels", func(dir string) error {
		shape := testblock.Shape{Count: 8000, Samples: 1, Seed: 1}
		_, err := shape.Write(dir, testblock.Options{})
		return err
	})
	return teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 48 << 20, PerQuery: 32 << 20, Light: 16 << 20})
	})
}

// stallCall sends a request and reads only the header of the response.
func stallCall(ctx context.Context, c *grpc.ClientConn, method string, request vtMessage) error {
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	header, err := stream.Header()
	if err == nil && header == nil { // the call finished without a header
		err = stream.RecvMsg(&storepb.LabelValuesResponse{})
	}
	return err
}

func valuesOfI() *storepb.LabelValuesRequest {
	return &storepb.LabelValuesRequest{Label: "i", End: 1 << 60}
}

// TestStalledLabels lets clients of LabelValues stop reading. Each encoded response is charged to the budget
// of responses until its client disconnects; no query stays admitted, and another client is served.
func TestStalledLabels(t *testing.T) {
	g := labelStore(t)
	budget := promapi.NewResponseBudget(64 << 20)
	a := New(g, Options{WriteTimeout: time.Hour, Responses: budget})
	conn := teststore.Dial(t, a.NewServer(), grpc.WithStaticStreamWindowSize(64<<10))
	client := storepb.NewStoreClient(conn)
	want, err := client.LabelValues(t.Context(), valuesOfI())
	if err != nil {
		t.Fatal(err)
	}
	size := int64(want.SizeVT())
	testwait.Until(t, "the budget to be free", func() bool { return budget.Reserved() == 0 })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	const stalled = 12 // more than the concurrent light queries
	for range stalled {
		if err := stallCall(ctx, conn, "/thanos.Store/LabelValues", valuesOfI()); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, "all responses to be charged", func() bool { return budget.Reserved() == stalled*size })
	teststore.WaitForIdle(t, g)
	got, err := client.LabelValues(t.Context(), valuesOfI())
	if err != nil || len(got.GetValues()) != len(want.GetValues()) {
		t.Errorf("beside stalled clients: %d values, %v", len(got.GetValues()), err)
	}
	leave()
	testwait.Until(t, "the budget to be free", func() bool { return budget.Reserved() == 0 })
	if n := a.cancelled.Load() + a.unbuffered.Load(); n != 0 {
		t.Errorf("%d clients were cut or had no room", n)
	}
}

// TestStalledLabelsUnbuffered has no room for responses: each is charged to its query, and the clients are
// disconnected, so that others are served.
func TestStalledLabelsUnbuffered(t *testing.T) {
	g := labelStore(t)
	a := New(g, Options{WriteTimeout: 50 * time.Millisecond, Responses: promapi.NewResponseBudget(1)})
	conn := teststore.Dial(t, a.NewServer(), grpc.WithStaticStreamWindowSize(64<<10))
	client := storepb.NewStoreClient(conn)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	const stalled = 12
	for range stalled {
		teststore.UntilFast(t, "the header of a response", func() (struct{}, error) {
			return struct{}{}, stallCall(ctx, conn, "/thanos.Store/LabelValues", valuesOfI())
		})
	}
	got := teststore.UntilFast(t, "a response beside stalled clients", func() (*storepb.LabelValuesResponse, error) {
		return client.LabelValues(t.Context(), valuesOfI())
	})
	if len(got.GetValues()) != 8000 {
		t.Errorf("beside stalled clients: %d values", len(got.GetValues()))
	}
	teststore.WaitForIdle(t, g) // nothing else stops the stalled calls
	if n := a.cancelled.Load(); n < stalled {
		t.Errorf("%d clients were cut, want %d", n, stalled)
	}
	if n := a.unbuffered.Load(); n < stalled+1 {
		t.Errorf("%d responses had no room, want %d", n, stalled+1)
	}
}

// An encodingOf records the compression of the last response on a client's connection.
type encodingOf struct{ last atomic.Pointer[string] }

func (e *encodingOf) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (e *encodingOf) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (e *encodingOf) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *encodingOf) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		e.last.Store(&h.Compression)
	}
}

// TestCompressedLabels requests label values and information about the store with compressed messages. Values are
// compressed, however many; the information, which clients share, is not.
func TestCompressedLabels(t *testing.T) {
	g := labelStore(t)
	var encoding encodingOf
	budget := promapi.NewResponseBudget(64 << 20)
	conn := teststore.Dial(t, New(g, Options{Responses: budget}).NewServer(), grpc.WithStatsHandler(&encoding))
	client := storepb.NewStoreClient(conn)
	for limit, want := range map[int64]int{10: 10, 0: 8000} {
		r := valuesOfI()
		r.Limit = limit
		for compressor, encoded := range map[string]string{"snappy": "snappy", "gzip": "gzip", "identity": ""} {
			got, err := client.LabelValues(t.Context(), r, grpc.UseCompressor(compressor))
			if err != nil || len(got.GetValues()) != want {
				t.Fatalf("%d values of %d, %v", len(got.GetValues()), want, err)
			}
			if last := *encoding.last.Load(); last != encoded {
				t.Errorf("a response of %d bytes has encoding %q, want %q", got.SizeVT(), last, encoded)
			}
		}
	}
	if _, err := storepb.NewInfoClient(conn).Info(t.Context(), &storepb.InfoRequest{}, grpc.UseCompressor("snappy")); err != nil {
		t.Fatal(err)
	}
	if last := *encoding.last.Load(); last != "" && last != "identity" {
		t.Errorf("the response of Info has encoding %q", last)
	}
	testwait.Until(t, "the budget to be free", func() bool { return budget.Reserved() == 0 })
}

// TestInfoIsShared expects responses of Info to share their bytes until the blocks change.
func TestInfoIsShared(t *testing.T) {
	g := labelStore(t)
	a := New(g, Options{})
	first, err := a.encodedInfo()
	if err != nil || len(first) == 0 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	second, err := a.encodedInfo()
	if err != nil || &first[0] != &second[0] {
		t.Errorf("Info is encoded for each client, %v", err)
	}
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.info.encoded = nil
	third, err := a.encodedInfo()
	if err != nil || &first[0] == &third[0] || string(first) != string(third) {
		t.Errorf("Info of other blocks has the bytes of those before, %v", err)
	}
}

// TestHealth checks the server, a service of it, and one that it does not have.
func TestHealth(t *testing.T) {
	client := healthpb.NewHealthClient(teststore.Dial(t, New(teststore.Open(t, t.TempDir(), nil), Options{}).NewServer()))
	if r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the server: %v, %v", r, err)
	}
	if r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v, %v", r, err)
	}
}
