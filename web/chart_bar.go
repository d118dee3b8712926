package web

import (
	"html/template"
	"math"

	"github.com/taredb/tare/internal/chart"
)

// A bar is one row of a barChart.
type bar struct {
	Name  string
	Link  string // "" for none
	Value float64
	Note  string // appended to the value
}

// A barChart compares values. It is a table itself.
type barChart struct {
	Title string
	Of    string // kind of the names: "schema"
	Unit  unit
	Bars  []bar
	Whole float64 // value of a full bar; 0: the largest value
}

// HTML returns the figure.
func (c barChart) HTML() template.HTML {
	var b chart.SVG
	b.WriteString(`<figure class="bars"><figcaption>`)
	b.Element("span", "name", c.Title)
	b.WriteString("</figcaption>")
	if len(c.Bars) == 0 {
		b.WriteString(`<p class="empty">No data in this range.</p></figure>`)
		return template.HTML(b.String())
	}
	whole := c.Whole
	if whole == 0 {
		for _, r := range c.Bars {
			if chart.IsNumber(r.Value) {
				whole = max(whole, r.Value)
			}
		}
	}
	b.WriteString(`<table><thead class="unseen"><tr>`)
	b.WriteString(`<th scope="col">`)
	b.Text(c.Of)
	b.WriteString(`</th><th scope="col">bar</th><th scope="col">`)
	b.Text(c.Unit.name())
	b.WriteString("</th></tr></thead><tbody>")
	for _, r := range c.Bars {
		b.WriteString(`<tr><th scope="row">`)
		if r.Link != "" {
			b.WriteString(`<a href="`)
			b.Text(r.Link)
			b.WriteString(`">`)
		}
		b.Text(r.Name)
		if r.Link != "" {
			b.WriteString("</a>")
		}
		b.WriteString(`</th><td class="bar">`)
		fraction := 0.0
		if whole > 0 {
			fraction = r.Value / whole
		}
		b.WriteString(string(meter(fraction)))
		b.WriteString(`</td><td class="n">`)
		b.Text(c.Unit.write(r.Value))
		if r.Note != "" {
			b.WriteByte(' ')
			b.Element("span", "dim", r.Note)
		}
		b.WriteString("</td></tr>")
	}
	b.WriteString("</tbody></table></figure>")
	return template.HTML(b.String())
}

// spark returns a line without axes, for a table cell. Its title is the name with the range of the values.
func spark(name string, values []float64, u unit) template.HTML {
	low, high := chart.Extent(math.Inf(1), math.Inf(-1), values)
	b := chart.SVG{Whole: true} // a table has many
	b.WriteString(`<svg class="spark" viewBox="0 0 1000 200" preserveAspectRatio="none" role="img"><title>`)
	if low > high {
		b.Text(name + ": no value")
		b.WriteString("</title></svg>")
		return template.HTML(b.String())
	}
	b.Text(name + ": " + u.write(low) + " to " + u.write(high))
	b.WriteString("</title>")
	x := make([]float64, len(values))
	for i := range x {
		x[i] = boxWidth / 2
		if len(x) > 1 {
			x[i] = boxWidth * float64(i) / float64(len(x)-1)
		}
	}
	y := chart.Scale{Low: min(low, 0), High: high * 1.06}
	if y.High <= y.Low {
		y.High = y.Low + 1
	}
	at := heights(y, values)
	b.WriteString(`<path class="area c1" d="`)
	b.Area(x, at, foot(y))
	b.WriteString(`"/><path class="line c1" d="`)
	b.Line(x, at)
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}

// meter returns a bar filled to a fraction.
func meter(fraction float64) template.HTML {
	if !chart.IsNumber(fraction) {
		fraction = 0
	}
	fraction = min(max(fraction, 0), 1)
	var b chart.SVG
	b.WriteString(`<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"><title>`)
	b.Text(percent(fraction))
	b.WriteString(`</title><rect class="track" width="100" height="6"/><rect class="fill"`)
	b.Attr("width", 100*fraction)
	b.WriteString(` height="6"/></svg>`)
	return template.HTML(b.String())
}
