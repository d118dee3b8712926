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

// A laneSpan is a stretch of time in a lane.
type laneSpan struct {
	From, To time.Time
	Name     string
	Class    int // a colour, c1 to c6: 1 to 6; 0 is 1
}

// A timeLine shows what lies where in time.
type timeLine struct {
	ID, Title string
	From, To  time.Time
	Lanes     []lane
}

// HTML is the figure. Its table has the spans.
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
	at := func(t time.Time) float64 {
		return boxWidth * min(max(float64(t.Sub(c.From))/float64(length), 0), 1)
	}
	for i, l := range c.Lanes {
		p.up = append(p.up, l.Name)
		for _, s := range l.Spans {
			total++
			drawing.WriteString(`<rect class="lane c` + strconv.Itoa(max(s.Class, 1)) + `"`)
			x := at(s.From)
			drawing.attr("x", x)
			drawing.attr("y", float64(i)*h+h*0.12)
			drawing.attr("width", max(at(s.To)-x-0.6, 1))
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
	p.across = timeMarks(c.From, c.To, 5)
	p.desc = "From " + moment(c.From) + " to " + moment(c.To) + " UTC: " + strconv.Itoa(total) + " spans in " + strconv.Itoa(len(c.Lanes)) + " lanes."
	p.drawing, p.table = drawing.String(), table.String()
	return p.html()
}
