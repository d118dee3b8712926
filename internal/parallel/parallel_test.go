package parallel

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/testwait"
)

// TestForEach visits all items, with at most the permitted number of concurrent calls.
func TestForEach(t *testing.T) {
	for _, n := range []int{0, 1, 3, 100} {
		var running, most, sum atomic.Int64
		items := make([]int64, 50)
		for i := range items {
			items[i] = int64(i)
		}
		err := ForEach(t.Context(), n, items, func(_ context.Context, i int64) error {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			sum.Add(i)
			return nil
		})
		if err != nil || sum.Load() != 49*50/2 || most.Load() > int64(max(n, 1)) {
			t.Errorf("%d at once: %v, sum %d, at most %d at once", n, err, sum.Load(), most.Load())
		}
	}
}

// TestForEachErrors cancels the other calls by an error, a panic, or the context.
func TestForEachErrors(t *testing.T) {
	errFirst := errors.New("first")
	for _, n := range []int{1, 4} {
		err := ForEach(t.Context(), n, []int{1, 2, 3, 4, 5, 6}, func(ctx context.Context, i int) error {
			if i == 1 {
				return errFirst
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errFirst) {
			t.Errorf("%d at once: %v", n, err)
		}
	}
	if err := ForEach(t.Context(), 2, []int{1, 2}, func(context.Context, int) error { panic("BUG: in a call") }); panics.Of(err) == nil {
		t.Errorf("a panic: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan int, 10)
	done := make(chan error, 1)
	go func() {
		done <- ForEach(ctx, 2, slices.Repeat([]int{1}, 10), func(ctx context.Context, i int) error {
			started <- i
			<-ctx.Done()
			return nil
		})
	}()
	testwait.Receive(t, "a call", started)
	cancel(errFirst)
	if err := testwait.Receive(t, "the calls to return", done); !errors.Is(err, errFirst) {
		t.Errorf("a context that ended: %v", err)
	}
}
