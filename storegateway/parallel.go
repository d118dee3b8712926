package storegateway

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/panics"
)

// forEach calls do for each item, with at most n calls at once, and waits for them. The first
// error ends the context of the others, and is returned.
func forEach[T any](ctx context.Context, n int, items []T, do func(context.Context, T) error) error {
	if n = min(n, len(items)); n <= 1 {
		for _, item := range items {
			if err := do(ctx, item); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next    atomic.Int64
		once    sync.Once
		first   error
		workers sync.WaitGroup
	)
	for range n {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(items)) {
					return
				}
				if err := panics.Guard(func() error { return do(ctx, items[i]) }); err != nil {
					once.Do(func() {
						first = err
						cancel(err)
					})
				}
			}
		})
	}
	workers.Wait()
	if first == nil && next.Load() < int64(len(items)) {
		return context.Cause(ctx)
	}
	return first
}
