package web

import (
	"html/template"
	"math"
	"strings"
	"time"
)

// A series is one line of a chart: a value for each time, NaN where there is none.
type series struct {
	Name   string
	Values []float64
}

// A lineChart shows values over time.
type lineChart struct {
	ID, Title string
	Times     []time.Time
	Series    []series // at most six
	Unit      unit
	Log       bool // the axis; values that are not positive lie at its foot
	Area      bool // the first line stands on a filled area
	PromQL    string
	Marks     []mark
}

// maxTableRows bounds the numbers under a chart.
const maxTableRows = 240

// HTML is the figure.
func (c lineChart) HTML() template.HTML {
	p := plot{id: c.ID, title: c.Title, promql: c.PromQL}
	for _, s := range c.Series {
		p.legend = append(p.legend, s.Name)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		low, high = extent(low, high, s.Values)
	}
	if len(c.Times) == 0 || low > high {
		p.empty, p.desc = true, "no statements."
		return p.html()
	}
	y := linearScale(low, high)
	if c.Unit == unitBytes || c.Unit == unitByteRate {
		y = byteScale(low, high)
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
		y = logScale(least, high)
	}
	for i := len(y.marks) - 1; i >= 0; i-- {
		p.up = append(p.up, c.Unit.write(y.marks[i]))
	}
	first, last := c.Times[0], c.Times[len(c.Times)-1]
	if len(c.Times) == 1 {
		p.across = []string{moment(first)}
	} else {
		p.across = timeMarks(first, last, 5)
		p.from, p.to = first, last
	}
	p.marks = c.Marks
	p.desc = c.describe()
	p.drawing = c.draw(y)
	p.table = c.table()
	return p.html()
}

// describe says in words what the lines do.
func (c lineChart) describe() string {
	var b strings.Builder
	first, last := c.Times[0], c.Times[len(c.Times)-1]
	b.WriteString("From " + moment(first) + " to " + moment(last) + " UTC.")
	for _, s := range c.Series {
		low, high := extent(math.Inf(1), math.Inf(-1), s.Values)
		if low > high {
			b.WriteString(" " + s.Name + ": no value.")
			continue
		}
		latest := math.NaN()
		for _, v := range s.Values {
			if isNumber(v) {
				latest = v
			}
		}
		b.WriteString(" " + s.Name + ": " + c.Unit.write(low) + " to " + c.Unit.write(high) + ", at last " + c.Unit.write(latest) + ".")
	}
	return b.String()
}

func (c lineChart) draw(y scale) string {
	var b svg
	b.WriteString(`<path class="grid" d="`)
	for _, m := range y.marks {
		b.WriteString("M0 ")
		b.num(boxHeight * (1 - y.at(m)))
		b.WriteString("H1000")
	}
	b.WriteString(`"/>`)
	x := timeScale(c.Times)
	for i := len(c.Series) - 1; i >= 0; i-- { // the first lies on top
		class := string(rune('1' + i%6))
		if c.Area && i == 0 {
			b.WriteString(`<path class="area c` + class + `" d="`)
			areaPath(&b, x, y, c.Series[i].Values)
			b.WriteString(`"/>`)
		}
		b.WriteString(`<path class="line c` + class + `" d="`)
		linePath(&b, x, y, c.Series[i].Values)
		b.WriteString(`"/>`)
	}
	return b.String()
}

// timeScale is where each time is; one alone is in the middle.
func timeScale(times []time.Time) []float64 {
	at := make([]float64, len(times))
	if len(times) == 1 {
		at[0] = boxWidth / 2
		return at
	}
	first, length := times[0], float64(times[len(times)-1].Sub(times[0]))
	for i, t := range times {
		if length > 0 {
			at[i] = min(max(float64(t.Sub(first))/length, 0), 1) * boxWidth
		}
	}
	return at
}

// linePath draws through the values, with gaps where there are none. A value between two gaps is a
// short stroke.
func linePath(b *svg, x []float64, y scale, values []float64) {
	drawing := false
	for i, v := range values[:min(len(values), len(x))] {
		if !isNumber(v) {
			drawing = false
			continue
		}
		at := boxHeight * (1 - y.at(v))
		next := i+1 < len(values) && i+1 < len(x) && isNumber(values[i+1])
		switch {
		case drawing:
			b.WriteByte('L')
		case next:
			b.WriteByte('M')
		default:
			b.WriteByte('M')
			b.num(max(x[i]-2, 0))
			b.WriteByte(' ')
			b.num(at)
			b.WriteString("h4")
			continue
		}
		b.num(x[i])
		b.WriteByte(' ')
		b.num(at)
		drawing = true
	}
}

// areaPath fills under each unbroken run of values.
func areaPath(b *svg, x []float64, y scale, values []float64) {
	foot := boxHeight * (1 - y.at(max(0, y.low)))
	n := min(len(values), len(x))
	for i := 0; i < n; i++ {
		if !isNumber(values[i]) {
			continue
		}
		start := i
		b.WriteByte('M')
		b.num(x[i])
		b.WriteByte(' ')
		b.num(foot)
		for ; i < n && isNumber(values[i]); i++ {
			b.WriteByte('L')
			b.num(x[i])
			b.WriteByte(' ')
			b.num(boxHeight * (1 - y.at(values[i])))
		}
		b.WriteByte('L')
		b.num(x[max(i-1, start)])
		b.WriteByte(' ')
		b.num(foot)
		b.WriteByte('Z')
	}
}

func (c lineChart) table() string {
	var b svg
	b.WriteString("<table><thead><tr><th scope=\"col\">Time (UTC)</th>")
	for _, s := range c.Series {
		b.WriteString(`<th scope="col" class="n">`)
		b.text(s.Name)
		b.WriteString("</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	every := (len(c.Times) + maxTableRows - 1) / maxTableRows
	for i := 0; i < len(c.Times); i += every {
		b.WriteString(`<tr><th scope="row">`)
		b.text(moment(c.Times[i]))
		b.WriteString("</th>")
		for _, s := range c.Series {
			v := math.NaN()
			if i < len(s.Values) {
				v = s.Values[i]
			}
			b.element("td", "n", c.Unit.write(v))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return b.String()
}
