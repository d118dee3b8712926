package storeapi

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// TestSlowReaders runs clients that stop reading after one message. Each keeps its batches and frames in
// memory, not its whole response; another client reads its whole response without waiting for them. When the
// slow clients disconnect, or exceed the time of a query, everything is released.
func TestSlowReaders(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 150
	if _, err := shape.Write(dir, testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	const slow, quota = 3, 16 << 20
	g := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: (slow + 1) * quota, PerQuery: quota})
	})
	// A fixed window bounds the bytes sent to a client that does not read, regardless of how fast it read
	// before.
	window := grpc.WithStaticStreamWindowSize(64 << 10)
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer(), window))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range slow {
		stream, err := client.Series(ctx, teststore.EverythingIn())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	resp := 0
	for range 3 {
		responses, _, err := teststore.Receive(client.Series(t.Context(), teststore.EverythingIn()))
		if err != nil {
			t.Fatal(err)
		}
		resp = 0
		for _, r := range responses {
			resp += r.SizeVT()
		}
	}
	n := g.Gate().Stats()
	// A batch of 1 MiB in use and one ahead, each with index data beside its chunks; one frame.
	const most = 5 << 20
	if n.Running != slow || n.Held > slow*most || n.Held == 0 || resp < most {
		t.Errorf("%d slow readers of %d bytes each hold %d bytes", n.Running, resp, n.Held)
	}
	leave()
	teststore.WaitForIdle(t, g)

	// A client that stays connected is disconnected by the time limit.
	hasty := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{Timeout: 100 * time.Millisecond}).NewServer(), window))
	stream, err := hasty.Series(t.Context(), teststore.EverythingIn())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv() // on a slow machine the time may have passed already
	teststore.WaitForIdle(t, g)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want a deadline", err)
	}
}
