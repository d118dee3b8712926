package bench

import (
	"fmt"
	"math"
)

// A chart is lines over time, drawn as SVG.
type chart struct {
	title  string
	xLabel string
	yLabel string
	lines  []chartLine
}

// A chartLine is one line of a chart. Points are in the order of their x.
type chartLine struct {
	name  string
	color string
	x, y  []float64
}

// The picture's measures, in SVG's user units.
const (
	chartWidth  = 900
	chartHeight = 420
	chartLeft   = 80 // of the plot
	chartRight  = 20
	chartTop    = 50
	chartBottom = 60
	chartTicks  = 6 // about how many an axis has
)

// appendSVG draws the chart. Both axes begin at 0.
func (c *chart) appendSVG(dst []byte) []byte {
	var xMost, yMost float64
	for _, l := range c.lines {
		for i := range l.x {
			xMost, yMost = max(xMost, l.x[i]), max(yMost, l.y[i])
		}
	}
	xStep, xEnd := axis(xMost)
	yStep, yEnd := axis(yMost)
	const plotWidth, plotHeight = chartWidth - chartLeft - chartRight, chartHeight - chartTop - chartBottom
	px := func(x float64) float64 { return chartLeft + x/xEnd*plotWidth }
	py := func(y float64) float64 { return chartTop + plotHeight - y/yEnd*plotHeight }

	dst = fmt.Appendf(dst, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", chartWidth, chartHeight)
	dst = fmt.Appendf(dst, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, chartHeight)
	dst = appendText(dst, chartLeft, 20, "start", c.title)
	for i := 0; float64(i)*yStep <= yEnd*(1+1e-9); i++ {
		y := float64(i) * yStep
		dst = fmt.Appendf(dst, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", chartLeft, py(y), chartWidth-chartRight)
		dst = appendText(dst, chartLeft-8, py(y)+4, "end", tick(y))
	}
	for i := 0; float64(i)*xStep <= xEnd*(1+1e-9); i++ {
		x := float64(i) * xStep
		dst = appendText(dst, px(x), chartTop+plotHeight+20, "middle", tick(x))
	}
	dst = appendText(dst, chartLeft+plotWidth/2, chartHeight-14, "middle", c.xLabel)
	dst = appendText(dst, chartLeft-8, chartTop-14, "end", c.yLabel)
	for n, l := range c.lines {
		dst = fmt.Appendf(dst, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, l.color)
		for i := range l.x {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = fmt.Appendf(dst, "%.1f,%.1f", px(l.x[i]), py(l.y[i]))
		}
		dst = append(dst, "\"/>\n"...)
		at := chartLeft + 10 + 180*n
		dst = fmt.Appendf(dst, `<path d="M%d %dh20" stroke="%s" stroke-width="3"/>`+"\n", at, chartTop-18, l.color)
		dst = appendText(dst, float64(at+26), chartTop-14, "start", l.name)
	}
	return append(dst, "</svg>\n"...)
}

// appendText adds a label.
func appendText(dst []byte, x, y float64, anchor, text string) []byte {
	dst = fmt.Appendf(dst, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	for _, r := range text {
		switch r {
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '&':
			dst = append(dst, "&amp;"...)
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, "</text>\n"...)
}

// axis chooses steps of 1, 2 or 5 times a power of ten for an axis from 0, and its end,
// which is a step.
func axis(most float64) (step, end float64) {
	if most <= 0 {
		return 1, 1
	}
	rough := most / chartTicks
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * power; step >= rough {
			break
		}
	}
	return step, step * math.Ceil(most/step)
}

// tick is an axis' number.
func tick(v float64) string { return fmt.Sprintf("%.4g", v) }
