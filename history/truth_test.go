package history_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// checkRollups adds up the hours: at each boundary the sum equals PromQL's, and that of a day equals the sum
// of its hours.
func (d *day) checkRollups() {
	d.t.Helper()
	store := d.current().Rollups
	names := store.List(func(n rollup.Name) bool { return n.Span == rollup.Hour })
	if len(names) < 24 {
		d.t.Fatalf("%d hours were made", len(names))
	}
	var u rollup.TextDecoder
	defer u.Close()
	days := make(map[int64]*rollup.Rollup)
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	for _, n := range names {
		f, err := store.Open(n)
		if err != nil {
			d.t.Fatal(err)
		}
		up, err := f.Read(&u)
		if err != nil {
			d.t.Fatal(err)
		}
		if err := errors.Join(f.AddTotals(&all, &spread), f.Close()); err != nil {
			d.t.Fatal(err)
		}
		for i := range up.Rows {
			row := &up.Rows[i]
			var h stmtstats.Histogram
			if err := h.AddSpread(row.Spread); err != nil || h.Count() != row.Counts[stmtstats.Calls] {
				d.t.Errorf("%v: %d durations of %d calls (%v)", n, h.Count(), row.Counts[stmtstats.Calls], err)
			}
			if !row.Print.IsSum() && (row.Text == "" || row.Print != rollup.PrintOf(&row.Key) || row.Last <= n.Begin().UnixMilli() || row.Last > n.End().UnixMilli()) {
				d.t.Errorf("%v: row %+v", n, row)
			}
		}
		sums := map[string]float64{
			"sum(tare_queries_total)":                           float64(all[stmtstats.Calls]),
			`sum(tare_query_errors_total{class="deadlock"})`:    float64(all[int(stmtstats.Errors)+int(stmtstats.ClassDeadlock)]),
			"histogram_count(sum(tare_query_duration_seconds))": float64(spread.Count()),
			"histogram_sum(sum(tare_query_duration_seconds))":   all.Seconds(),
		}
		for _, c := range stmtstats.Effects() {
			sums["sum("+c.Info().Metric+")"] = float64(all[c])
		}
		for query, got := range sums {
			if want := d.value(query, n.End()); math.Abs(got-want) > 1e-9*want {
				d.t.Errorf("%s at %v is %v, the rollups' sum is %v", query, n.End(), want, got)
			}
		}
		start := up.Start.Truncate(rollup.Day)
		if days[start.Unix()] == nil {
			days[start.Unix()] = &rollup.Rollup{Start: start}
		}
		days[start.Unix()].Rows = append(days[start.Unix()].Rows, up.Rows...)
	}
	made := store.List(func(n rollup.Name) bool { return n.Span == rollup.Day })
	if len(made) == 0 {
		d.t.Error("no day was made")
	}
	for _, n := range made {
		f, err := store.Open(n)
		if err != nil {
			d.t.Fatal(err)
		}
		up, err := f.Read(&u)
		if err != nil {
			d.t.Fatal(err)
		}
		got, want := make(map[stmtstats.Key]uint64), make(map[stmtstats.Key]uint64)
		for _, row := range up.Rows {
			got[row.Key] += row.Counts[stmtstats.Nanos]
		}
		for _, row := range days[n.Start].Rows {
			want[row.Key] += row.Counts[stmtstats.Nanos]
		}
		if !maps.Equal(got, want) {
			d.t.Errorf("%v has %v, its hours have %v", n, got, want)
		}
		if err := f.Close(); err != nil {
			d.t.Error(err)
		}
	}
	for _, n := range store.List(func(rollup.Name) bool { return true }) {
		f, err := rollup.OpenRemote(d.t.Context(), d.rig.bucket, store.Object(n), n)
		if err != nil {
			d.t.Errorf("in the bucket: %v", err)
			continue
		}
		if _, err := f.Read(&u); err != nil || !store.Shipped(n) {
			d.t.Errorf("in the bucket: %v", err)
		}
	}
}

// TestTruth runs for several days: statements are counted, digests are evicted and return, archives are
// restarted and killed, blocks are cut, shipped and deleted locally. At every recorded moment the sums by
// PromQL equal the counts at that time, and stay equal.
func TestTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.start()
		r := rand.New(rand.NewPCG(1, 2))
		for range 30 { // hours
			for range 3 {
				for range r.IntN(20) {
					d.model.call(r.IntN(12), time.Now(), time.Duration(r.IntN(1e9)), r.IntN(10) == 0)
					time.Sleep(time.Duration(r.IntN(10_000)) * time.Millisecond)
				}
				if r.IntN(3) == 0 {
					d.model.untracked(time.Now(), time.Millisecond)
				}
				for range r.IntN(3) {
					n := r.IntN(12)
					d.model.evict(n, time.Now())
					if r.IntN(2) == 0 { // and it returns in the same round
						d.model.call(n, time.Now(), time.Second, false)
					}
				}
				switch r.IntN(12) {
				case 0:
					d.restart()
				case 1:
					d.kill()
				}
				d.note()
				time.Sleep(18 * time.Minute)
			}
			if t.Failed() {
				break
			}
		}
		for _, m := range d.moments {
			d.check(m)
		}
		d.checkRollups()
		local := localdb.Start(d.db())
		if first := d.moments[0].at.UnixMilli(); local <= first {
			t.Error("no local block was deleted: the bucket was not asked")
		}
		t.Logf("%d moments, %d blocks in the bucket, %d here", len(d.moments), len(d.rig.gateway.Blocks()), len(d.db().Blocks()))
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
	})
}
