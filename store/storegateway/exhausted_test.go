package storegateway_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// seriesTexts returns each series of a set, with its samples.
func seriesTexts(set storage.SeriesSet) (all []string, err error) {
	var it chunkenc.Iterator
	for set.Next() {
		var text strings.Builder
		text.WriteString(set.At().Labels().String())
		it = set.At().Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			value := 0.0
			if kind == chunkenc.ValFloat {
				_, value = it.At()
			}
			fmt.Fprint(&text, " ", kind, it.AtT(), " ", value)
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
		all = append(all, text.String())
	}
	return all, set.Err()
}

// queryForms are the forms of a query through Prometheus' interfaces.
func queryForms(g *storegateway.Gateway) map[string]func(context.Context) ([]string, error) {
	some := labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")
	querier := func(read func(context.Context, storage.Querier) ([]string, error)) func(context.Context) ([]string, error) {
		return func(ctx context.Context) ([]string, error) {
			q, err := g.Queryable(noTenant).Querier(math.MinInt64, math.MaxInt64)
			if err != nil {
				return nil, err
			}
			all, err := read(ctx, q)
			return all, errors.Join(err, q.Close())
		}
	}
	return map[string]func(context.Context) ([]string, error){
		"samples": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			return seriesTexts(q.Select(ctx, true, nil, some))
		}),
		"series": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			return seriesTexts(q.Select(ctx, true, &storage.SelectHints{Func: "series", Start: math.MinInt64, End: math.MaxInt64}, some))
		}),
		"two selects": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			a, b := q.Select(ctx, true, nil, some), q.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchRegexp, "job", ".*"), some)
			x, err := seriesTexts(a)
			y, errB := seriesTexts(b)
			return append(x, y...), errors.Join(err, errB)
		}),
		"names": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			all, _, err := q.LabelNames(ctx, nil)
			return all, err
		}),
		"names of series": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			all, _, err := q.LabelNames(ctx, nil, some)
			return all, err
		}),
		"values": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			all, _, err := q.LabelValues(ctx, "__name__", nil)
			return all, err
		}),
		"values of series": querier(func(ctx context.Context, q storage.Querier) ([]string, error) {
			all, _, err := q.LabelValues(ctx, "job", nil, some)
			return all, err
		}),
		"chunks": func(ctx context.Context) (all []string, err error) {
			q, err := g.ChunkQueryable(noTenant).ChunkQuerier(math.MinInt64, math.MaxInt64)
			if err != nil {
				return nil, err
			}
			set := q.Select(ctx, true, nil, some)
			for set.Next() {
				var text strings.Builder
				text.WriteString(set.At().Labels().String())
				it := set.At().Iterator(nil)
				for it.Next() {
					fmt.Fprintf(&text, " %d-%d %x", it.At().MinTime, it.At().MaxTime, it.At().Chunk.Bytes())
				}
				if err = it.Err(); err != nil {
					break
				}
				all = append(all, text.String())
			}
			return all, errors.Join(err, set.Err(), q.Close())
		},
	}
}

// TestBytesExhausted runs each form of query with quotas from little to all that it needs: it has the whole result or the error of a limit,
// and nothing stays reserved.
func TestBytesExhausted(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	for what, query := range queryForms(g) {
		run := func(ballast int64) (all []string, peak int64, err error) {
			q, err := g.Admit(t.Context(), storegateway.Admission{})
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			if err := q.Quota().Reserve(slab.ResponseBytes, ballast); err != nil {
				t.Fatal(err)
			}
			all, err = query(storegateway.WithQuery(t.Context(), q))
			peak = q.Quota().Peak() - ballast
			q.Quota().Return(slab.ResponseBytes, ballast)
			return all, peak, err
		}
		want, peak, err := run(0)
		if err != nil || peak == 0 || len(want) == 0 {
			t.Fatalf("%s: %d results, %d bytes, %v", what, len(want), peak, err)
		}
		refused := 0
		for room := int64(1); room < peak; room += max(1, peak/6) {
			got, _, err := run(16<<20 - room)
			if err != nil {
				if refused++; !storegateway.IsLimit(err) {
					t.Errorf("%s in %d of %d bytes: %v", what, room, peak, err)
				}
				continue
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s in %d of %d bytes: -want +got\n%.500s", what, room, peak, d)
			}
		}
		if refused == 0 {
			t.Errorf("%s needs %d bytes, and is never refused", what, peak)
		}
		teststore.WaitForIdle(t, g)
	}
}

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

// TestCanceledAnywhere cancels each form of query at some of its checks: it has the whole result, or the error of its context.
func TestCanceledAnywhere(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	for what, query := range queryForms(g) {
		want, err := query(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for checks := int64(0); checks < 4000; checks = 4*checks + 1 {
			ctx := new(countedContext)
			ctx.Context, ctx.cancel = context.WithCancel(t.Context())
			ctx.left.Store(checks)
			got, err := query(ctx)
			ended := ctx.Context.Err() == nil
			ctx.cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, canceled by check %d: %v", what, checks, err)
			}
			if d := cmp.Diff(want, got); err == nil && d != "" {
				t.Errorf("%s, canceled by check %d: -want +got\n%.500s", what, checks, d)
			}
			if ended {
				break
			}
		}
		teststore.WaitForIdle(t, g)
	}
}
