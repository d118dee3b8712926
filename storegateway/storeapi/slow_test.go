package storeapi

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway"
	"github.com/taredb/tare/storegateway/storepb"
)

// TestSlowReaders has clients that stop reading after one message. Each holds its batches and
// frames, not its answer; another client, which has to wait for nobody, reads all of it. When the
// slow ones leave, or are too slow for the time that a query has, nothing is held.
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
	// A window that does not grow: what a client that does not read is sent is bounded by it, not by
	// how fast messages came before.
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
	answer := 0
	for range 3 {
		responses, _, err := teststore.Receive(client.Series(t.Context(), teststore.EverythingIn()))
		if err != nil {
			t.Fatal(err)
		}
		answer = 0
		for _, r := range responses {
			answer += r.SizeVT()
		}
	}
	n := g.Gate().Stats()
	// A batch of 1 MiB in use, one ahead, each with what it read beside chunks; one frame.
	const most = 5 << 20
	if n.Running != slow || n.Held > slow*most || n.Held == 0 || answer < most {
		t.Errorf("%d slow readers of %d bytes each hold %d bytes", n.Running, answer, n.Held)
	}
	leave()
	teststore.WaitForIdle(t, g)

	// One that does not leave is ended when its time is over.
	hasty := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{Timeout: 100 * time.Millisecond}).NewServer(), window))
	stream, err := hasty.Series(t.Context(), teststore.EverythingIn())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv() // on a slow machine the time may be over by now
	teststore.WaitForIdle(t, g)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want a deadline", err)
	}
}
