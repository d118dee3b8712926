package web

import (
	"html/template"
	"strconv"
	"time"
)

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
	var drawing, table svg
	table.WriteString(`<table><thead><tr><th scope="col">Lane</th><th scope="col">From (UTC)</th><th scope="col">To (UTC)</th><th scope="col">What</th></tr></thead><tbody>`)
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
			drawing.attr("x", left)
			drawing.attr("y", float64(i)*h+h*0.12)
			drawing.attr("width", max(at(s.To)-left-0.6, 1))
			drawing.attr("height", h*0.76)
			drawing.WriteString("><title>")
			drawing.text(s.Name)
			drawing.WriteString("</title></rect>")
			if total <= maxTableRows {
				table.WriteString(`<tr><th scope="row">`)
				table.text(l.Name)
				table.WriteString("</th>")
				table.element("td", "", moment(s.From))
				table.element("td", "", moment(s.To))
				table.element("td", "", s.Name)
				table.WriteString("</tr>")
			}
		}
	}
	table.WriteString("</tbody></table>")
	p.across = timeTicks(c.From, c.To)
	tickPath(&drawing, p.across)
	p.desc = "From " + moment(c.From) + " to " + moment(c.To) + " UTC: " + strconv.Itoa(total) + " spans in " + strconv.Itoa(len(c.Lanes)) + " lanes."
	p.drawing, p.table = drawing.String(), table.String()
	return p.html()
}
