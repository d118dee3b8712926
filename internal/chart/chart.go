package chart

import (
	"fmt"
	"html"
)

// A Chart is panels that share a title and a legend.
type Chart struct {
	Title, Desc string
	XLabel      string // at the end of the time axis: "seconds"
	Stacked     bool   // panels are below each other
	Panels      []Panel
}

// A Panel is lines over one time axis. Both axes start at 0.
type Panel struct {
	Title string // with the unit
	Lines []Line

	Level     float64 // a horizontal line; 0: none
	LevelName string  // in the legend

	From, To float64 // a highlighted time range; none if To is 0
	Band     string  // its name
}

// A Line is one line of a panel. Points are sorted by X.
type Line struct {
	Name, Color string
	X, Y        []float64
}

// Dimensions of the drawing, in SVG's user units.
const (
	width  = 900
	left   = 64 // of a panel's plot, leaving room for the numbers
	right  = 20
	top    = 76 // of the first plot
	gap    = 44 // below a plot
	legend = 30 // below all
	tall   = 280
	flat   = 110 // height of one of several panels below each other

	levelColor = "#be123c"
)

// most returns the maxima of the lines.
func (p *Panel) most() (x, y float64) {
	y = p.Level
	for _, l := range p.Lines {
		_, x = Extent(0, x, l.X)
		_, y = Extent(0, y, l.Y)
	}
	return x, y
}

// AppendSVG appends the drawing.
func (c *Chart) AppendSVG(dst []byte) []byte {
	columns, rows, plotHeight := len(c.Panels), 1, tall
	if c.Stacked {
		columns, rows, plotHeight = 1, len(c.Panels), flat
	}
	plotWidth := (width-right)/max(1, columns) - left
	height := top + rows*(plotHeight+gap) + legend
	var b SVG
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">`+
		"\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<rect width=\"%d\" height=\"%d\" rx=\"14\" fill=\"#f8fafc\"/>\n",
		width, height, html.EscapeString(c.Title), html.EscapeString(c.Desc), width, height)
	b.label(left, 26, "start", c.Title)
	var common float64
	for i := range c.Panels {
		_, y := c.Panels[i].most()
		common = max(common, y)
	}
	for i := range c.Panels {
		p := &c.Panels[i]
		v := view{left: left + i*(plotWidth+left), top: top, width: plotWidth, height: plotHeight}
		x, y := p.most()
		if c.Stacked {
			v.left, v.top = left, top+i*(plotHeight+gap)
		} else {
			y = common
		}
		v.x, v.y = LinearScale(0, x), LinearScale(0, y)
		p.draw(&b, v, c.XLabel)
	}
	if len(c.Panels) > 0 {
		c.Panels[0].drawLegend(&b, height-14)
	}
	b.WriteString("</svg>\n")
	return append(dst, b.String()...)
}

// A view is the position of a panel's plot, with its scales.
type view struct {
	left, top, width, height int
	x, y                     Scale
}

// at returns the positions of points.
func (v *view) at(x, y float64) (left, top float64) {
	return float64(v.left) + v.x.At(x)*float64(v.width), float64(v.top) + (1-v.y.At(y))*float64(v.height)
}

func (p *Panel) draw(b *SVG, v view, xLabel string) {
	bottom := float64(v.top + v.height)
	b.label(float64(v.left), float64(v.top-10), "start", p.Title)
	if p.To > 0 {
		from, _ := v.at(p.From, 0)
		to, _ := v.at(p.To, 0)
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#e2e8f0\"/>\n", from, v.top, to-from, v.height)
		b.label(from+4, float64(v.top)+16, "start", p.Band)
	}
	for _, m := range v.y.Marks {
		_, y := v.at(0, m)
		fmt.Fprintf(b, "<path d=\"M%d %.1fh%d\" stroke=\"#cbd5e1\"/>\n", v.left, y, v.width)
		b.label(float64(v.left-8), y+4, "end", tick(m))
	}
	for _, m := range v.x.Marks {
		x, _ := v.at(m, 0)
		b.label(x, bottom+18, "middle", tick(m))
	}
	b.label(float64(v.left+v.width), bottom+34, "end", xLabel)
	for _, l := range p.Lines {
		xs, ys := make([]float64, len(l.X)), make([]float64, len(l.X))
		for i := range l.X {
			xs[i], ys[i] = v.at(l.X[i], l.Y[i])
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2" d="`, l.Color)
		b.Line(xs, ys)
		b.WriteString("\"/>\n")
	}
	if p.Level > 0 {
		_, y := v.at(0, p.Level)
		fmt.Fprintf(b, "<path d=\"M%d %.1fh%d\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n", v.left, y, v.width, levelColor)
	}
}

// drawLegend names the lines of a panel, which are the same in all.
func (p *Panel) drawLegend(b *SVG, y int) {
	lines := p.Lines
	if p.LevelName != "" {
		lines = append(lines[:len(lines):len(lines)], Line{Name: p.LevelName, Color: levelColor})
	}
	x := left
	for _, l := range lines {
		if l.Name == "" {
			continue
		}
		dash := ""
		if l.X == nil {
			dash = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(b, "<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"3\"%s/>\n", x, y-4, l.Color, dash)
		b.label(float64(x+32), float64(y), "start", l.Name)
		x += 180
	}
}

// label appends a text at a position.
func (b *SVG) label(x, y float64, anchor, text string) {
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#334155\">%s</text>\n", x, y, anchor, html.EscapeString(text))
}

// tick formats a number on an axis.
func tick(v float64) string { return fmt.Sprintf("%.4g", v) }
