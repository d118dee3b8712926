package storeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

// dialServed serves the API as `tare store` does and returns a connection to it whose windows do not grow.
func dialServed(t *testing.T, a *API) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, done := a.NewServer(), make(chan error, 1)
	go func() { done <- a.Serve(s, l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := testwait.Receive(t, "Serve to return", done); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// abandonedStore returns a store whose responses are larger than a window.
func abandonedStore(t *testing.T) *storegateway.Gateway {
	t.Helper()
	dir := shared.Dir(t, "abandoned", func(dir string) error {
		shape := testblock.BlockSeries()
		shape.Count = 150
		if _, err := shape.Write(dir, testblock.Options{}); err != nil {
			return err
		}
		many := testblock.Shape{Count: 8000, Samples: 1, Seed: 1}
		_, err := many.Write(dir, testblock.Options{})
		return err
	})
	return teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 96 << 20, PerQuery: 16 << 20, Light: 16 << 20})
	})
}

// An abandonedCall is a request whose client reads its header and nothing more.
type abandonedCall struct {
	name, method string
	request      vtMessage
	compressor   string
}

func abandonedCalls() []abandonedCall {
	series := teststore.EverythingIn()
	series.ResponseBatchSize = 16
	return []abandonedCall{
		{"series", "/thanos.Store/Series", series, "identity"},
		{"series by snappy", "/thanos.Store/Series", series, snappyName},
		{"series by gzip", "/thanos.Store/Series", series, "gzip"},
		{"values", "/thanos.Store/LabelValues", valuesOfI(), "identity"},
	}
}

// start starts the call.
func (c abandonedCall) start(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, c.method, grpc.UseCompressor(c.compressor))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(c.request); err != nil && !errors.Is(err, io.EOF) { // of a call that has already ended
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return stream
}

// end reads a stream and returns its error.
func (c abandonedCall) end(stream grpc.ClientStream) error {
	for {
		var m interface{ Reset() } = &storepb.SeriesResponse{}
		if c.method != "/thanos.Store/Series" {
			m = &storepb.LabelValuesResponse{}
		}
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
	}
}

// waitForHandlers waits until no handler of a method runs.
func waitForHandlers(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	testwait.Until(t, "all handlers to return", func() bool {
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("storeapi.(*API).send"))
	})
}

// TestAbandonedCallsAreCharged lets clients stop reading until the time of their queries ends. What the
// transport then keeps for them is charged to the budget of responses, though no query runs, until they read
// it, cancel their calls or close the connection. A client that reads gets the error, never the end of a
// complete response.
func TestAbandonedCallsAreCharged(t *testing.T) {
	g := abandonedStore(t)
	for _, c := range abandonedCalls() {
		t.Run(c.name, func(t *testing.T) {
			for _, how := range []string{"read", "cancel", "close"} {
				budget := promapi.NewResponseBudget(64 << 20)
				a := New(g, Options{Timeout: 300 * time.Millisecond, WriteTimeout: time.Hour, Responses: budget})
				conn := dialServed(t, a)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var stream grpc.ClientStream
				testwait.Until(t, "a call that ends while its response is being sent", func() bool {
					stream = c.start(ctx, t, conn)
					waitForHandlers(t)
					return budget.Reserved() > 0
				})
				if n := budget.Reserved(); n < 32<<10 || n > 2<<20 {
					t.Errorf("%d bytes are charged for an abandoned call", n)
				}
				switch how {
				case "read":
					if err := c.end(stream); status.Code(err) != codes.DeadlineExceeded {
						t.Errorf("an abandoned call ends with %v", err)
					}
				case "cancel":
					leave()
				case "close":
					_ = conn.Close()
				}
				testwait.Until(t, "the budget to be free after "+how, func() bool { return budget.Reserved() == 0 })
				if how != "close" && conn.GetState() != connectivity.Ready {
					t.Errorf("after %s the connection is %v", how, conn.GetState())
				}
			}
		})
	}
}

// TestAbandonedConnectionsAreClosed lets clients stop reading beyond the write time limit: when neither the call
// nor what remains of it has moved for that time, or there is no room to charge the rest, their connection is
// closed.
func TestAbandonedConnectionsAreClosed(t *testing.T) {
	g := abandonedStore(t)
	for _, c := range abandonedCalls() {
		for name, room := range map[string]int64{"": 64 << 20, " without room": 1} {
			t.Run(c.name+name, func(t *testing.T) {
				budget := promapi.NewResponseBudget(room)
				conn := dialServed(t, New(g, Options{WriteTimeout: 100 * time.Millisecond, Responses: budget}))
				stream := c.start(t.Context(), t, conn)
				testwait.Until(t, "the connection to be closed", func() bool { return conn.GetState() != connectivity.Ready })
				if err := c.end(stream); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("the call ends with %v", err)
				}
				teststore.WaitForIdle(t, g)
				testwait.Until(t, "the budget to be free", func() bool { return budget.Reserved() == 0 })
			})
		}
	}
}
