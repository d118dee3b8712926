package parallel

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/internal/panics"
)

// ForEach calls do for each item, with at most n concurrent calls, and returns when all calls have returned.
// The first error cancels the context of the other calls, and is returned; a panic is an error. Items are
// skipped once the context is done. With one item, or n at most 1, it calls do in the caller's goroutine.
func ForEach[T any](ctx context.Context, n int, items []T, do func(context.Context, T) error) error {
	if n = min(n, len(items)); n <= 1 {
		for _, item := range items {
			if err := do(ctx, item); err != nil {
				return err
			}
		}
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n)
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return panics.Guard(func() error { return do(ctx, item) })
		})
	}
	stopped := context.Cause(ctx) // before Wait, which cancels the context
	if err := group.Wait(); err != nil {
		return err
	}
	return stopped
}
