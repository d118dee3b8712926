package storegateway_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
)

var randomExprs = flag.Int("random-exprs", 150, "expressions of TestRandomPromQL")

// unstableTries is how often an expression with two results is evaluated by Prometheus' own reader before the
// difference counts. A result that occurs in one of n evaluations is otherwise taken for a wrong one in as many runs.
const unstableTries = 2000

// TestRandomPromQL evaluates random expressions over the gateway and over Prometheus' own reader of the same
// blocks: values, order of series, warnings and errors are equal.
func TestRandomPromQL(t *testing.T) {
	seed := testseed.New(t)
	w := newTwin(t, seed, nil, selectOptions{})
	theirs, ours := queryBlocks(w.blocks), w.gateway.Queryable(noTenant)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		Parser: parser.NewParser(parser.Options{ExperimentalDurationExpr: true}),
	})
	t.Cleanup(func() { _ = engine.Close() })
	r := rand.New(rand.NewPCG(seed, 2))
	g := testpromql.New(r, w.allLabels(t), w.start, w.end)
	failed, empty, unstable := 0, 0, 0
	// The labels of absent depend on the order in which the storage leaves the selector's matchers.
	orders := []string{
		`absent(metric_2{zone!~"[a-m].*",zone="nowhere"})`, `absent_over_time(metric_2{zone="nowhere",zone!="eu"}[1m])`,
		`absent(metric_2{le!="",le="0.3",le=~".*"})`, `absent({zone="",zone!="x",zone="y",job="z"})`, `absent({le!~"x",le!~"",le="q"})`,
	}
	for n := range *randomExprs {
		expr, start := g.Expr(), g.Time()
		if n < 2*len(orders) {
			expr, start = orders[n/2], w.start+int64(n%2)*(2*w.end-w.start) // among the blocks, and after them
		}
		step := time.Duration(1+r.IntN(300)) * time.Second
		points := r.IntN(20)
		run := func(q storage.Queryable) (string, bool) {
			var query promql.Query
			var err error
			if points == 0 {
				query, err = engine.NewInstantQuery(t.Context(), q, nil, expr, time.UnixMilli(start))
			} else {
				query, err = engine.NewRangeQuery(t.Context(), q, nil, expr, time.UnixMilli(start), time.UnixMilli(start).Add(time.Duration(points)*step), step)
			}
			if err != nil {
				return err.Error(), true
			}
			defer query.Close()
			res := query.Exec(t.Context())
			if res.Err != nil {
				return res.Err.Error(), true
			}
			var warnings []string
			for text := range res.Warnings {
				warnings = append(warnings, text)
			}
			slices.Sort(warnings)
			return fmt.Sprintf("%s\n%s", res.Value, strings.Join(warnings, "\n")), false
		}
		want, wrong := run(theirs)
		if got, _ := run(ours); got != want {
			// The engine iterates over the series of a match group, and adds floats, in map order: the result
			// of such an expression varies from run to run. And changes counts the empty buckets that chunks have:
			// of a sample in two blocks either is right.
			compactTheirs, _ := run(compacted{theirs})
			compactOurs, _ := run(compacted{ours})
			differs := compactTheirs == compactOurs
			for i := 0; i < unstableTries && !differs; i++ {
				again, _ := run(theirs)
				differs = again != want
			}
			if differs {
				unstable++
				continue
			}
			t.Fatalf("%s\nat %d, %d steps of %v:\n%s", expr, start, points, step, cmp.Diff(want, got))
		}
		if wrong {
			failed++
		}
		if strings.TrimSpace(want) == "" {
			empty++
		}
	}
	t.Logf("%d expressions, %d errors, %d empty results, %d unstable ones", *randomExprs, failed, empty, unstable)
	if *randomExprs >= 100 && failed+empty > *randomExprs*3/4 {
		t.Errorf("%d of %d expressions have no result", failed+empty, *randomExprs)
	}
}

// queryBlocks returns Prometheus' own reader of blocks.
func queryBlocks(blocks []*tsdb.Block) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		var qs []storage.Querier
		for _, b := range blocks {
			if !b.OverlapsClosedInterval(mint, maxt) {
				continue
			}
			q, err := tsdb.NewBlockQuerier(b, mint, maxt)
			if err != nil {
				return nil, err
			}
			qs = append(qs, q)
		}
		return storage.NewMergeQuerier(qs, nil, storage.ChainedSeriesMerge), nil
	})
}

// compacted removes the empty buckets of histograms.
type compacted struct{ storage.Queryable }

func (c compacted) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := c.Queryable.Querier(mint, maxt)
	return compactedQuerier{q}, err
}

type compactedQuerier struct{ storage.Querier }

func (c compactedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return compactedSet{c.Querier.Select(ctx, sorted, hints, matchers...)}
}

type compactedSet struct{ storage.SeriesSet }

func (c compactedSet) At() storage.Series { return compactedSeries{c.SeriesSet.At()} }

type compactedSeries struct{ storage.Series }

func (c compactedSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return compactedIterator{c.Series.Iterator(nil)}
}

type compactedIterator struct{ chunkenc.Iterator }

func (c compactedIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := c.Iterator.AtHistogram(nil)
	return t, h.Compact(0)
}

func (c compactedIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := c.Iterator.AtFloatHistogram(nil)
	return t, h.Compact(0)
}

// allLabels returns the labels of all series.
func (w *twin) allLabels(t *testing.T) (all []labels.Labels) {
	t.Helper()
	set := w.querier(t, w.start, w.end).Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+"))
	for set.Next() {
		all = append(all, set.At().Labels())
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
