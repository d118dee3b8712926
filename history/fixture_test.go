package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// A rig has the environment of an archive.
type rig struct {
	dir       string // of the archive
	bucketDir string
	bucket    objstore.Bucket
	gateway   *storegateway.Gateway
}

func newRig(t testing.TB, bucketDir, dir string) *rig {
	t.Helper()
	return newRigOf(t, bucketDir, dir, teststore.ForHistory)
}

// newRigOf is newRig with other options of the gateway.
func newRigOf(t testing.TB, bucketDir, dir string, change func(*storegateway.Options)) *rig {
	t.Helper()
	bucket, gateway := teststore.OverDir(t, bucketDir, change)
	return &rig{dir: dir, bucketDir: bucketDir, bucket: bucket, gateway: gateway}
}

func (r *rig) options(source history.Source) history.ArchiveOptions {
	return history.ArchiveOptions{
		Source: source, Dir: r.dir, Labels: map[string]string{"instance": "gw-1", "cluster": "eu"},
		Bucket: r.bucket, Gateway: r.gateway, Interval: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
}

func openTable(t testing.TB, o stmtstats.Options) *stmtstats.Table {
	t.Helper()
	table, err := stmtstats.OpenTable(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A moment has the counts at a point in time.
type moment struct {
	at                  time.Time
	calls, errors, rows uint64
}

// A day runs consecutive archives over one model, as after restarts and kills.
type day struct {
	t        *testing.T
	model    *model
	source   history.Source // used in place of the model; nil: the model
	rig      *rig
	interval time.Duration // 0: that of the rig
	archive  *history.Archive
	end      func() // stops Run and the gateway
	moments  []moment
	engine   *promql.Engine
	dirs     int
}

// newDay returns a day that was not started, with new directories.
func newDay(t *testing.T) *day {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() { _ = engine.Close() })
	return &day{t: t, model: newModel(), rig: newRig(t, t.TempDir(), t.TempDir()), engine: engine}
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
	if d.archive, err = history.OpenArchive(o); err != nil {
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
	if err := d.db().Close(); err != nil { // its last writes go to the old directory
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

// current returns the instance that is written to.
func (d *day) current() history.Instance {
	all := d.archive.Instances()
	return all[len(all)-1]
}

// db returns the database of the current instance.
func (d *day) db() *tsdb.DB { return d.current().Samples.Current() }

// newest returns the time of the newest samples, in milliseconds.
func (d *day) newest() int64 { return localdb.LastTime(d.db()) }

// metric returns the value of one of the archive's metrics.
func (d *day) metric(name string) float64 {
	d.t.Helper()
	return archiveMetric(d.t, d.archive, name)
}

func archiveMetric(t *testing.T, a *history.Archive, name string) float64 {
	t.Helper()
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(history.NewArchiveCollector(a))
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tare_history_"+name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric tare_history_%s", name)
	return 0
}

// checkSelf compares the archive's ledger with its samples.
func (d *day) checkSelf() {
	d.t.Helper()
	if d.rig.gateway.Status().LastGood.IsZero() {
		if err := d.rig.gateway.Sync(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	compared, err := d.archive.CheckLedgers(d.t.Context())
	if err != nil {
		d.t.Errorf("self-check: %v", err)
	}
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

// An hourglass is an archive whose rounds a test runs explicitly, at times that it sets.
type hourglass struct {
	*day
	now     time.Time
	elapsed time.Duration // by the monotonic clock
	lossy   bool          // the test removes samples
}

func newHourglass(t *testing.T, change func(*history.ArchiveOptions)) *hourglass {
	t.Helper()
	h := &hourglass{now: time.UnixMilli(1_700_000_000_000)}
	h.day = newDay(t)
	o := h.rig.options(h.model)
	o.Now = func() time.Time { return h.now }
	o.Elapsed = func() time.Duration { return h.elapsed }
	o.Interval = 10 * time.Second
	if change != nil {
		change(&o)
	}
	var err error
	if h.archive, err = history.OpenArchive(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if found := h.archive.Unexplained(); len(found) > 0 && !h.lossy {
			t.Errorf("%+v is unexplained", found)
		}
		if err := h.archive.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *hourglass) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// reopen opens the closed archive again with the same options.
func (h *hourglass) reopen() {
	h.t.Helper()
	h.reopenAs(func(*history.ArchiveOptions) {})
}

// reopenIn opens the closed archive with the files in a directory.
func (h *hourglass) reopenIn(dir string) {
	h.t.Helper()
	h.reopenAs(func(o *history.ArchiveOptions) { o.Dir, o.State = dir, nil })
}

// reopenAs opens the closed archive again with changed options.
func (h *hourglass) reopenAs(change func(*history.ArchiveOptions)) {
	h.t.Helper()
	h.model.restart()
	o := h.archive.Options()
	change(&o)
	var err error
	h.archive, err = history.OpenArchive(o)
	h.must(err)
}

// rolledUp writes an empty rollup of the hour that contains a time, as if all hours up to it had been
// derived.
func (h *hourglass) rolledUp(until time.Time) {
	h.t.Helper()
	h.must(h.current().Rollups.Write(&rollup.Rollup{Start: until.UTC().Truncate(rollup.Hour), Span: rollup.Hour, Last: until.UnixMilli()}))
}

// round advances the time and writes.
func (h *hourglass) round(after time.Duration) {
	h.t.Helper()
	h.now, h.elapsed = h.now.Add(after), h.elapsed+after
	if err := h.archive.Round(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}
