package statements

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

var axisStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// TestAxes divides ranges into points: their number, the length of one and that of the last.
func TestAxes(t *testing.T) {
	for _, c := range []struct {
		length time.Duration
		n      int
		even   bool
		want   string
	}{
		{time.Hour, 10, false, "1 × 1h0m0s, last 1h0m0s"},
		{time.Minute, 10, false, "1 × 1h0m0s, last 1m0s"},
		{0, 10, false, "1 × 1h0m0s, last 0s"},
		{10 * time.Hour, 10, false, "10 × 1h0m0s, last 1h0m0s"},
		{11 * time.Hour, 10, false, "6 × 2h0m0s, last 1h0m0s"},
		{9*time.Hour + 6*time.Minute, 10, false, "10 × 1h0m0s, last 6m0s"},
		{9*time.Hour + 6*time.Minute - 1, 10, false, "9 × 1h0m0s, last 1h5m59.999999999s"},
		{5 * time.Minute, 2, false, "1 × 1h0m0s, last 5m0s"},
		{time.Hour, 10, true, "10 × 6m0s, last 6m0s"},
		{time.Hour, 1000, true, "60 × 1m0s, last 1m0s"},
		{time.Minute, 10, true, "1 × 1m0s, last 1m0s"},
		{time.Minute - 1, 10, true, "1 × 59.999999999s, last 59.999999999s"},
		{2*time.Minute - 1, 10, true, "1 × 1m59.999999999s, last 1m59.999999999s"},
		{1, 10, true, "1 × 1ns, last 1ns"},
		{0, 10, true, "0 × 1m0s"},
		{-time.Hour, 10, true, "0 × 1m0s"},
	} {
		x := newAxis(axisStart, axisStart.Add(c.length), c.n, rollup.Hour)
		if c.even {
			x = evenAxis(axisStart, axisStart.Add(c.length), c.n, time.Minute)
		}
		got := fmt.Sprintf("%d × %v", x.n, x.step)
		if x.n > 0 {
			got += fmt.Sprintf(", last %v", x.length(x.n-1))
		}
		s := x.series()
		if got != c.want || len(s.Times) != x.n || s.Step != x.step || !s.End.Equal(axisStart.Add(max(c.length, 0))) && c.even {
			t.Errorf("%v in %d points: %s, want %s; %+v", c.length, c.n, got, c.want, s)
		}
		for i, at := range s.Times {
			if !at.Equal(axisStart.Add(time.Duration(i) * x.step)) {
				t.Errorf("%v: point %d at %v", c.length, i, at)
			}
		}
	}
}

// TestDivide divides counts among three points of ten seconds, the last of which ends two seconds early.
func TestDivide(t *testing.T) {
	x := axis{from: axisStart, step: 10 * time.Second, n: 3, end: axisStart.Add(28 * time.Second)}
	for _, c := range []struct {
		since, to float64
		want      string // point:from-to
	}{
		{0, 10, "0:0-1"},
		{2, 4, "0:0-1"},
		{5, 15, "0:0-0.5 1:0.5-1"},
		{10, 20, "1:0-1"},
		{0, 28, "0:0-0.36 1:0.36-0.71 2:0.71-1"},
		{20, 28, "2:0-1"},
		{-10, 10, "0:0.5-1"},
		{-30, 10, "0:0.75-1"},
		{24, 32, "2:0-0.5"},
		{-10, 38, "0:0.21-0.42 1:0.42-0.63 2:0.63-0.79"},
		{-10, 0, ""},
		{-10, -5, ""},
		{28, 30, ""},
		{27, 29, "2:0-0.5"},
		{5, 5, "0:0-1"},
		{10, 10, "0:0-1"},
		{20.5, 20.5, "2:0-1"},
		{0, 0, ""},
		{28, 28, ""},
	} {
		var parts []string
		at := func(s float64) time.Time { return axisStart.Add(time.Duration(s * 1e9)) }
		round := func(f float64) float64 { return math.Round(100*f) / 100 }
		x.divide(at(c.since), at(c.to), func(point int, from, to float64) {
			parts = append(parts, fmt.Sprintf("%d:%v-%v", point, round(from), round(to)))
		})
		if got := strings.Join(parts, " "); got != c.want {
			t.Errorf("from %v to %v: %q, want %q", c.since, c.to, got, c.want)
		}
	}
	for at, want := range map[time.Duration]int{-time.Hour: 0, 0: 0, 10*time.Second - 1: 0, 10 * time.Second: 1, 20 * time.Second: 2, 28 * time.Second: 2, time.Hour: 2} {
		if got := x.point(axisStart.Add(at)); got != want {
			t.Errorf("%v is in point %d, want %d", at, got, want)
		}
	}
	none := axis{from: axisStart, step: time.Minute, end: axisStart}
	none.divide(axisStart.Add(-1), axisStart.Add(1), func(int, float64, float64) { t.Error("an axis without points has one") })
}

// histogramOf returns a histogram of durations.
func histogramOf(all ...time.Duration) *stmtstats.Histogram {
	h := new(stmtstats.Histogram)
	for _, d := range all {
		h.Record(d)
	}
	return h
}

// TestTotalPoint expects the quantiles of a point to be those of the histogram that it has.
func TestTotalPoint(t *testing.T) {
	for name, h := range map[string]*stmtstats.Histogram{
		"none":       histogramOf(),
		"one":        histogramOf(time.Second),
		"zero":       histogramOf(0),
		"zeros":      histogramOf(0, 0, 0, time.Second),
		"half zeros": histogramOf(0, 0, time.Second, time.Second),
		"octaves":    histogramOf(time.Microsecond, time.Millisecond, time.Millisecond, time.Second, time.Hour),
		"neighbors":  histogramOf(1000*time.Millisecond, 1050*time.Millisecond, 1100*time.Millisecond, 1900*time.Millisecond, 2100*time.Millisecond),
		"lowest":     histogramOf(2, 1, 100),
	} {
		var p totalPoint
		p.add(h, 1)
		calls := p.calls()
		if calls != float64(h.Count()) || p.nanos != float64(h.Nanos) || p.zero != float64(h.Zero) {
			t.Errorf("%s: %v calls, %v ns, %v of no time", name, calls, p.nanos, p.zero)
		}
		for _, q := range []float64{0, 0.2, 0.25, 0.5, 0.75, 0.8, 0.99, 1} {
			if got, want := p.quantile(q, calls), h.Quantile(q).Seconds(); math.Abs(got-want) > 1e-9+1e-6*want {
				t.Errorf("%s: the quantile %v is %v, want %v", name, q, got, want)
			}
		}
	}
	var half totalPoint
	half.add(histogramOf(time.Second), 0.5)
	if got := half.quantile(0.5, half.calls()); math.Abs(got-1) > 0.03 {
		t.Errorf("half a call of a second took %v", got)
	}
	var rounded totalPoint
	rounded.add(histogramOf(time.Second), leastCalls/2)
	if got := rounded.quantile(0.5, rounded.calls()); got != 0 {
		t.Errorf("no call took %v", got)
	}
}

// TestFill carries negative counts to the next point, once, and divides by the length of each point.
func TestFill(t *testing.T) {
	x := axis{from: axisStart, step: 10 * time.Second, n: 3, end: axisStart.Add(25 * time.Second)}
	points := make([]totalPoint, 3)
	points[0].add(histogramOf(time.Second, 0), -1)
	points[0].errors = -1
	points[1].add(histogramOf(time.Second, time.Second, time.Second, 0, 0, 0), 1)
	points[1].errors = 6
	points[2].add(histogramOf(10*time.Second), 1)
	var s Series
	s.fill(x, points)
	check := func(name string, got []float64, want ...float64) {
		t.Helper()
		for i := range want {
			if len(got) != len(want) || math.Abs(got[i]-want[i]) > 0.03*want[i] {
				t.Errorf("%s: %v, want %v", name, got, want)
				return
			}
		}
	}
	check("calls", s.Calls, 0, 0.4, 0.2)
	check("errors", s.Errors, 0, 0.5, 0)
	check("load", s.Load, 0, 0.2, 2)
	check("p50", s.P50, 0, 0, 10)
	check("p99", s.P99, 0, 1, 10)
	check("p99.9", s.P999, 0, 1, 10)
}

// TestSeriesOfSums computes a chart of sums, one of which is less than the one before. A spread that cannot be decoded is an
// error, of either sum.
func TestSeriesOfSums(t *testing.T) {
	sum := func(after time.Duration, failed uint64, h *stmtstats.Histogram) history.Sum {
		var c stmtstats.Counts
		c[int(stmtstats.Errors)+int(stmtstats.ClassDeadlock)], c[stmtstats.Nanos] = failed, h.Nanos
		return history.Sum{At: axisStart.Add(after).UnixMilli(), Counts: c, Spread: h.AppendSpread(nil)}
	}
	x := axis{from: axisStart, step: time.Minute, n: 3, end: axisStart.Add(3 * time.Minute)}
	sums := []history.Sum{
		sum(0, 1, histogramOf(time.Second, 0)),
		sum(time.Minute, 4, histogramOf(time.Second, time.Second, time.Second, 0, 0)),
		sum(2*time.Minute, 3, histogramOf(time.Second, time.Second, 0, 0)),
		sum(3*time.Minute, 6, histogramOf(time.Second, time.Second, time.Second, time.Second, 0, 0)),
	}
	var top Top
	if err := top.seriesOfSums(x, sums); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%.3f %.3f %.3f", top.Series.Calls, top.Series.Errors, top.Series.Load)
	if want := "[0.050 0.000 0.017] [0.050 0.000 0.033] [0.033 0.000 0.017]"; got != want || len(top.Notes) > 0 {
		t.Errorf("%s, want %s; notes %q", got, want, top.Notes)
	}
	for after, noted := range map[time.Duration]bool{0: false, history.RefreshAge: false, history.RefreshAge + time.Millisecond: true} {
		top = Top{}
		sums[0].At = axisStart.Add(after).UnixMilli()
		if err := top.seriesOfSums(x, sums); err != nil || len(top.Notes) > 0 != noted {
			t.Errorf("sums from %v on: %v, notes %q", after, err, top.Notes)
		}
	}
	for i := range 2 {
		bad := []history.Sum{sums[0], sums[1]}
		bad[i].Spread = []byte{0xff}
		if err := (&Top{}).seriesOfSums(x, bad); err == nil {
			t.Errorf("a damaged spread of sum %d is taken", i)
		}
	}
}

// TestHeat has a row for each octave between those that have calls, and one for calls of no time.
func TestHeat(t *testing.T) {
	heat := heatOf([]stmtstats.Histogram{*histogramOf(0, 0, time.Second), {}, *histogramOf(4*time.Second, 1100*time.Millisecond, 1900*time.Millisecond)})
	if got, want := fmt.Sprint(heat.Counts), "[[2 1 0 0] [0 0 0 0] [0 0 2 1]]"; got != want || len(heat.Bounds) != 4 {
		t.Fatalf("%s, want %s; %v", got, want, heat.Bounds)
	}
	for i, b := range heat.Bounds[2:] {
		if math.Abs(float64(b)/float64(heat.Bounds[i+1])-2) > 1e-6 && i > 0 {
			t.Errorf("bounds %v do not double", heat.Bounds)
		}
	}
	if b := heat.Bounds; b[0] <= 0 || b[0] >= b[1] || b[1] < time.Second || b[3] < 4*time.Second {
		t.Errorf("bounds %v", b)
	}
	if heat := heatOf(make([]stmtstats.Histogram, 2)); len(heat.Bounds) != 0 || len(heat.Counts) != 2 {
		t.Errorf("no calls: %+v", heat)
	}
	if heat := heatOf([]stmtstats.Histogram{*histogramOf(time.Second)}); fmt.Sprint(heat.Counts) != "[[1]]" {
		t.Errorf("one call: %+v", heat)
	}
}

// TestExpressions has the expression of each chart.
func TestExpressions(t *testing.T) {
	c := ChartQuery{Selector: `{digest="1"}`, Step: time.Minute}
	window := "[" + c.Window() + "]"
	rate := func(m stmtseries.Metric) string { return "(rate(" + m.String() + `{digest="1"}` + window + "))" }
	for got, want := range map[string]string{
		c.Calls():                    "sum" + rate(stmtseries.Queries),
		c.Errors():                   "sum" + rate(stmtseries.Errors),
		c.Effect(stmtstats.RowsSent): "sum(rate(tare_query_rows_sent_total" + c.Selector + "[" + c.Window() + "]))",
		c.Load():                     "histogram_sum(sum" + rate(stmtseries.Duration) + ")",
		c.Quantile(0.999):            "histogram_quantile(0.999, sum" + rate(stmtseries.Duration) + ")",
		c.TagLoad(7):                 `topk(7, sum by (value) (rate(tare_tag_query_seconds_total{digest="1"}` + window + ")))",
		c.Heat():                     "sum(increase(" + stmtseries.Duration.String() + `{digest="1"}` + window + "))",
		c.Top(ByCalls, 5):            "topk(5, sum by (digest) " + rate(stmtseries.Queries) + ")",
		c.Top(ByMean, 20):            "topk(20, histogram_avg(sum by (digest) " + rate(stmtseries.Duration) + "))",
		c.Top(ByFirstSeen, 5):        "",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
