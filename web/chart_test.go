package web

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
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

// wellFormed reads markup as XML, which the charts' is, and counts its elements.
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

// TestLineChart draws what a history may answer: nothing, one point, gaps, infinities.
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

// TestChartsSayWhatTheyShow: each drawing has a title, a description, and its numbers.
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
		if !strings.Contains(string(got), `role="img"`) || !strings.Contains(string(got), "2026-01-31 12:00:00") {
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

// TestHeatMapRows: the marks beside a heat map are the borders of its rows, from the top, at even distances.
func TestHeatMapRows(t *testing.T) {
	var bounds []float64
	for b := 0.001; len(bounds) < 20; b *= 2 {
		bounds = append(bounds, b)
	}
	for _, c := range []struct {
		low, high int // rows with calls
		want      string
	}{
		{7, 8, "512 ms 256 ms 128 ms 64 ms 32 ms"},
		{0, 1, "4 ms 2 ms 1 ms 500 µs"},
		{17, 19, "8.74 min 4.37 min 2.18 min 65.5 s 32.8 s"},
		{0, 19, "8.74 min 32.8 s 2.05 s 128 ms 8 ms 500 µs"},
	} {
		counts := make([]uint64, len(bounds))
		counts[c.low], counts[c.high] = 3, 5
		m := heatMap{ID: "h", Title: "Heat", Times: chartTimes(2), End: chartStart.Add(2 * time.Minute), Bounds: bounds, Counts: [][]uint64{counts}, Unit: unitSeconds}
		_, up, _ := strings.Cut(string(m.HTML()), `<div class="up" aria-hidden="true">`)
		up, _, _ = strings.Cut(up, "</div>")
		got := strings.TrimSpace(strings.NewReplacer("<span>", "", "</span>", " ").Replace(up))
		if got != c.want {
			t.Errorf("rows %d to %d: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

// TestHeatMapSumsUp: the numbers under a heat map have every call of it, however many fields it has.
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
	if n := strings.Count(got, "<path"); n > heatSteps {
		t.Errorf("%d paths for %d shades", n, heatSteps)
	}
}

// TestSparkAndMeter draw odd values.
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

// TestScales have round marks around their values.
func TestScales(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0, 0}, {0, 1}, {3, 97}, {-4, 9}, {0, 1e-9}, {0, 1e12}} {
		s := linearScale(c.low, c.high)
		if s.low > min(c.low, 0) || s.high < c.high || len(s.marks) < 2 || len(s.marks) > 13 {
			t.Errorf("%v to %v: %+v", c.low, c.high, s)
		}
	}
	if s := logScale(0.002, 0.5); s.low > 0.0011 || s.high < 0.999 || s.at(0.001) != 0 || math.Abs(s.at(1)-1) > 1e-9 {
		t.Errorf("2 ms to 500 ms: %+v", s)
	}
	if s := logScale(1e-9, 1e9); len(s.marks) > 7 {
		t.Errorf("18 powers of ten have %d marks", len(s.marks))
	}
}
