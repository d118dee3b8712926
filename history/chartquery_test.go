package history

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

func TestChartQueryWindow(t *testing.T) {
	for step, want := range map[time.Duration]string{
		0: "3m", time.Second: "3m", 3 * time.Minute: "3m", 10*time.Minute + 1: "11m", time.Hour: "1h", 90 * time.Minute: "90m", 2 * time.Hour: "2h", 7 * 24 * time.Hour: "168h",
	} {
		if got := (ChartQuery{Step: step}).Window(); got != want {
			t.Errorf("%v: %s, want %s", step, got, want)
		}
	}
}

// pointsOf evaluates a query at the end of each point.
func (d *day) pointsOf(query string, times []time.Time, step time.Duration, end time.Time) []float64 {
	d.t.Helper()
	values := make([]float64, len(times))
	for i, begin := range times {
		at := begin.Add(step)
		if i == len(times)-1 {
			at = end
		}
		values[i] = d.value(query, at)
	}
	return values
}

// byDigest is the answer to a query that has a number for each digest.
func (d *day) byDigest(query string, at time.Time) map[string]float64 {
	d.t.Helper()
	q, err := d.engine.NewInstantQuery(d.t.Context(), d.archive.Queryable(), nil, query, at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer q.Close()
	v, err := q.Exec(d.t.Context()).Vector()
	if err != nil {
		d.t.Fatalf("%s at %v: %v", query, at, err)
	}
	values := make(map[string]float64)
	for _, s := range v {
		values[s.Metric.Get(labelDigest)] = s.F
	}
	return values
}

// TestChartsArePromQL lets statements be called for thirty hours, with restarts, kills, and digests that make room and are back, and asks for
// charts of samples and of rollups: each point of each chart is what the PromQL that the page shows beside it answers at the
// point's end. Calls are made away from the ends of points, so that both count the same ones; what remains is that
// rate extrapolates over the time between a sample and the end of its window.
func TestChartsArePromQL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &day{
			t: t, model: newModel(), rig: newRig(t, t.TempDir(), t.TempDir(), t.TempDir()),
			engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})}),
		}
		defer func() { _ = d.engine.Close() }()
		began := time.Now()
		d.start()
		rng := rand.New(rand.NewPCG(31, 32))
		madeRoom := make(map[stmtstats.Key]time.Time)
		for slot := range 30 * 4 { // quarters of an hour
			time.Sleep(4 * time.Minute)
			for range 6 + rng.IntN(10) {
				d.model.call(rng.IntN(6), time.Now(), time.Duration(1+rng.IntN(1e9)), rng.IntN(4) == 0)
				time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
			}
			d.model.untracked(time.Now(), time.Millisecond)
			time.Sleep(time.Duration(3) * time.Minute) // two rounds
			switch slot % 16 {
			case 3:
				n := rng.IntN(6)
				d.model.evict(n, time.Now())
				madeRoom[keyOf(n)] = time.Now()
			case 7:
				d.restart()
			case 11:
				d.kill()
			}
			time.Sleep(time.Until(began.Add(time.Duration(slot+1) * 15 * time.Minute)))
		}
		time.Sleep(3 * time.Minute)
		now := began.Add(30 * time.Hour)
		for _, c := range []struct {
			from   time.Time
			points int
			source string
		}{{now.Add(-4 * time.Hour), 16, SourceSamples}, {now.Add(-6 * time.Hour), 6, SourceSamples}, {now.Add(-24 * time.Hour), 24, SourceRollups}, {began, 10, SourceRollups}} {
			top, err := d.archive.Top(t.Context(), TopQuery{From: c.from, To: now, Points: c.points})
			if err != nil || top.Source != c.source || len(top.Notes) > 0 || len(top.Series.Times) != c.points {
				t.Fatalf("from %v: %+v (%v)", c.from, top, err)
			}
			s := &top.Series
			what := fmt.Sprintf("%s in steps of %v", c.source, s.Step)
			all := ChartQuery{Selector: `{digest!="evicted"}`, Step: s.Step}
			d.compare(what, all.Calls(), s.Calls, s.Times, s.Step, s.End, false)
			d.compare(what, all.Errors(), s.Errors, s.Times, s.Step, s.End, false)
			d.compare(what, all.Quantile(0.99), s.P99, s.Times, s.Step, s.End, true)
			for _, row := range top.Rows {
				id := hex.EncodeToString(row.Digest[:])
				one := ChartQuery{Selector: `{digest="` + id + `"}`, Step: s.Step}
				d.compare(what, one.Load(), row.Points, s.Times, s.Step, s.End, false)
				st, err := d.archive.Statement(t.Context(), StatementQuery{Digest: id, From: c.from, To: now, Points: c.points})
				if err != nil {
					t.Fatal(err)
				}
				p := &st.Series
				d.compare(what, one.Calls(), p.Calls, p.Times, p.Step, p.End, false)
				d.compare(what, one.Errors(), p.Errors, p.Times, p.Step, p.End, false)
				d.compare(what, one.RowsSent(), p.RowsSent, p.Times, p.Step, p.End, false)
				d.compare(what, one.Load(), p.Load, p.Times, p.Step, p.End, false)
				d.compare(what, one.Quantile(0.99), p.P99, p.Times, p.Step, p.End, true)
			}
			// The table of statements has a window that is as long as the time. Of samples it counts as evicted what made room meanwhile.
			for _, by := range []Measure{BySeconds, ByCalls, ByErrors, ByRowsSent} {
				ranked, err := d.archive.Top(t.Context(), TopQuery{From: c.from, To: now, By: by})
				if err != nil {
					t.Fatal(err)
				}
				length := ranked.To.Sub(ranked.From)
				query := ChartQuery{Selector: `{digest!~"evicted|other"}`, Step: length}.Top(by, DefaultTopLimit)
				compared := 0
				rates := d.byDigest(query, ranked.To)
				for _, row := range ranked.Rows {
					if ranked.Source == SourceSamples && madeRoom[row.Key].After(ranked.From) {
						continue
					}
					compared++
					c := rollup.Counts{Calls: row.Calls, Nanos: uint64(row.Seconds * 1e9), RowsSent: row.RowsSent, Errors: [stmtstats.ErrorClasses]uint64{row.Errors}}
					want := by.value(&c, 0, nil)
					if by == BySeconds {
						want /= 1e9
					}
					if got := rates[hex.EncodeToString(row.Digest[:])] * length.Seconds(); math.Abs(got-want) > 0.03*want {
						t.Errorf("%s: %v is %v, the row has %v", what, query, got, want)
					}
				}
				if compared < 3 {
					t.Errorf("%s: %d rows were compared", what, compared)
				}
			}
		}
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
	})
}

// compare compares the points of a chart with what its query answers.
func (d *day) compare(what, query string, chart []float64, times []time.Time, step time.Duration, end time.Time, quantile bool) {
	d.t.Helper()
	for i, got := range d.pointsOf(query, times, step, end) {
		window := step
		if i == len(times)-1 {
			window = end.Sub(times[i])
		}
		// At both ends up to two minutes have no sample.
		most := window.Seconds() / (window - 4*time.Minute).Seconds()
		low, high := chart[i]*(1-1e-6), chart[i]*most*(1+1e-6)
		if quantile { // of a bucket
			low, high = chart[i]/1.0221, chart[i]*1.0221
		}
		if math.IsNaN(got) {
			got = 0
		}
		if got < low-1e-9 || got > high+1e-9 {
			d.t.Errorf("%s, at %v: %s is %v, the chart has %v", what, times[i].Add(window), query, got, chart[i])
		}
	}
}
