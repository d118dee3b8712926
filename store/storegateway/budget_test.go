package storegateway_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// writeHeavy writes a block of 400 series, 4.8 MB of chunks.
func writeHeavy(t *testing.T) string {
	t.Helper()
	return shared.Dir(t, "heavy", func(dir string) error {
		shape := testblock.Shape{Count: 400, Samples: 12 * 120, Interval: 15 * time.Second, Seed: 1}
		_, err := shape.Write(dir, testblock.Options{External: map[string]string{}})
		return err
	})
}

func everySeries() []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "foo", "bar")}
}

// drain reads a set to its end and returns the number of series and of chunk bytes.
func drain(set *storegateway.SeriesSet) (series int, bytes int64, err error) {
	for set.Next() {
		series++
		for _, c := range set.At().Chunks {
			bytes += int64(len(c.Data))
		}
	}
	return series, bytes, set.Err()
}

// TestHeavyQueries runs 64 concurrent queries of 4.8 MB where the process has room for eight of 2 MiB: each
// finishes or fails with a limit error, and the process never exceeds its limit.
func TestHeavyQueries(t *testing.T) {
	g := newSelectGateway(t, writeHeavy(t), selectOptions{queryBytes: 2 << 20, processBytes: 16 << 20})
	var (
		queries           sync.WaitGroup
		mu                sync.Mutex
		finished, refused int
	)
	for n := range 64 {
		queries.Go(func() {
			q, err := g.Admit(t.Context(), storegateway.Admission{})
			if err != nil {
				t.Error(err)
				return
			}
			defer q.Close()
			if n%4 == 0 { // a consumer that also reserves memory
				if err := q.Quota().Reserve(slab.ResponseBytes, 2<<20-64<<10); err != nil {
					t.Error(err)
					return
				}
				defer q.Quota().Return(slab.ResponseBytes, 2<<20-64<<10)
			}
			r := forever()
			r.Matchers = everySeries()
			set, err := q.Select(t.Context(), r)
			series := 0
			if err == nil {
				series, _, err = drain(set)
				set.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && series == 400:
				finished++
			case storegateway.IsLimit(err):
				refused++
			default:
				t.Errorf("query %d: %d series, error %v", n, series, err)
			}
		})
	}
	testwait.Group(t, "the queries", &queries)
	if finished < 48 || refused == 0 {
		t.Errorf("%d finished and %d were refused: want those without ballast to finish, and those with it to be refused", finished, refused)
	}
	if s := g.Gate().Stats(); s.Peak > s.Bytes {
		t.Errorf("the process held %d bytes of %d", s.Peak, s.Bytes)
	}
}

// TestLimits expects errors that name the limit, the query's count and the allowed count.
func TestLimits(t *testing.T) {
	dir := writeHeavy(t)
	for want, limits := range map[string]storegateway.Limits{
		"query series: the query comes to 101, the limit is 100":       {Series: 100},
		"query duration: the query takes longer than the limit of 1ns": {Duration: 1},
		"query chunks: the query comes to 4800, the limit is 4799":     {Chunks: 4799},
	} {
		g := newSelectGateway(t, dir, selectOptions{limits: limits})
		q := newQuery(t, g)
		r := forever()
		r.Matchers = everySeries()
		set, err := q.Select(t.Context(), r)
		if err == nil {
			_, _, err = drain(set)
		}
		if !storegateway.IsLimit(err) {
			t.Errorf("got error %v, want a limit", err)
			continue
		}
		var limit *storegateway.LimitError
		if !errors.As(err, &limit) || limit.Error() != want {
			t.Errorf("got error %q, want %q", err, want)
		}
	}
	g := newSelectGateway(t, dir, selectOptions{limits: storegateway.Limits{Series: 400, Chunks: 4800, Duration: time.Hour}})
	r := forever()
	r.Matchers = everySeries()
	set, err := newQuery(t, g).Select(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := drain(set); n != 400 || err != nil {
		t.Errorf("at the limits: %d series, error %v", n, err)
	}
}

// TestCancelled cancels queries in each state; the gateway checks at the end that all bytes were released.
func TestCancelled(t *testing.T) {
	g := newSelectGateway(t, writeHeavy(t), selectOptions{queryBytes: 4 << 20})
	for after := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		q, err := g.Admit(ctx, storegateway.Admission{})
		if err != nil {
			t.Fatal(err)
		}
		r := forever()
		r.Matchers = everySeries()
		if after%2 == 0 {
			r.WithoutLabels = []string{"foo"} // breaks the order, so that series are sorted
		}
		if after == 0 {
			cancel()
		}
		set, err := q.Select(ctx, r)
		if err == nil {
			for n := 0; set.Next(); n++ {
				if n == after*10 {
					cancel()
				}
			}
			err = set.Err()
			if after%3 != 0 {
				set.Close() // otherwise closed by the query
			}
		}
		cancel()
		q.Close()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d series: %v", after*10, err)
		}
	}
}

// TestOneQuotaForBothSides runs a/b in PromQL where the process has bytes for one query: if the sides waited
// for bytes separately, the second would wait for the first forever.
func TestOneQuotaForBothSides(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.Shape{Count: 20, Samples: 400, Interval: 15 * time.Second, Seed: 1}
	if _, err := shape.Write(dir, testblock.Options{External: map[string]string{"__name__": "m"}}); err != nil {
		t.Fatal(err)
	}
	g := newSelectGateway(t, dir, selectOptions{queryBytes: 8 << 20, processBytes: 8 << 20})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	var queries sync.WaitGroup
	for n := range 8 {
		queries.Go(func() {
			end := time.UnixMilli(20 * 400 * 15_000)
			query, err := engine.NewRangeQuery(t.Context(), g.Queryable(noTenant), nil,
				`sum(count_over_time(m[1h]) / ignoring(x) count_over_time({foo="bar"}[1h]))`, time.UnixMilli(0), end, time.Hour)
			if err != nil {
				t.Error(err)
				return
			}
			defer query.Close()
			result := query.Exec(t.Context())
			m, err := result.Matrix()
			if err != nil || len(m) != 1 || len(m[0].Floats) < 30 {
				t.Errorf("query %d: %v, error %v", n, m, err)
			}
		})
	}
	testwait.Group(t, "the queries", &queries)
}

// TestWithQuery runs queriers as a part of an existing query.
func TestWithQuery(t *testing.T) {
	g := newSelectGateway(t, writeHeavy(t), selectOptions{queryBytes: 8 << 20, processBytes: 8 << 20})
	q := newQuery(t, g) // there is room for only one
	ctx := storegateway.WithQuery(t.Context(), q)
	for range 2 {
		querier, err := g.Queryable(noTenant).Querier(math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		samples := 0
		set := querier.Select(ctx, true, nil, everySeries()...)
		for it := chunkenc.Iterator(nil); set.Next(); {
			it = set.At().Iterator(it)
			for it.Next() != chunkenc.ValNone {
				samples++
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
		}
		if samples != 400*1440 || set.Err() != nil {
			t.Errorf("%d samples, error %v, want 400 series of 1,440", samples, set.Err())
		}
		if err := querier.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := q.Stats()
	if s.Series != 800 || s.Blocks != 2 || s.PlannedBytes == 0 || s.PeakBytes == 0 || s.PeakBytes > s.AllowedBytes {
		t.Errorf("got %+v", s)
	}
	if e := q.Explain(); len(e) != 2 || e[0].Read.Chunks.Items == 0 {
		t.Errorf("got %+v", e)
	}
}

// TestIteratorsAreIndependent interleaves iterators of all series, sample by sample, under a budget smaller
// than their chunks: windows are dropped while iterators use them and are loaded again.
func TestIteratorsAreIndependent(t *testing.T) {
	g := newSelectGateway(t, writeHeavy(t), selectOptions{queryBytes: 3 << 20, processBytes: 8 << 20})
	querier, err := g.Queryable(noTenant).Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = querier.Close() }()
	hints := &storage.SelectHints{Start: math.MinInt64, End: math.MaxInt64}
	set := querier.Select(t.Context(), true, hints, everySeries()...)
	var want []string
	type walk struct {
		it   interface{ Err() error }
		next func() string
	}
	var walks []walk
	for n := 0; set.Next(); n++ {
		if n%40 != 0 {
			continue
		}
		it := set.At().Iterator(nil)
		walks = append(walks, walk{it, func() string { return testblock.SampleText(it, it.Next(), false) }})
		again := set.At().Iterator(nil)
		for range 30 {
			want = append(want, testblock.SampleText(again, again.Next(), false))
		}
	}
	if err := set.Err(); err != nil || len(walks) != 10 {
		t.Fatalf("%d series, error %v", len(walks), err)
	}
	for i := range 30 {
		for n, w := range walks {
			if got := w.next(); got != want[n*30+i] {
				t.Fatalf("series %d, sample %d: got %s, want %s (%v)", n, i, got, want[n*30+i], w.it.Err())
			}
		}
	}
}

// TestWindowsOfOtherSelects interleaves the series of nine selects with different matchers, under a budget
// for the chunks of a few of them: chunks in use by one select are dropped for another and loaded again.
func TestWindowsOfOtherSelects(t *testing.T) {
	const selects, walked, each = 9, 5, 130 // more than the first chunk of each
	g := newSelectGateway(t, writeHeavy(t), selectOptions{queryBytes: 5 << 20, processBytes: 8 << 20})
	querier, err := g.Queryable(noTenant).Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = querier.Close() }()
	var sets []storage.SeriesSet
	for n := range selects {
		sets = append(sets, querier.Select(t.Context(), true, nil, append(everySeries(), labels.MustNewMatcher(labels.MatchNotEqual, "i", fmt.Sprint(n)))...))
	}
	var walks [selects][]chunkenc.Iterator
	for n, set := range sets {
		for i := 0; set.Next(); i++ {
			if i%(400/walked) == 0 {
				walks[n] = append(walks[n], set.At().Iterator(nil))
			}
		}
		if err := set.Err(); err != nil || len(walks[n]) != walked {
			t.Fatalf("select %d: %d series are walked, %v", n, len(walks[n]), err)
		}
	}
	for range each {
		for i := range walked {
			want := ""
			for n := range walks {
				it := walks[n][i]
				kind := it.Next()
				if kind == chunkenc.ValNone {
					t.Fatalf("select %d, series %d ends: %v", n, i, it.Err())
				}
				got := testblock.SampleText(it, kind, false)
				if n == 0 {
					want = got
				}
				if got != want {
					t.Fatalf("select %d, series %d: got %s, want %s", n, i, got, want)
				}
			}
		}
	}
}

// TestRequests sends invalid requests and checks their errors.
func TestRequests(t *testing.T) {
	g := newSelectGateway(t, writeHeavy(t), selectOptions{})
	q := newQuery(t, g)
	for _, m := range []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "__query_shard__", "0_of_2"),
		labels.MustNewMatcher(labels.MatchRegexp, "__query_shard__", "1_of_2"),
	} {
		r := forever()
		r.Matchers = append(everySeries(), m)
		if _, err := q.Select(t.Context(), r); err == nil {
			t.Errorf("%s: no error", m)
		}
	}
	for shard, all := 1, 0; shard <= 3; shard++ {
		r := forever()
		r.Matchers = append(everySeries(), labels.MustNewMatcher(labels.MatchEqual, "__query_shard__", fmt.Sprintf("%d_of_3", shard)))
		set, err := q.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		n, _, err := drain(set)
		if all += n; err != nil || shard == 3 && all != 400 {
			t.Errorf("%d series in shards up to %d, error %v", all, shard, err)
		}
	}
	r := forever()
	r.Matchers, r.Limit = everySeries(), 7
	set, err := q.Select(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := drain(set); n != 7 || err != nil {
		t.Errorf("%d series, error %v, want the 7 of the limit", n, err)
	}
}
