package web

import (
	"html"
	"html/template"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/chart"
)

// The server draws charts as SVG without text, which browsers stretch to the available space; axes are HTML
// around it, which keeps its size. Each chart has a title, a description and its values as a table. Colours
// are classes: c1 to c6 for series, h1 to h8 for heat.

// A plot is a drawing with its axes.
type plot struct {
	id, title, desc string
	class           string   // in addition to "chart"
	legend          []string // names of the classes c1, c2, …
	up              []tick   // of the vertical axis
	across          []tick   // of the horizontal axis
	shades          string   // for heat: the number of calls of the darkest shade
	data            []pair   // data- attributes for the script
	drawing         string   // in a box of boxWidth by boxHeight
	table           string   // the values as a table
	promql          string   // "" for none
	empty           bool
	from, to        time.Time // of the horizontal axis, if a part of it can be selected
	marks           []mark    // drawn if from and to are set
}

const (
	boxWidth  = 1000.0
	boxHeight = 200.0
)

// html returns the whole figure.
func (p *plot) html() template.HTML {
	var b chart.SVG
	b.WriteString(`<figure class="chart`)
	if p.class != "" {
		b.WriteString(" " + p.class)
	}
	b.WriteString(`" id="` + html.EscapeString(p.id) + `"><figcaption>`)
	b.Element("span", "name", p.title)
	if p.shades != "" {
		b.WriteString(`<span class="legend">1 call<svg class="shades" viewBox="0 0 80 10" aria-hidden="true">`)
		for i := range heatSteps {
			b.WriteString(`<rect class="h` + strconv.Itoa(i+1) + `" x="` + strconv.Itoa(10*i) + `" width="10" height="10"/>`)
		}
		b.WriteString("</svg>")
		b.Text(p.shades)
		b.WriteString("</span>")
	}
	if len(p.legend) > 1 {
		b.WriteString(`<span class="legend">`)
		for i, name := range p.legend {
			b.WriteString(`<span class="key"><svg class="swatch c` + strconv.Itoa(i%6+1) + `" viewBox="0 0 14 4" aria-hidden="true"><path d="M0 2H14"/></svg>`)
			b.Text(name)
			b.WriteString("</span>")
		}
		b.WriteString("</span>")
	}
	b.WriteString("</figcaption>")
	if p.empty {
		b.Element("p", "empty", "No data in this range: "+p.desc)
	} else {
		p.axes(&b)
	}
	b.WriteString(`<div class="under">`)
	if p.table != "" {
		b.WriteString(`<details class="numbers"><summary>Numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="`)
		b.Text(p.title + " as numbers")
		b.WriteString(`">` + p.table + `</div></details>`)
	}
	b.WriteString(string(promqlBox(p.promql)))
	b.WriteString("</div></figure>")
	return template.HTML(b.String())
}

func (p *plot) axes(b *chart.SVG) {
	b.WriteString(`<div class="plot"`)
	if !p.from.IsZero() {
		b.Attr("data-from", float64(p.from.UnixMilli())/1000)
		b.Attr("data-to", float64(p.to.UnixMilli())/1000)
	}
	for _, d := range p.data {
		b.WriteString(" data-" + d.Name + `="`)
		b.Text(d.Value)
		b.WriteByte('"')
	}
	b.WriteString(`><div class="up" aria-hidden="true"><svg>`)
	for _, m := range p.up {
		axisText(b, m.text, "100%", percentOf(1-m.at), "end")
	}
	b.WriteString(`</svg></div><svg viewBox="0 0 1000 200" preserveAspectRatio="none" role="img" aria-labelledby="`)
	b.Text(p.id + "-t " + p.id + "-d")
	b.WriteString(`"><title id="` + html.EscapeString(p.id) + `-t">`)
	b.Text(p.title)
	b.WriteString(`</title><desc id="` + html.EscapeString(p.id) + `-d">`)
	var marks chart.SVG
	if !p.from.IsZero() {
		p.desc += drawMarks(&marks, p.marks, p.from, p.to)
	}
	b.Text(p.desc)
	b.WriteString("</desc>" + p.drawing + marks.String() + `</svg><div class="across" aria-hidden="true"><svg>`)
	for _, m := range p.across {
		anchor := "middle"
		switch {
		case m.at < 0.03:
			anchor = "start"
		case m.at > 0.97:
			anchor = "end"
		}
		axisText(b, m.text, percentOf(m.at), "50%", anchor)
	}
	b.WriteString("</svg></div></div>")
}

// axisText appends a label to an SVG that is not stretched.
func axisText(b *chart.SVG, text, x, y, anchor string) {
	b.WriteString(`<text x="` + x + `" y="` + y + `" dy=".35em" text-anchor="` + anchor + `">`)
	b.Text(text)
	b.WriteString("</text>")
}

// percentOf formats a fraction as a length in an SVG.
func percentOf(f float64) string {
	return trim(strconv.FormatFloat(100*f, 'f', 2, 64)) + "%"
}

// promqlBox returns a box with the PromQL expression of a chart.
func promqlBox(query string) template.HTML {
	if query == "" {
		return ""
	}
	var b chart.SVG
	b.WriteString(`<details class="promql"><summary>PromQL</summary><div class="copybox"><pre tabindex="0">`)
	b.Element("code", "", query)
	b.WriteString(`</pre><button type="button" class="copy" data-copy hidden>Copy</button></div></details>`)
	return template.HTML(b.String())
}

// A tick is a label of an axis.
type tick struct {
	at   float64 // 0 at the left or bottom of the drawing, 1 at the right or top
	text string
}

// maxTicks is the largest number of labels of an axis of time.
const maxTicks = 7

// tickSteps are the distances between the labels of an axis of time. Longer ones are multiples of the last.
var tickSteps = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
}

// tickStep returns the least distance between labels at which no more than maxTicks fit into length.
func tickStep(length time.Duration) time.Duration {
	for _, step := range tickSteps {
		if length <= maxTicks*step {
			return step
		}
	}
	week := tickSteps[len(tickSteps)-1]
	return (length/(maxTicks*week) + 1) * week
}

// timeTicks labels round times between from and to, in UTC. Where days change, a label is the day.
func timeTicks(from, to time.Time) []tick {
	from, to = from.UTC(), to.UTC()
	length := to.Sub(from)
	if length <= 0 {
		return nil
	}
	step := tickStep(length)
	var ticks []tick
	for t := from.Truncate(step); !t.After(to); t = t.Add(step) {
		if t.Before(from) {
			continue
		}
		ticks = append(ticks, tick{float64(t.Sub(from)) / float64(length), tickText(t, step, length)})
	}
	return ticks
}

func tickText(t time.Time, step, length time.Duration) string {
	midnight := t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0
	switch {
	case length > 366*24*time.Hour:
		return dayTime.mark(t)
	case step >= 24*time.Hour:
		return tickDays.mark(t)
	case midnight && length > 6*time.Hour:
		return tickDay.mark(t)
	case step < time.Minute:
		return secondTime.mark(t)
	}
	return minuteTime.mark(t)
}
