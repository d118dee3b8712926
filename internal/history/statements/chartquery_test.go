package statements_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

func TestChartQueryWindow(t *testing.T) {
	for step, want := range map[time.Duration]string{
		0: "3m", time.Second: "3m", 3 * time.Minute: "3m", 10*time.Minute + 1: "11m", time.Hour: "1h", 90 * time.Minute: "90m", 2 * time.Hour: "2h", 7 * 24 * time.Hour: "168h",
	} {
		if got := (statements.ChartQuery{Step: step}).Window(); got != want {
			t.Errorf("%v: %s, want %s", step, got, want)
		}
	}
}

// pointsOf evaluates a query at the end of each point.
func (r *rig) pointsOf(query string, times []time.Time, step time.Duration, end time.Time) []float64 {
	r.t.Helper()
	values := make([]float64, len(times))
	for i, begin := range times {
		at := begin.Add(step)
		if i == len(times)-1 {
			at = end
		}
		values[i] = r.value(query, at)
	}
	return values
}

// TestChartsArePromQL calls statements for thirty hours, with restarts, kills, and digests that are evicted
// and return, and queries charts of samples and of rollups: each point of each chart equals the result of its
// PromQL expression at the end of the point. Calls are made away from the ends of points, so that both count
// the same calls; the remaining difference is that rate extrapolates over the time between a sample and the
// end of its window.
func TestChartsArePromQL(t *testing.T) {
	if testing.Short() {
		t.Skip("records and queries 30 hours")
	}
	synctest.Test(t, func(t *testing.T) {
		const digests = 6
		r := newRig(t, digests)
		began := time.Now()
		r.start()
		rng := rand.New(rand.NewPCG(31, 32))
		for slot := range 30 * 4 { // quarters of an hour
			time.Sleep(4 * time.Minute)
			for range 6 + rng.IntN(10) {
				r.call(rng.IntN(digests), time.Duration(1+rng.IntN(1e9)), rng.IntN(4) == 0)
				time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
			}
			r.call(-1, time.Millisecond, false)
			time.Sleep(time.Duration(3) * time.Minute) // two rounds
			switch slot % 16 {
			case 3:
				r.call(digests, time.Millisecond, false) // no room: the next round evicts a Key
			case 7:
				r.restart()
			case 11:
				r.kill()
			}
			time.Sleep(time.Until(began.Add(time.Duration(slot+1) * 15 * time.Minute)))
		}
		time.Sleep(3 * time.Minute)
		now := began.Add(30 * time.Hour)
		for _, c := range []struct {
			from   time.Time
			points int
			source string
		}{{now.Add(-4 * time.Hour), 16, statements.SourceSamples}, {now.Add(-6 * time.Hour), 6, statements.SourceSamples}, {now.Add(-24 * time.Hour), 24, statements.SourceRollups}, {began, 10, statements.SourceRollups}} {
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: c.from, To: now, Points: c.points})
			if err != nil || top.Source != c.source || len(top.Notes) > 0 || len(top.Series.Times) != c.points {
				t.Fatalf("from %v: %+v (%v)", c.from, top, err)
			}
			s := &top.Series
			what := fmt.Sprintf("%s in steps of %v", c.source, s.Step)
			all := statements.ChartQuery{Selector: `{digest!="evicted"}`, Step: s.Step}
			r.compare(what, all.Calls(), s.Calls, s.Times, s.Step, s.End, false)
			r.compare(what, all.Errors(), s.Errors, s.Times, s.Step, s.End, false)
			r.compare(what, all.Quantile(0.99), s.P99, s.Times, s.Step, s.End, true)
			for _, row := range top.Rows {
				id := hex.EncodeToString(row.Digest[:])
				one := statements.ChartQuery{Selector: `{digest="` + id + `"}`, Step: s.Step}
				r.compare(what, one.Load(), row.Points, s.Times, s.Step, s.End, false)
				st, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: id, From: c.from, To: now, Points: c.points})
				if err != nil {
					t.Fatal(err)
				}
				p := &st.Series
				r.compare(what, one.Calls(), p.Calls, p.Times, p.Step, p.End, false)
				r.compare(what, one.Errors(), p.Errors, p.Times, p.Step, p.End, false)
				r.compare(what, one.Effect(stmtstats.RowsSent), p.Effects[stmtstats.RowsSent], p.Times, p.Step, p.End, false)
				r.compare(what, one.Load(), p.Load, p.Times, p.Step, p.End, false)
				r.compare(what, one.Quantile(0.99), p.P99, p.Times, p.Step, p.End, true)
			}
			// The ranking has a window of the whole range. From samples, Keys evicted in the range are
			// counted in Evicted.
			for _, by := range []statements.Measure{statements.BySeconds, statements.ByCalls, statements.ByErrors, statements.ByCounter(stmtstats.RowsSent)} {
				ranked, err := r.reader.Top(t.Context(), statements.TopQuery{From: c.from, To: now, By: by})
				if err != nil {
					t.Fatal(err)
				}
				length := ranked.To.Sub(ranked.From)
				query := statements.ChartQuery{Selector: `{digest!~"evicted|other"}`, Step: length}.Top(by, statements.DefaultTopLimit)
				compared := 0
				rates := r.byDigest(query, ranked.To)
				for _, row := range ranked.Rows {
					if ranked.Source == statements.SourceSamples && r.evicted[row.Digest].After(ranked.From) {
						continue
					}
					compared++
					want := map[statements.Measure]float64{
						statements.BySeconds: row.Seconds, statements.ByCalls: float64(row.Calls), statements.ByErrors: float64(row.Errors), statements.ByCounter(stmtstats.RowsSent): float64(row.Counts[stmtstats.RowsSent]),
					}[by]
					if got := rates[hex.EncodeToString(row.Digest[:])] * length.Seconds(); math.Abs(got-want) > 0.03*want {
						t.Errorf("%s: %v is %v, the row has %v", what, query, got, want)
					}
				}
				if compared < 3 {
					t.Errorf("%s: %d rows were compared", what, compared)
				}
			}
		}
		if len(r.evicted) < 3 {
			t.Errorf("%d digests were evicted", len(r.evicted))
		}
		r.stop()
	})
}

// compare compares the points of a chart with the results of its query.
func (r *rig) compare(what, query string, chart []float64, times []time.Time, step time.Duration, end time.Time, quantile bool) {
	r.t.Helper()
	for i, got := range r.pointsOf(query, times, step, end) {
		window := step
		if i == len(times)-1 {
			window = end.Sub(times[i])
		}
		// Up to two minutes at both ends have no sample.
		most := window.Seconds() / (window - 4*time.Minute).Seconds()
		low, high := chart[i]*(1-1e-6), chart[i]*most*(1+1e-6)
		if quantile { // of a bucket
			low, high = chart[i]/1.0221, chart[i]*1.0221
		}
		if math.IsNaN(got) {
			got = 0
		}
		if got < low-1e-9 || got > high+1e-9 {
			r.t.Errorf("%s, at %v: %s is %v, the chart has %v", what, times[i].Add(window), query, got, chart[i])
		}
	}
}
