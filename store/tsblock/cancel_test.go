package tsblock

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
)

// A countedContext is canceled by the n-th check of its error.
type countedContext struct {
	context.Context
	left   atomic.Int64
	cancel context.CancelFunc
}

// Err implements context.Context.
func (c *countedContext) Err() error {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestCanceledAnywhere cancels each kind of query at each of its checks, of a block that is read first then and of one whose pages are
// cached: it has the whole result or an error. The next query has the whole result.
func TestCanceledAnywhere(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(5, 6)), 400))
	objects := readSource(t, dir, name)
	some := labels.MustNewMatcher(labels.MatchRegexp, "some", "a.*")
	rows := func(shard Shard) func(context.Context, *Reader) (any, error) {
		return func(ctx context.Context, r *Reader) (any, error) {
			p, err := r.Postings(ctx, some)
			if err != nil {
				return nil, err
			}
			return readRows(ctx, r.Series(p, Select{MinTime: 0, MaxTime: math.MaxInt64, Shard: shard}))
		}
	}
	for what, query := range map[string]func(context.Context, *Reader) (any, error){
		"series":           rows(Shard{}),
		"a shard":          rows(Shard{1, 3}),
		"names":            func(ctx context.Context, r *Reader) (any, error) { return r.LabelNames(ctx, 0) },
		"names of series":  func(ctx context.Context, r *Reader) (any, error) { return r.LabelNames(ctx, 0, some) },
		"values":           func(ctx context.Context, r *Reader) (any, error) { return r.LabelValues(ctx, "unique", 0) },
		"values of series": func(ctx context.Context, r *Reader) (any, error) { return r.LabelValues(ctx, "unique", 0, some) },
	} {
		e := newEnv(t)
		once := func(ctx context.Context, b *Block) (any, error) {
			r, done := e.reader(t, b)
			defer done()
			return query(ctx, r)
		}
		open := func() *Block {
			o := e.options
			o.LocalDir = t.TempDir()
			b, err := openBlock(t.Context(), objects, name, o)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		warm := open()
		want, err := once(t.Context(), warm)
		if err != nil {
			t.Fatal(err)
		}
		for _, cached := range []bool{true, false} {
			canceled := 0
			for checks := int64(0); ; checks++ {
				b := warm
				if !cached {
					b = open()
				}
				ctx := new(countedContext)
				ctx.Context, ctx.cancel = context.WithCancel(t.Context())
				ctx.left.Store(checks)
				got, err := once(ctx, b)
				if err != nil {
					canceled++
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s, canceled by check %d: %v", what, checks, err)
					}
					got, err = once(t.Context(), b)
				}
				if d := cmp.Diff(want, got); d != "" || err != nil {
					t.Errorf("%s, canceled by check %d: %v, -want +got\n%.500s", what, checks, err, d)
				}
				if !cached {
					b.Close()
				}
				ended := ctx.Context.Err() == nil
				ctx.cancel()
				if ended || checks > 400 {
					break
				}
			}
			t.Logf("%s, cached %v: canceled %d times", what, cached, canceled)
		}
		warm.Close()
	}
}
