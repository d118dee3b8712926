package parallel

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/panics"
)

// ForEach calls do for each item, with at most n concurrent calls, and returns when all calls have returned.
// The first error cancels the context of the other calls, and is returned; a panic is an error. Items are
// skipped once the context is done. With one item, or n at most 1, it calls do in the caller's goroutine.
// Otherwise n goroutines call it: one for each item would grow its stack for each.
func ForEach[T any](ctx context.Context, n int, items []T, do func(context.Context, T) error) error {
	if n = min(n, len(items)); n <= 1 {
		for _, item := range items {
			if err := do(ctx, item); err != nil {
				return err
			}
		}
		return nil
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var skipped atomic.Bool
	var once sync.Once
	var first error
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				if own.Err() != nil {
					skipped.Store(true)
					return
				}
				if err := panics.Guard(func() error { return do(own, items[i]) }); err != nil {
					once.Do(func() { first = err })
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if first == nil && skipped.Load() {
		return context.Cause(ctx)
	}
	return first
}
