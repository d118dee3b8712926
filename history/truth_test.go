package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

// A moment has the counts at a point in time.
type moment struct {
	at                  time.Time
	calls, errors, rows uint64
}

// A day runs consecutive archives over one model, as after restarts and kills.
type day struct {
	t        *testing.T
	model    *model
	source   Source // used in place of the model; nil: the model
	rig      *rig
	interval time.Duration // 0: that of the rig
	archive  *Archive
	end      func() // stops Run and the gateway
	moments  []moment
	engine   *promql.Engine
	dirs     int
}

func (d *day) start() {
	d.t.Helper()
	o := d.rig.options(d.model)
	o.LocalAge = 5 * time.Hour
	if d.interval > 0 {
		o.Interval = d.interval
	}
	if d.source != nil {
		o.Source = d.source
	}
	var err error
	if d.archive, err = OpenArchive(o); err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { _ = d.rig.gateway.Run(ctx) })
	parts.Go(func() { _ = d.archive.Run(ctx) })
	d.end = func() { cancel(); parts.Wait() }
}

// restart closes the archive and opens it again.
func (d *day) restart() {
	d.t.Helper()
	d.end()
	if err := d.archive.Close(); err != nil {
		d.t.Error(err)
	}
	d.model.restart()
	d.start()
}

// kill continues with a copy of the directory, as after a kill.
func (d *day) kill() {
	d.t.Helper()
	d.dirs++
	dir := filepath.Join(d.t.TempDir(), fmt.Sprint(d.dirs))
	synctest.Wait() // a file deleted during the copy would fail it
	if err := os.CopyFS(dir, os.DirFS(d.rig.dir)); err != nil {
		d.t.Fatal(err)
	}
	d.end()
	if err := d.archive.current().db.Current().Close(); err != nil { // its last writes go to the old directory
		d.t.Error(err)
	}
	d.rig.dir = dir
	d.model.restart()
	d.start()
}

// value returns the result of a query with one number, 0 if it has none.
func (d *day) value(query string, at time.Time) float64 {
	d.t.Helper()
	q, err := d.engine.NewInstantQuery(d.t.Context(), d.archive.Queryable(), nil, query, at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer q.Close()
	r := q.Exec(d.t.Context())
	v, err := r.Vector()
	if err != nil {
		d.t.Fatalf("%s at %v: %v", query, at, err)
	}
	if len(v) == 0 {
		return 0
	}
	if len(v) > 1 {
		d.t.Fatalf("%s at %v: %d results", query, at, len(v))
	}
	return v[0].F
}

// values returns the results of a query with at most one number per step, by time in milliseconds.
func (d *day) values(query string, from, to time.Time, step time.Duration) map[int64]float64 {
	d.t.Helper()
	q, err := d.engine.NewRangeQuery(d.t.Context(), d.archive.Queryable(), nil, query, from, to, step)
	if err != nil {
		d.t.Fatal(err)
	}
	defer q.Close()
	m, err := q.Exec(d.t.Context()).Matrix()
	if err != nil || len(m) > 1 {
		d.t.Fatalf("%s from %v to %v: %d results (%v)", query, from, to, len(m), err)
	}
	values := make(map[int64]float64)
	for _, series := range m {
		for _, p := range series.Floats {
			values[p.T] = p.F
		}
	}
	return values
}

// checkSelf compares the archive's ledger with its samples.
func (d *day) checkSelf() {
	d.t.Helper()
	if d.rig.gateway.Status().LastGood.IsZero() {
		if err := d.rig.gateway.Sync(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, in := range d.archive.all() {
		if err := in.checkLedger(d.t.Context()); err != nil {
			d.t.Errorf("self-check: %v", err)
		}
	}
	compared := d.archive.current().ledger.compared.Load()
	if found := d.archive.Unexplained(); len(found) > 0 || compared == 0 {
		d.t.Errorf("%+v is unexplained after %d rounds", found, compared)
	}
}

// note stores the current counts, and waits until a round has written them.
func (d *day) note() {
	time.Sleep(2 * time.Minute)
	d.moments = append(d.moments, moment{time.Now(), d.model.calls, d.model.errors, d.model.rows})
	d.check(d.moments[len(d.moments)-1])
	d.checkSelf()
}

// countQueries are queries whose results are counts of a moment.
var countQueries = map[string]func(moment) uint64{
	"sum(tare_queries_total)":                               func(m moment) uint64 { return m.calls },
	"sum(tare_query_rows_sent_total)":                       func(m moment) uint64 { return m.rows },
	`sum(tare_query_errors_total{class="deadlock"})`:        func(m moment) uint64 { return m.errors },
	"histogram_count(sum(tare_query_duration_seconds))":     func(m moment) uint64 { return m.calls },
	`sum(tare_queries_total{instance="gw-1",cluster="eu"})`: func(m moment) uint64 { return m.calls },
}

func (d *day) check(m moment) {
	d.t.Helper()
	for query, want := range countQueries {
		if got := d.value(query, m.at); got != float64(want(m)) {
			d.t.Errorf("%s at %v is %v, counted were %d", query, m.at.Sub(d.moments[0].at), got, want(m))
		}
	}
}

// checkEvery checks moments whose times are a whole number of steps after the first.
func (d *day) checkEvery(moments []moment, step time.Duration) {
	d.t.Helper()
	first, last := moments[0].at, moments[len(moments)-1].at
	for query, want := range countQueries {
		values := d.values(query, first, last, step)
		for _, m := range moments {
			if m.at.Sub(first)%step != 0 {
				d.t.Fatalf("a moment %v after the first", m.at.Sub(first))
			}
			if got := values[m.at.UnixMilli()]; got != float64(want(m)) {
				d.t.Errorf("%s at %v is %v, counted were %d", query, m.at.Sub(first), got, want(m))
			}
		}
	}
}

// checkRollups adds up the hours: at each boundary the sum equals PromQL's, and that of a day equals the sum
// of its hours.
func (d *day) checkRollups() {
	d.t.Helper()
	store := d.archive.current().rollups
	names := store.List(func(n rollup.Name) bool { return n.Span == rollup.Hour })
	if len(names) < 24 {
		d.t.Fatalf("%d hours were made", len(names))
	}
	var u rollup.TextDecoder
	defer u.Close()
	days := make(map[int64]*rollup.Rollup)
	var all rollup.Counts
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
			if err := h.AddSpread(row.Spread); err != nil || h.Count() != row.Counts.Calls {
				d.t.Errorf("%v: %d durations of %d calls (%v)", n, h.Count(), row.Counts.Calls, err)
			}
			if !row.Print.IsSum() && (row.Text == "" || row.Print != rollup.PrintOf(&row.Key) || row.Last <= n.Begin().UnixMilli() || row.Last > n.End().UnixMilli()) {
				d.t.Errorf("%v: row %+v", n, row)
			}
		}
		for query, got := range map[string]float64{
			"sum(tare_queries_total)":                           float64(all.Calls),
			"sum(tare_query_rows_sent_total)":                   float64(all.RowsSent),
			"sum(tare_query_bytes_sent_total)":                  float64(all.BytesSent),
			`sum(tare_query_errors_total{class="deadlock"})`:    float64(all.Errors[stmtstats.ClassDeadlock]),
			"histogram_count(sum(tare_query_duration_seconds))": float64(spread.Count()),
			"histogram_sum(sum(tare_query_duration_seconds))":   float64(all.Nanos) / 1e9,
		} {
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
			got[row.Key] += row.Counts.Nanos
		}
		for _, row := range days[n.Start].Rows {
			want[row.Key] += row.Counts.Nanos
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
		bucketDir := t.TempDir()
		d := &day{
			t: t, model: newModel(), rig: newRig(t, bucketDir, t.TempDir(), t.TempDir()),
			engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})}),
		}
		defer func() { _ = d.engine.Close() }()
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
		local := localdb.Start(d.archive.current().db.Current())
		if first := d.moments[0].at.UnixMilli(); local <= first {
			t.Error("no local block was deleted: the bucket was not asked")
		}
		t.Logf("%d moments, %d blocks in the bucket, %d here", len(d.moments), len(d.rig.gateway.Blocks()), len(d.archive.current().db.Current().Blocks()))
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
	})
}
