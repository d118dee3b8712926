package web

import "html/template"

// A bar is one row of a barChart.
type bar struct {
	Name  string
	Link  string // "" for none
	Value float64
	Note  string // after the value
}

// A barChart compares values; it is a table itself.
type barChart struct {
	Title string
	Of    string // what the names are: "schema"
	Unit  unit
	Bars  []bar
	Whole float64 // what a full bar is; 0: the largest value
}

// HTML is the figure.
func (c barChart) HTML() template.HTML {
	var b svg
	b.WriteString(`<figure class="bars"><figcaption>`)
	b.element("span", "name", c.Title)
	b.WriteString("</figcaption>")
	if len(c.Bars) == 0 {
		b.WriteString(`<p class="empty">No data in this range.</p></figure>`)
		return template.HTML(b.String())
	}
	whole := c.Whole
	if whole == 0 {
		for _, r := range c.Bars {
			if isNumber(r.Value) {
				whole = max(whole, r.Value)
			}
		}
	}
	b.WriteString(`<table><thead class="unseen"><tr>`)
	b.WriteString(`<th scope="col">`)
	b.text(c.Of)
	b.WriteString(`</th><th scope="col">bar</th><th scope="col">`)
	b.text(c.Unit.name())
	b.WriteString("</th></tr></thead><tbody>")
	for _, r := range c.Bars {
		b.WriteString(`<tr><th scope="row">`)
		if r.Link != "" {
			b.WriteString(`<a href="`)
			b.text(r.Link)
			b.WriteString(`">`)
		}
		b.text(r.Name)
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
		b.text(c.Unit.write(r.Value))
		if r.Note != "" {
			b.WriteByte(' ')
			b.element("span", "dim", r.Note)
		}
		b.WriteString("</td></tr>")
	}
	b.WriteString("</tbody></table></figure>")
	return template.HTML(b.String())
}
