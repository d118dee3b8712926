package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// A chart is panels side by side with one scale of MiB, time running to the right.
type chart struct {
	title, desc string
	panels      []panel
}

type panel struct {
	title     string
	series    []series
	level     float64 // a line across, in MiB
	levelName string
	from, to  float64 // a stretch of time that is marked
	band      string  // its name
}

type series struct {
	name, colour string
	points       []point
}

type point struct{ x, y float64 }

const (
	panelWidth, panelHeight = 400, 240
	marginLeft, marginTop   = 56, 64
	panelGap                = 40
	marginBottom            = 64
)

// write draws the chart as SVG.
func (c *chart) write(w io.Writer) error {
	var top float64
	for _, p := range c.panels {
		for _, s := range p.series {
			for _, at := range s.points {
				top = max(top, at.y)
			}
		}
	}
	step := niceStep(top / 5)
	top = math.Ceil(top/step) * step
	width := marginLeft + len(c.panels)*(panelWidth+panelGap)
	height := marginTop + panelHeight + marginBottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">
  <title id="t">%s</title>
  <desc id="d">%s</desc>
  <rect width="%d" height="%d" rx="14" fill="#f8fafc"/>
`, width, height, html.EscapeString(c.title), html.EscapeString(c.desc), width, height)
	for y := 0.0; y <= top; y += step {
		at := marginTop + panelHeight*(1-y/top)
		fmt.Fprintf(&b, `  <text x="%d" y="%.1f" text-anchor="end" fill="#475569">%.0f</text>`+"\n", marginLeft-8, at+4, y)
	}
	fmt.Fprintf(&b, `  <text x="%d" y="%d" text-anchor="end" fill="#475569">MiB</text>`+"\n", marginLeft-8, marginTop-14)
	for i, p := range c.panels {
		p.draw(&b, float64(marginLeft+i*(panelWidth+panelGap)), top, step)
	}
	if len(c.panels) > 0 {
		c.panels[0].legend(&b, height-18)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// legend names the lines of a panel, which are those of all.
func (p *panel) legend(b *strings.Builder, y int) {
	x := marginLeft
	for _, s := range append(p.series[:len(p.series):len(p.series)], series{p.levelName, "#be123c", nil}) {
		dash := ""
		if s.points == nil {
			dash = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(b, `  <path d="M%d %dh24" stroke="%s" stroke-width="3"%s/><text x="%d" y="%d" fill="#0f172a">%s</text>`+"\n",
			x, y-4, s.colour, dash, x+32, y, html.EscapeString(s.name))
		x += 170
	}
}

// draw draws a panel whose left edge is at left.
func (p *panel) draw(b *strings.Builder, left, top, step float64) {
	var end float64
	for _, s := range p.series {
		for _, at := range s.points {
			end = max(end, at.x)
		}
	}
	x := func(v float64) float64 { return left + panelWidth*v/end }
	y := func(v float64) float64 { return marginTop + panelHeight*(1-v/top) }
	fmt.Fprintf(b, `  <text x="%.1f" y="28" font-size="16" font-weight="600" fill="#0f172a">%s</text>`+"\n", left, html.EscapeString(p.title))
	fmt.Fprintf(b, `  <rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#e2e8f0"/><text x="%.1f" y="%d" fill="#475569">%s</text>`+"\n",
		x(p.from), marginTop, x(p.to)-x(p.from), panelHeight, x(p.from)+4, marginTop-6, html.EscapeString(p.band))
	for v := 0.0; v <= top; v += step {
		fmt.Fprintf(b, `  <path d="M%.1f %.1fh%d" stroke="#cbd5e1"/>`+"\n", left, y(v), panelWidth)
	}
	for _, s := range p.series {
		fmt.Fprintf(b, `  <path fill="none" stroke="%s" stroke-width="2" d="`, s.colour)
		for i, at := range s.points {
			fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], x(at.x), y(at.y))
		}
		b.WriteString("\"/>\n")
	}
	fmt.Fprintf(b, `  <path d="M%.1f %.1fh%d" stroke="#be123c" stroke-width="1.5" stroke-dasharray="6 4"/>`+"\n", left, y(p.level), panelWidth)
	fmt.Fprintf(b, `  <text x="%.1f" y="%d" fill="#475569">0 s</text><text x="%.1f" y="%d" text-anchor="end" fill="#475569">%.0f s</text>`+"\n",
		left, marginTop+panelHeight+18, left+panelWidth, marginTop+panelHeight+18, end)
}

// niceStep is a step of 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}
