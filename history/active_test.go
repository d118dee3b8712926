package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/tsblock"
)

// activeSeries returns the series that keep accepts, as text, sorted.
func activeSeries(a *history.Active, keep func(labels.Labels) bool) []string {
	var all []string
	for ls := range a.ActiveSeries(keep) {
		all = append(all, ls.String())
	}
	slices.Sort(all)
	return all
}

func anySeries(labels.Labels) bool { return true }

func TestActive(t *testing.T) {
	r := teststmt.Record(1, time.Millisecond)
	now := r.Start.Add(time.Minute)
	table := openTable(t, stmtstats.Options{Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	a, err := history.NewActive(table, map[string]string{"instance": "gw1", "zone": "eu"}, 20*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := activeSeries(a, anySeries); len(got) != 0 {
		t.Errorf("before any statement: %v", got)
	}
	table.Observe(r)
	failed := teststmt.Record(2, time.Millisecond)
	failed.RowsReturned, failed.RowsAffected, failed.BytesIn, failed.BytesOut, failed.Warnings, failed.Normalized = 0, 0, 0, 0, 0, nil
	failed.ErrorNumber, failed.Schema, failed.User = 1062, "", "\xff"
	table.Observe(failed)
	old := teststmt.Record(3, time.Millisecond)
	old.Start = now.Add(-time.Hour)
	table.Observe(old)
	// The same digest has the same text under another user.
	other := teststmt.Record(1, time.Millisecond)
	other.User = "batch"
	table.Observe(other)

	one := `backend="127.0.0.1:3306", digest="01000001000000000000000000000000", instance="gw1", schema="shop", user="app", zone="eu"}`
	batch := `backend="127.0.0.1:3306", digest="01000001000000000000000000000000", instance="gw1", schema="shop", user="batch", zone="eu"}`
	want := []string{
		`{__name__="tare_digest_info", digest="01000001000000000000000000000000", instance="gw1", text="select ?", zone="eu"}`,
		`{__name__="tare_queries_total", backend="127.0.0.1:3306", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
		`{__name__="tare_query_duration_seconds", backend="127.0.0.1:3306", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
		`{__name__="tare_query_errors_total", backend="127.0.0.1:3306", class="constraint", digest="01000002000000000000000000000000", instance="gw1", user="�", zone="eu"}`,
	}
	names := []string{"tare_queries_total", "tare_query_duration_seconds"}
	for _, c := range stmtstats.Effects() {
		names = append(names, c.Info().Metric)
	}
	for _, name := range names {
		want = append(want, `{__name__="`+name+`", `+one, `{__name__="`+name+`", `+batch)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, activeSeries(a, anySeries)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}

	// The shards are disjoint and together have all series.
	var together []string
	for i := range uint64(3) {
		together = append(together, shardSeries(a, tsblock.Shard{Index: i, Count: 3}, anySeries)...)
	}
	slices.Sort(together)
	if d := cmp.Diff(want, together); d != "" {
		t.Errorf("all shards: -want +got\n%s", d)
	}

	// A consumer that stops early gets no more series; the table is not locked meanwhile.
	for ls := range a.ActiveSeries(anySeries) {
		if ls.IsEmpty() {
			t.Error("a series without labels")
		}
		if err := table.Collect(func(*stmtstats.Sample) error { return nil }); err != nil {
			t.Error(err)
		}
		break
	}
	now = now.Add(20*time.Minute + time.Second)
	if got := activeSeries(a, anySeries); len(got) != 0 {
		t.Errorf("later: %v", got)
	}
}

func TestNewActiveRefuses(t *testing.T) {
	table := openTable(t, stmtstats.Options{})
	defer func() { _ = table.Close() }()
	for name, c := range map[string]struct {
		labels map[string]string
		idle   time.Duration
	}{
		"no instance": {map[string]string{"zone": "eu"}, time.Minute},
		"own label":   {map[string]string{"instance": "a", "digest": "b"}, time.Minute},
		"no time":     {map[string]string{"instance": "a"}, 0},
	} {
		if _, err := history.NewActive(table, c.labels, c.idle); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// slowActive returns the expected series, as text, sorted.
func slowActive(table *stmtstats.Table, given map[string]string, idle time.Duration, shard tsblock.Shard, keep func(labels.Labels) bool) []string {
	var all []string
	visitSlowly(table, given, idle, shard, func(ls labels.Labels) bool {
		if keep(ls) {
			all = append(all, ls.String())
		}
		return keep(ls)
	})
	slices.Sort(all)
	return all
}

// visitSlowly reads the whole table, and hashes the labels of each series.
func visitSlowly(table *stmtstats.Table, given map[string]string, idle time.Duration, shard tsblock.Shard, visit func(labels.Labels) bool) {
	l := stmtseries.NewLabeller(given)
	reported := make(map[[16]byte]bool)
	oldest := table.Now().Add(-idle)
	var ls labels.Labels
	add := func() bool {
		l.Overwrite(&ls)
		return (shard.All() || labels.StableHash(ls)%shard.Count == shard.Index) && visit(ls)
	}
	err := table.Each(func(s *stmtstats.Sample) error {
		if s.Counts[stmtstats.Calls] == 0 || s.Last.Before(oldest) {
			return nil
		}
		for series := range stmtseries.PerKey {
			if m := stmtseries.Of(series); m == stmtseries.Queries || m == stmtseries.Duration || s.Counts[series] > 0 {
				l.SetSeries(s.Kind, &s.Key, series)
				add()
			}
		}
		if s.Kind == stmtstats.Tracked && s.Text != "" && !reported[s.Digest] {
			l.SetInfo(s.Digest, s.Text)
			reported[s.Digest] = add()
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// shardSeries is activeSeries of one shard.
func shardSeries(a *history.Active, shard tsblock.Shard, keep func(labels.Labels) bool) []string {
	var all []string
	for ls := range a.ActiveShard(shard, keep) {
		all = append(all, ls.String())
	}
	slices.Sort(all)
	return all
}

// TestActiveLikeSlow compares the series of an Active with those of a scan of the whole table. The table is
// too small for its statements, with calls, collections, passing hours, restarts and new Actives.
func TestActiveLikeSlow(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			idle := 20 * time.Minute
			dir := t.TempDir()
			open := func() *stmtstats.Table {
				return openTable(t, stmtstats.Options{
					MaxDigests: 80, Dir: dir, Now: func() time.Time { return now },
					MinIdle: 2 * time.Minute, Turnover: 10 * time.Minute,
				})
			}
			table := open()
			defer func() { _ = table.Close() }()
			given := map[string]string{"instance": "gw1"}
			begin := func() *history.Active {
				a, err := history.NewActive(table, given, idle)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			a := begin()
			evicted, most := uint64(0), 0
			for step := range 400 {
				switch rng.IntN(20) {
				case 0:
					now = now.Add(time.Duration(rng.IntN(30)) * time.Minute)
				case 1, 2, 3:
					if err := table.Collect(func(*stmtstats.Sample) error { return nil }); err != nil {
						t.Fatal(err)
					}
				case 4:
					if step%3 == 0 {
						evicted += table.Stats().Evictions
						if err := table.Close(); err != nil {
							t.Fatal(err)
						}
						table = open()
						a = begin()
					}
				default:
					for range rng.IntN(40) {
						r := teststmt.Record(rng.IntN(300), time.Duration(rng.IntN(1e9)))
						r.Start = now.Add(-r.Total)
						if rng.IntN(3) == 0 {
							r.RowsReturned, r.RowsAffected, r.BytesOut, r.Normalized = 0, 0, 0, nil
						}
						if rng.IntN(4) == 0 {
							r.User = "batch"
						}
						if rng.IntN(10) == 0 {
							r.ErrorNumber = []uint16{1062, 1213, 1064}[rng.IntN(3)]
						}
						table.Observe(r)
					}
					now = now.Add(time.Duration(rng.IntN(50)) * time.Second)
				}
				if rng.IntN(3) == 0 {
					continue // several events happen between two requests
				}
				keep := anySeries
				if rng.IntN(4) == 0 {
					keep = func(ls labels.Labels) bool { return ls.Get(stmtseries.LabelUser) != "app" }
				}
				var together []string
				count := []uint64{0, 1, 3, 16}[rng.IntN(4)]
				for i := range max(count, 1) {
					shard := tsblock.Shard{Index: i, Count: count}
					got := shardSeries(a, shard, keep)
					if want := slowActive(table, given, idle, shard, keep); !slices.Equal(want, got) {
						t.Fatalf("step %d, shard %v: -want +got\n%s", step, shard, cmp.Diff(want, got))
					}
					together = append(together, got...)
				}
				most = max(most, len(together))
				if n, bound := a.HeapBytes(), activeBound(81, a); n > bound {
					t.Fatalf("step %d: %d bytes, want at most %d", step, n, bound)
				}
			}
			if evicted += table.Stats().Evictions; evicted == 0 || most < 100 {
				t.Errorf("%d evictions and at most %d series: the table was not full", evicted, most)
			}
		})
	}
}

// activeBound returns the documented maximum of HeapBytes, plus a constant for small allocations.
func activeBound(entries int, a *history.Active) int64 {
	const read = 64 * 120 // entries read under one lock of the table
	return int64(entries)*112 + int64(entries*stmtseries.PerKey*24) + read + 8<<10
}

// TestActiveWhileCounted lists series while statements are counted and digests are evicted, and afterwards.
func TestActiveWhileCounted(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := openTable(t, stmtstats.Options{MaxDigests: 200, Now: func() time.Time { return now }, MinIdle: time.Nanosecond, Turnover: time.Nanosecond})
	defer func() { _ = table.Close() }()
	given := map[string]string{"instance": "gw1"}
	a, err := history.NewActive(table, given, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 3000 {
				r := teststmt.Record((i*(w+1))%500, time.Duration(i)*time.Microsecond)
				r.Start = now.Add(-time.Duration(i) * time.Millisecond)
				table.Observe(r)
				if i%100 == 0 {
					if err := table.Collect(func(*stmtstats.Sample) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range uint64(100) {
		seen := make(map[string]bool)
		for ls := range a.ActiveShard(tsblock.Shard{Index: i % 4, Count: 4}, anySeries) {
			if labels.StableHash(ls)%4 != i%4 {
				t.Errorf("%v is not in shard %d", ls, i%4)
			}
			seen[ls.String()] = true
		}
	}
	testwait.Group(t, "the writers", &writers)
	if d := cmp.Diff(slowActive(table, given, time.Hour, tsblock.Shard{}, anySeries), activeSeries(a, anySeries)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestActiveAfterClose checks that the Active of a closed table has no series.
func TestActiveAfterClose(t *testing.T) {
	table := openTable(t, stmtstats.Options{})
	a, err := history.NewActive(table, map[string]string{"instance": "gw1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r := teststmt.Record(1, time.Millisecond)
	r.Start = time.Now()
	table.Observe(r)
	if n, want := len(activeSeries(a, anySeries)), 3+len(stmtstats.Effects()); n != want {
		t.Errorf("%d series, want those of calls, durations, the text and the effects: %d", n, want)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if got := activeSeries(a, anySeries); len(got) != 0 {
		t.Errorf("after Close: %v", got)
	}
}

// TestActiveBytes checks the bound of docs/tasks/list-active-series.md at the defaults.
func TestActiveBytes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := openTable(t, stmtstats.Options{Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	a, err := history.NewActive(table, map[string]string{"instance": "gw1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if n := a.HeapBytes(); n != 0 {
		t.Errorf("%d bytes before the first question", n)
	}
	for i := range stmtstats.DefaultMaxDigests {
		table.Observe(teststmt.Record(i, time.Millisecond))
	}
	series := len(activeSeries(a, anySeries))
	n := a.HeapBytes()
	t.Logf("%d series: %d bytes", series, n)
	if most := int64(series)*24 + stmtstats.DefaultMaxDigests*112; n < int64(series)*12 || n > most {
		t.Errorf("%d bytes for %d series, want at most %d", n, series, most)
	}
}

// BenchmarkActiveSeries lists all 16 shards of a full table, one after the other.
func BenchmarkActiveSeries(b *testing.B) {
	const shards = 16
	for _, calls := range []string{"idle", "busy"} { // busy: each digest is called between requests
		for _, way := range []string{"known", "slow"} {
			b.Run(calls+"/"+way, func(b *testing.B) {
				now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				table := openTable(b, stmtstats.Options{Now: func() time.Time { return now }})
				defer func() { _ = table.Close() }()
				records := make([]*querylog.Record, stmtstats.DefaultMaxDigests)
				for i := range records {
					records[i] = teststmt.Record(i, time.Millisecond)
					table.Observe(records[i])
				}
				given := map[string]string{"instance": "gw1"}
				a, err := history.NewActive(table, given, time.Hour)
				if err != nil {
					b.Fatal(err)
				}
				for range a.ActiveSeries(anySeries) { // the first request
				}
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if calls == "busy" {
						b.StopTimer()
						for _, r := range records {
							table.Observe(r)
						}
						b.StartTimer()
					}
					n = 0
					for i := range uint64(shards) {
						shard := tsblock.Shard{Index: i, Count: shards}
						if way == "slow" {
							visitSlowly(table, given, time.Hour, shard, func(labels.Labels) bool { n++; return true })
							continue
						}
						for range a.ActiveShard(shard, anySeries) {
							n++
						}
					}
				}
				b.ReportMetric(float64(n), "series")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*shards), "µs/shard")
				if n < 4*stmtstats.DefaultMaxDigests {
					b.Errorf("%d series", n)
				}
			})
		}
	}
}
