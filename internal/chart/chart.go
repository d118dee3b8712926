package chart

import (
	"fmt"
	"html"
	"math"
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

	ticks      = 6 // approximate number per axis
	levelColor = "#be123c"
)

// most returns the maxima of the lines.
func (p *Panel) most() (x, y float64) {
	y = p.Level
	for _, l := range p.Lines {
		for i := range l.X {
			x, y = max(x, l.X[i]), max(y, l.Y[i])
		}
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
	dst = fmt.Appendf(dst, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">`+
		"\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<rect width=\"%d\" height=\"%d\" rx=\"14\" fill=\"#f8fafc\"/>\n",
		width, height, html.EscapeString(c.Title), html.EscapeString(c.Desc), width, height)
	dst = appendText(dst, left, 26, "start", c.Title)
	var common float64
	for i := range c.Panels {
		_, y := c.Panels[i].most()
		common = max(common, y)
	}
	for i := range c.Panels {
		p := &c.Panels[i]
		v := view{left: left + i*(plotWidth+left), top: top, width: plotWidth, height: plotHeight}
		v.xEnd, v.yEnd = p.most()
		if c.Stacked {
			v.left, v.top = left, top+i*(plotHeight+gap)
		} else {
			v.yEnd = common
		}
		dst = p.append(dst, v, c.XLabel)
	}
	if len(c.Panels) > 0 {
		dst = c.Panels[0].appendLegend(dst, height-14)
	}
	return append(dst, "</svg>\n"...)
}

// A view is the position of a panel's plot, and its largest values.
type view struct {
	left, top, width, height int
	xEnd, yEnd               float64
}

func (p *Panel) append(dst []byte, v view, xLabel string) []byte {
	xStep, xEnd := axis(v.xEnd)
	yStep, yEnd := axis(v.yEnd)
	px := func(x float64) float64 { return float64(v.left) + x/xEnd*float64(v.width) }
	py := func(y float64) float64 { return float64(v.top) + (1-y/yEnd)*float64(v.height) }
	bottom := float64(v.top + v.height)
	dst = appendText(dst, float64(v.left), float64(v.top-10), "start", p.Title)
	if p.To > 0 {
		dst = fmt.Appendf(dst, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#e2e8f0\"/>\n", px(p.From), v.top, px(p.To)-px(p.From), v.height)
		dst = appendText(dst, px(p.From)+4, float64(v.top)+16, "start", p.Band)
	}
	for i := 0; float64(i)*yStep <= yEnd*(1+1e-9); i++ {
		y := float64(i) * yStep
		dst = fmt.Appendf(dst, "<path d=\"M%d %.1fh%d\" stroke=\"#cbd5e1\"/>\n", v.left, py(y), v.width)
		dst = appendText(dst, float64(v.left-8), py(y)+4, "end", tick(y))
	}
	for i := 0; float64(i)*xStep <= xEnd*(1+1e-9); i++ {
		dst = appendText(dst, px(float64(i)*xStep), bottom+18, "middle", tick(float64(i)*xStep))
	}
	dst = appendText(dst, float64(v.left+v.width), bottom+34, "end", xLabel)
	for _, l := range p.Lines {
		dst = fmt.Appendf(dst, `<path fill="none" stroke="%s" stroke-width="2" d="`, l.Color)
		for i := range l.X {
			dst = fmt.Appendf(dst, "%c%.1f %.1f", "ML"[min(i, 1)], px(l.X[i]), py(l.Y[i]))
		}
		dst = append(dst, "\"/>\n"...)
	}
	if p.Level > 0 {
		dst = fmt.Appendf(dst, "<path d=\"M%d %.1fh%d\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n", v.left, py(p.Level), v.width, levelColor)
	}
	return dst
}

// appendLegend names the lines of a panel, which are the same in all.
func (p *Panel) appendLegend(dst []byte, y int) []byte {
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
		dst = fmt.Appendf(dst, "<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"3\"%s/>\n", x, y-4, l.Color, dash)
		dst = appendText(dst, float64(x+32), float64(y), "start", l.Name)
		x += 180
	}
	return dst
}

func appendText(dst []byte, x, y float64, anchor, text string) []byte {
	return fmt.Appendf(dst, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#334155\">%s</text>\n", x, y, anchor, html.EscapeString(text))
}

// axis returns steps of 1, 2 or 5 times a power of ten for an axis from 0, and its end, which is a multiple
// of the step.
func axis(most float64) (step, end float64) {
	if most <= 0 {
		return 1, 1
	}
	rough := most / ticks
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * power; step >= rough {
			break
		}
	}
	return step, step * math.Ceil(most/step)
}

// tick formats a number on an axis.
func tick(v float64) string { return fmt.Sprintf("%.4g", v) }
