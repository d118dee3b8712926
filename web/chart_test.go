package web

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var chartStart = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func chartTimes(n int) []time.Time {
	times := make([]time.Time, n)
	for i := range times {
		times[i] = chartStart.Add(time.Duration(i) * time.Minute)
	}
	return times
}

// wellFormed parses markup as XML, which charts are, and counts its elements.
func wellFormed(t *testing.T, markup template.HTML) map[string]int {
	t.Helper()
	elements := map[string]int{}
	d := xml.NewDecoder(strings.NewReader("<x>" + strings.ReplaceAll(string(markup), " hidden>", ">") + "</x>"))
	d.Strict = true
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			if strings.Contains(err.Error(), "attribute") && strings.Contains(string(markup), "data-copy") {
				return elements // an attribute without a value, which only HTML has
			}
			t.Fatalf("%v in %s", err, markup)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
}

// TestLineChart draws possible results of a history: nothing, one point, gaps, infinities.
func TestLineChart(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		values []float64
		log    bool
		rows   int
		has    []string
		not    []string
	}{
		"nothing":         {values: nil, rows: 0, has: []string{"No data in this range"}, not: []string{"<svg"}},
		"no number":       {values: []float64{nan, nan, inf}, has: []string{"No data in this range"}, not: []string{"<svg", "NaN", "Inf"}},
		"one point":       {values: []float64{3}, rows: 1, has: []string{`<path class="line c1" d="M498`, "h4"}},
		"a gap":           {values: []float64{1, nan, 2, 2}, rows: 4, has: []string{"M0 ", "h4M666", "–"}, not: []string{"NaN"}},
		"all zero":        {values: []float64{0, 0}, rows: 2, has: []string{"M0 200L1000 200"}},
		"logarithm":       {values: []float64{0.001, 0, 10}, log: true, rows: 3, has: []string{"1 ms", "10 s"}, not: []string{"NaN", "Inf"}},
		"log of zero":     {values: []float64{0, 0}, log: true, rows: 2, not: []string{"NaN", "Inf"}},
		"huge":            {values: []float64{1e199, 3, math.MaxFloat64}, rows: 3, not: []string{"NaN", "Inf"}},
		"tiny":            {values: []float64{5e-324, 1e-300}, rows: 2, not: []string{"NaN", "Inf"}},
		"negative":        {values: []float64{-5, 5}, rows: 2, not: []string{"NaN", "Inf"}},
		"more than times": {values: []float64{1, 2, 3, 4, 5}, rows: 5},
	} {
		t.Run(name, func(t *testing.T) {
			chart := lineChart{
				ID: "x", Title: "A <title> & more", Times: chartTimes(len(c.values)), Unit: unitSeconds, Log: c.log, Area: true,
				Series: []series{{Name: `"quoted" <script>`, Values: c.values}}, PromQL: `sum(x{a="<b>"})`,
			}
			if name == "more than times" {
				chart.Times, c.rows = chart.Times[:3], 3
			}
			got := chart.HTML()
			wellFormed(t, got)
			for _, want := range c.has {
				if !strings.Contains(string(got), want) {
					t.Errorf("there is no %q in %s", want, got)
				}
			}
			for _, bad := range append(c.not, "<script>", "<title>&", `a="<b>`) {
				if strings.Contains(string(got), bad) {
					t.Errorf("there is %q in %s", bad, got)
				}
			}
			if rows := strings.Count(string(got), `<th scope="row">`); rows != c.rows {
				t.Errorf("%d rows of numbers, want %d", rows, c.rows)
			}
		})
	}
}

// TestChartsSayWhatTheyShow expects each drawing to have a title, a description, and its values.
func TestChartsSayWhatTheyShow(t *testing.T) {
	times := chartTimes(3)
	for name, got := range map[string]template.HTML{
		"line": lineChart{ID: "l", Title: "Line", Times: times, Series: []series{{"a", []float64{1, 2, 3}}}}.HTML(),
		"heat": heatMap{
			ID: "h", Title: "Heat", Times: times, End: times[2].Add(time.Minute), Unit: unitSeconds,
			Bounds: []float64{0.001, 0.002, 0.004}, Counts: [][]uint64{{1, 0, 0}, {0, 9, 0}, {0, 0, 1}},
		}.HTML(),
		"time": timeLine{ID: "t", Title: "Time", From: times[0], To: times[2], Lanes: []lane{{"level 1", []laneSpan{{times[0], times[1], "a block", 2}}}}}.HTML(),
	} {
		e := wellFormed(t, got)
		if e["title"] == 0 || e["desc"] != 1 || e["table"] != 1 || e["svg"] == 0 {
			t.Errorf("%s has %v: want a title, a desc and a table", name, e)
		}
		if !strings.Contains(string(got), `role="img"`) || !strings.Contains(plainTimes(string(got)), "2026-01-31 12:00:00") {
			t.Errorf("%s does not say from when it is: %s", name, got)
		}
	}
	for name, got := range map[string]template.HTML{
		"heat": heatMap{Bounds: []float64{1}, Counts: [][]uint64{{0}}, Times: times[:1]}.HTML(),
		"time": timeLine{}.HTML(),
	} {
		if !strings.Contains(string(got), "No data in this range") {
			t.Errorf("an empty %s: %s", name, got)
		}
	}
}

// TestHeatMapRows expects the marks beside a heat map at the borders of its rows.
func TestHeatMapRows(t *testing.T) {
	var bounds []float64
	for b := 0.001; len(bounds) < 20; b *= 2 {
		bounds = append(bounds, b)
	}
	for _, c := range []struct {
		low, high int // rows with calls
		want      string
	}{
		{7, 8, "512 ms@0% 256 ms@25% 128 ms@50% 64 ms@75% 32 ms@100%"},
		{0, 1, "4 ms@0% 2 ms@33.33% 1 ms@66.67% 500 µs@100%"},
		{17, 19, "8.74 min@0% 4.37 min@25% 2.18 min@50% 65.5 s@75% 32.8 s@100%"},
		{0, 12, "8.19 s@0% 2.05 s@14.29% 512 ms@28.57% 128 ms@42.86% 32 ms@57.14% 8 ms@71.43% 2 ms@85.71% 500 µs@100%"},
		{0, 19, "2.18 min@10% 16.4 s@25% 2.05 s@40% 256 ms@55% 32 ms@70% 4 ms@85% 500 µs@100%"},
	} {
		counts := make([]uint64, len(bounds))
		counts[c.low], counts[c.high] = 3, 5
		m := heatMap{ID: "h", Title: "Heat", Times: chartTimes(2), End: chartStart.Add(2 * time.Minute), Bounds: bounds, Counts: [][]uint64{counts}, Unit: unitSeconds}
		_, up, _ := strings.Cut(string(m.HTML()), `<div class="up" aria-hidden="true">`)
		up, _, _ = strings.Cut(up, "</div>")
		var got []string
		for _, m := range regexp.MustCompile(`y="([^"]*)"[^>]*>([^<]*)<`).FindAllStringSubmatch(up, -1) {
			got = append(got, m[2]+"@"+m[1])
		}
		slices.Reverse(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("rows %d to %d: %s, want %s", c.low, c.high, strings.Join(got, " "), c.want)
		}
	}
}

// TestTimeTicks expects labels at round times, at most eight, and fewer than three only for ranges that have
// no more.
func TestTimeTicks(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ from, to, want string }{
		{"2026-01-31T12:03:20Z", "2026-01-31T13:03:20Z", "12:10 12:20 12:30 12:40 12:50 13:00"},
		{"2026-01-31T12:03:21Z", "2026-01-31T12:08:21Z", "12:04 12:05 12:06 12:07 12:08"},
		{"2026-01-31T23:58:00Z", "2026-02-01T00:03:00Z", "23:58 23:59 00:00 00:01 00:02 00:03"},
		{"2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z", "12:00 16:00 20:00 Feb 1 04:00 08:00 12:00"},
		{"2026-01-25T12:00:00Z", "2026-02-01T12:00:00Z", "Jan 26 Jan 27 Jan 28 Jan 29 Jan 30 Jan 31 Feb 1"},
		{"2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", "Jan 5 Jan 12 Jan 19 Jan 26"},
		{"2026-01-31T12:00:00.5Z", "2026-01-31T12:00:02.5Z", "12:00:01 12:00:02"},
	} {
		var got []string
		from, to := at(c.from), at(c.to)
		for _, m := range timeTicks(from, to) {
			got = append(got, plainTimes(m.text))
			if m.at < 0 || m.at > 1 {
				t.Errorf("%s to %s: %s is at %v", c.from, c.to, m.text, m.at)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s: %s, want %s", c.from, c.to, strings.Join(got, " "), c.want)
		}
	}
	for length := time.Second; length < 400*24*time.Hour; length = length*5/4 + time.Second {
		n := len(timeTicks(chartStart.Add(time.Millisecond), chartStart.Add(length)))
		if n > maxTicks+1 || n < 2 && length > 5*time.Second {
			t.Errorf("%v has %d labels", length, n)
		}
	}
}

// TestStackedChart expects each line to be added to the previous ones; missing values count as 0 if another
// line has one.
func TestStackedChart(t *testing.T) {
	nan := math.NaN()
	got := stack([]series{{"a", []float64{1, nan, nan, 4}}, {"b", []float64{2, 3, nan}}}, 4)
	want := [][]float64{{1, 0, nan, 4}, {3, 3, nan, 4}}
	for i := range want {
		for k, w := range want[i] {
			if v := got[i].Values[k]; v != w && !(math.IsNaN(v) && math.IsNaN(w)) {
				t.Errorf("line %d at %d is %v, want %v", i, k, v, w)
			}
		}
	}
}

// TestChartSpansTheRange expects the axis to cover the requested range, and the line to start at the first
// value.
func TestChartSpansTheRange(t *testing.T) {
	c := lineChart{
		ID: "x", Title: "X", From: chartStart.Add(-time.Hour), To: chartStart.Add(time.Hour), Times: chartTimes(3),
		Series: []series{{"x", []float64{1, 1, 1}}}, Unit: unitCount,
	}
	got := plainTimes(string(c.HTML()))
	for _, want := range []string{`<path class="line c1" d="M500 `, `data-at="508.33"`, `data-from="1769857200"`, ">12:00<"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestHeatMapSumsUp expects the table under a heat map to contain every call, regardless of the number of
// fields.
func TestHeatMapSumsUp(t *testing.T) {
	const columns, rows = 120, 37
	c := heatMap{ID: "h", Title: "Heat", Times: chartTimes(columns), End: chartStart.Add(columns * time.Minute), Unit: unitSeconds}
	for i := range rows {
		c.Bounds = append(c.Bounds, math.Pow(2, float64(i-20)))
	}
	var want uint64
	for x := range columns {
		column := make([]uint64, rows)
		for y := range column {
			if (x+y)%3 == 0 {
				column[y] = uint64(x * y)
				want += column[y]
			}
		}
		c.Counts = append(c.Counts, column)
	}
	got := string(c.HTML())
	var sum uint64
	for _, cell := range strings.Split(got, `<td class="n">`)[1:] {
		text, _, _ := strings.Cut(cell, "<")
		var n uint64
		for _, r := range strings.ReplaceAll(text, ",", "") {
			n = n*10 + uint64(r-'0')
		}
		sum += n
	}
	if sum != want {
		t.Errorf("the numbers sum up to %d, want %d", sum, want)
	}
	if n := strings.Count(got, `<th scope="row">`); n > 24 {
		t.Errorf("%d rows of numbers", n)
	}
	if n := strings.Count(got, `<path class="h`); n > heatSteps {
		t.Errorf("%d paths for %d shades", n, heatSteps)
	}
}

// TestSparkAndMeter draws unusual values.
func TestSparkAndMeter(t *testing.T) {
	for _, values := range [][]float64{nil, {}, {math.NaN()}, {1}, {0, 0}, {1, math.NaN(), 3}, {math.Inf(-1), 1}} {
		got := spark("load <x>", values, unitLoad)
		wellFormed(t, got)
		if s := string(got); !strings.Contains(s, "<title>") || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%v: %s", values, s)
		}
	}
	for f, want := range map[float64]string{-1: `width="0"`, 0.5: `width="50"`, 7: `width="100"`, math.Inf(1): `width="0"`} {
		if got := string(meter(f)); !strings.Contains(got, want) {
			t.Errorf("a meter of %v: %s, want %s", f, got, want)
		}
	}
	if got := string(meter(math.NaN())); !strings.Contains(got, `width="0"`) {
		t.Errorf("a meter of no number: %s", got)
	}
	bars := string(barChart{Title: "<b>", Of: "user", Unit: unitSeconds, Bars: []bar{{Name: "<i>", Link: `/?a="b"`, Value: math.NaN()}, {Value: 2}}}.HTML())
	if strings.Contains(bars, "<i>") || strings.Contains(bars, "<b>") || !strings.Contains(bars, "&lt;i&gt;") {
		t.Errorf("bars: %s", bars)
	}
}
