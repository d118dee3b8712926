package web

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/chart"
)

// A series is one line of a chart: a value per time, NaN if there is none.
type series struct {
	Name   string
	Values []float64
}

// A lineChart shows values over time.
type lineChart struct {
	ID, Title string
	From, To  time.Time // of the axis; extended by Times
	Times     []time.Time
	Series    []series // at most six
	Unit      unit
	Log       bool // logarithmic axis; values that are not positive are at the bottom
	Area      bool // fill the area under the first line
	Stacked   bool // each line is added to the previous one, and the area between them is filled
	PromQL    string
	Marks     []mark
}

// maxTableRows bounds the table of values under a chart.
const maxTableRows = 240

// HTML returns the figure.
func (c lineChart) HTML() template.HTML {
	p := plot{id: c.ID, title: c.Title, promql: c.PromQL}
	for _, s := range c.Series {
		p.legend = append(p.legend, s.Name)
	}
	low, high := math.Inf(1), math.Inf(-1)
	drawn := c.Series
	if c.Stacked {
		drawn = stack(c.Series, len(c.Times))
	}
	for _, s := range drawn {
		low, high = chart.Extent(low, high, s.Values)
	}
	if len(c.Times) == 0 || low > high {
		p.empty, p.desc = true, "no statements."
		return p.html()
	}
	y := chart.LinearScale(low, high)
	if c.Unit == unitBytes || c.Unit == unitByteRate {
		y = chart.ByteScale(low, high)
	}
	if c.Log {
		least := math.Inf(1)
		for _, s := range c.Series {
			for _, v := range s.Values {
				if v > 0 {
					least = min(least, v)
				}
			}
		}
		y = chart.LogScale(least, high)
	}
	for _, m := range y.Marks {
		p.up = append(p.up, tick{y.At(m), c.Unit.write(m)})
	}
	x := newTimeScale(c.From, c.To, c.Times)
	if x.from.Equal(x.to) {
		p.across = []tick{{0.5, moment(x.from)}}
	} else {
		p.across = timeTicks(x.from, x.to)
		p.from, p.to = x.from, x.to
	}
	p.marks = c.Marks
	p.desc = c.describe()
	p.drawing = c.draw(x, y, p.across, drawn)
	p.table = c.table(x)
	return p.html()
}

// describe returns a textual description of the lines.
func (c lineChart) describe() string {
	var b strings.Builder
	first, last := c.Times[0], c.Times[len(c.Times)-1]
	b.WriteString("From " + moment(first) + " to " + moment(last) + " UTC.")
	for _, s := range c.Series {
		low, high := chart.Extent(math.Inf(1), math.Inf(-1), s.Values)
		if low > high {
			b.WriteString(" " + s.Name + ": no value.")
			continue
		}
		latest := math.NaN()
		for _, v := range s.Values {
			if chart.IsNumber(v) {
				latest = v
			}
		}
		b.WriteString(" " + s.Name + ": " + c.Unit.write(low) + " to " + c.Unit.write(high) + ", at last " + c.Unit.write(latest) + ".")
	}
	return b.String()
}

func (c lineChart) draw(scale timeScale, y chart.Scale, ticks []tick, drawn []series) string {
	b := chart.SVG{Whole: len(drawn) > 1} // a page has many points
	b.WriteString(`<path class="grid" d="`)
	for _, m := range y.Marks {
		b.WriteString("M0 ")
		b.Num(boxHeight * (1 - y.At(m)))
		b.WriteString("H1000")
	}
	b.WriteString(`"/>`)
	tickPath(&b, ticks)
	x := make([]float64, len(c.Times))
	for i, t := range c.Times {
		x[i] = boxWidth * scale.at(t)
	}
	for i := len(drawn) - 1; i >= 0; i-- { // the first is drawn last, on top
		class, at := string(rune('1'+i%6)), heights(y, drawn[i].Values)
		if c.Area && i == 0 || c.Stacked {
			b.WriteString(`<path class="area c` + class)
			if c.Stacked {
				b.WriteString(" stacked")
			}
			b.WriteString(`" d="`)
			b.Area(x, at, foot(y))
			b.WriteString(`"/>`)
		}
		b.WriteString(`<path class="line c` + class + `" d="`)
		b.Line(x, at)
		b.WriteString(`"/>`)
	}
	return b.String()
}

// heights returns the vertical positions of values in the box, NaN for those that are no numbers.
func heights(y chart.Scale, values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if out[i] = math.NaN(); chart.IsNumber(v) {
			out[i] = boxHeight * (1 - y.At(v))
		}
	}
	return out
}

// foot returns the vertical position from which areas are filled: of 0, or of the end of the scale.
func foot(y chart.Scale) float64 { return boxHeight * (1 - y.At(max(0, y.Low))) }

// tickPath draws short strokes at the bottom of a drawing, above the labels.
func tickPath(b *chart.SVG, ticks []tick) {
	b.WriteString(`<path class="grid" d="`)
	for _, m := range ticks {
		b.WriteByte('M')
		b.Num(boxWidth * m.at)
		b.WriteString(" 200v6")
	}
	b.WriteString(`"/>`)
}

// stack adds to each series the previous ones. A missing value counts as 0 if another series has one.
func stack(all []series, n int) []series {
	sum := make([]float64, n)
	known := make([]bool, n)
	for _, s := range all {
		for i, v := range s.Values[:min(n, len(s.Values))] {
			known[i] = known[i] || chart.IsNumber(v)
		}
	}
	out := make([]series, len(all))
	for k, s := range all {
		values := make([]float64, n)
		for i := range values {
			if i < len(s.Values) && chart.IsNumber(s.Values[i]) {
				sum[i] += s.Values[i]
			}
			if values[i] = sum[i]; !known[i] {
				values[i] = math.NaN()
			}
		}
		out[k] = series{s.Name, values}
	}
	return out
}

// A timeScale maps times to 0 at the left and 1 at the right.
type timeScale struct{ from, to time.Time }

// newTimeScale spans from, to and all times, in ascending order; zero times do not count.
func newTimeScale(from, to time.Time, times []time.Time) timeScale {
	s := timeScale{from, to}
	if len(times) > 0 {
		if first := times[0]; s.from.IsZero() || first.Before(s.from) {
			s.from = first
		}
		if last := times[len(times)-1]; s.to.IsZero() || last.After(s.to) {
			s.to = last
		}
	}
	return s
}

// at returns the position of t, or the middle if the scale is a single time.
func (s timeScale) at(t time.Time) float64 {
	length := s.to.Sub(s.from)
	if length <= 0 {
		return 0.5
	}
	return min(max(float64(t.Sub(s.from))/float64(length), 0), 1)
}

func (c lineChart) table(x timeScale) string {
	var b chart.SVG
	b.WriteString("<table><thead><tr><th scope=\"col\">Time (" + utc + ")</th>")
	for _, s := range c.Series {
		b.WriteString(`<th scope="col" class="n">`)
		b.Text(s.Name)
		b.WriteString("</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	every := (len(c.Times) + maxTableRows - 1) / maxTableRows
	for i := 0; i < len(c.Times); i += every {
		b.WriteString("<tr")
		b.Attr("data-at", boxWidth*x.at(c.Times[i]))
		b.WriteString(`><th scope="row">`)
		b.Text(moment(c.Times[i]))
		b.WriteString("</th>")
		for _, s := range c.Series {
			v := math.NaN()
			if i < len(s.Values) {
				v = s.Values[i]
			}
			b.Element("td", "n", c.Unit.write(v))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return b.String()
}

// A lane is one row of a timeLine.
type lane struct {
	Name  string
	Spans []laneSpan
}

// A laneSpan is an interval of time in a lane.
type laneSpan struct {
	From, To time.Time
	Name     string
	Class    int // colour: 1 to 6 for c1 to c6; 0 is 1
}

// A timeLine shows intervals of time in lanes.
type timeLine struct {
	ID, Title string
	From, To  time.Time
	Lanes     []lane
}

// HTML returns the figure. Its table has the spans.
func (c timeLine) HTML() template.HTML {
	p := plot{id: c.ID, title: c.Title, class: "lanes"}
	length := c.To.Sub(c.From)
	if len(c.Lanes) == 0 || length <= 0 {
		p.empty, p.desc = true, "it is empty."
		return p.html()
	}
	var drawing, table chart.SVG
	table.WriteString(`<table><thead><tr><th scope="col">Lane</th><th scope="col">From (` + utc + `)</th><th scope="col">To (` + utc + `)</th><th scope="col">What</th></tr></thead><tbody>`)
	h := boxHeight / float64(len(c.Lanes))
	total := 0
	x := timeScale{c.From, c.To}
	at := func(t time.Time) float64 { return boxWidth * x.at(t) }
	for i, l := range c.Lanes {
		p.up = append(p.up, tick{1 - (float64(i)+0.5)/float64(len(c.Lanes)), l.Name})
		for _, s := range l.Spans {
			total++
			drawing.WriteString(`<rect class="lane c` + strconv.Itoa(max(s.Class, 1)) + `"`)
			left := at(s.From)
			drawing.Attr("x", left)
			drawing.Attr("y", float64(i)*h+h*0.12)
			drawing.Attr("width", max(at(s.To)-left-0.6, 1))
			drawing.Attr("height", h*0.76)
			drawing.WriteString("><title>")
			drawing.Text(s.Name)
			drawing.WriteString("</title></rect>")
			if total <= maxTableRows {
				table.WriteString(`<tr><th scope="row">`)
				table.Text(l.Name)
				table.WriteString("</th>")
				table.Element("td", "", moment(s.From))
				table.Element("td", "", moment(s.To))
				table.Element("td", "", s.Name)
				table.WriteString("</tr>")
			}
		}
	}
	table.WriteString("</tbody></table>")
	p.across = timeTicks(c.From, c.To)
	tickPath(&drawing, p.across)
	p.desc = "From " + moment(c.From) + " to " + moment(c.To) + " UTC: " + many(total, "span") + " in " + many(len(c.Lanes), "lane") + "."
	p.drawing, p.table = drawing.String(), table.String()
	return p.html()
}
