package parallel

import (
	"context"
	"sync/atomic"
	"testing"
)

// TestOnce calls do once for each item, in contexts that are done when ForEach returns.
func TestOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 50, 51} {
		calls := make([]atomic.Int64, 50)
		items := make([]*atomic.Int64, len(calls))
		for i := range items {
			items[i] = &calls[i]
		}
		var last atomic.Pointer[context.Context]
		if err := ForEach(t.Context(), n, items, func(ctx context.Context, c *atomic.Int64) error {
			last.Store(&ctx)
			c.Add(1)
			return nil
		}); err != nil {
			t.Error(err)
		}
		for i := range calls {
			if got := calls[i].Load(); got != 1 {
				t.Errorf("%d at once: item %d was visited %d times", n, i, got)
			}
		}
		if done := (*last.Load()).Err() != nil; done != (n > 1) { // with 1 it is the caller's
			t.Errorf("%d at once: the context is done: %t", n, done)
		}
	}
}
