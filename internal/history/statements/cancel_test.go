package statements_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// A countedContext is canceled by the n-th check of its error.
type countedContext struct {
	context.Context
	checks atomic.Int64 // that are left
	cancel context.CancelCauseFunc
}

var errCounted = errors.New("canceled by a check")

func newCountedContext(parent context.Context, checks int64) *countedContext {
	c := new(countedContext)
	c.Context, c.cancel = context.WithCancelCause(parent)
	c.checks.Store(checks)
	return c
}

// Err implements context.Context.
func (c *countedContext) Err() error {
	if c.checks.Add(-1) < 0 {
		c.cancel(errCounted)
	}
	return c.Context.Err()
}

// TestCanceledAnywhere cancels each kind of query at each of its checks: it has the whole result or an error.
func TestCanceledAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucketDir := t.TempDir()
		began := time.Now()
		one, two := newRigIn(t, bucketDir, "gw-1", 100), newRigIn(t, bucketDir, "gw-2", 100)
		one.start()
		two.start()
		for range 8 {
			for key := range 3 {
				one.call(key, time.Second, key == 1)
			}
			two.call(2, time.Second, false)
			time.Sleep(time.Hour)
		}
		for range 4 {
			time.Sleep(time.Minute)
			one.call(1, time.Second, false)
		}
		synctest.Wait() // for the round of this time
		now := time.Now()
		top := func(q statements.TopQuery) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) {
				top, err := statements.NewArchiveReader(one.archive, one.table).Top(ctx, q)
				if err != nil {
					return nil, err
				}
				if len(top.Rows) < 3 || top.Total.Calls == 0 || len(top.Notes) > 0 {
					return nil, fmt.Errorf("an incomplete result: %+v", top)
				}
				return *top, nil
			}
		}
		statement := func(q statements.StatementQuery) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) {
				st, err := statements.NewArchiveReader(one.archive, one.table).Statement(ctx, q)
				if err != nil {
					return nil, err
				}
				return *st, nil
			}
		}
		for name, read := range map[string]func(context.Context) (any, error){
			"samples":   top(statements.TopQuery{From: now.Add(-2 * time.Hour), To: now, Compare: true, Points: 20}),
			"past":      top(statements.TopQuery{From: now.Add(-3 * time.Hour), To: now.Add(-30 * time.Minute), Points: 5}),
			"rollups":   top(statements.TopQuery{From: began, To: now, Compare: true, Points: 20, Durations: true}),
			"all":       top(statements.TopQuery{From: began, To: now, AllInstances: true, Filter: "schema=shop"}),
			"statement": statement(statements.StatementQuery{Digest: hexOf(1), From: now.Add(-2 * time.Hour), To: now, Points: 20}),
			"its past":  statement(statements.StatementQuery{Digest: hexOf(1), From: began, To: now.Add(-time.Hour), Points: 20}),
		} {
			whole, err := read(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			canceled := 0
			for checks := int64(0); ; checks++ {
				ctx := newCountedContext(t.Context(), checks)
				got, err := read(ctx)
				if err == nil {
					if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", whole); a != b {
						t.Errorf("%s: canceled by check %d: %s, want %s or an error", name, checks, a, b)
					}
					if ctx.Context.Err() == nil {
						break // it has no more checks
					}
					continue
				}
				if canceled++; !errors.Is(err, errCounted) && !errors.Is(err, context.Canceled) {
					t.Errorf("%s: canceled by check %d: %v", name, checks, err)
				}
			}
			t.Logf("%s: %d checks", name, canceled)
			if canceled < 2 {
				t.Errorf("%s: canceled %d times", name, canceled)
			}
		}
		one.stop()
		two.stop()
	})
}
