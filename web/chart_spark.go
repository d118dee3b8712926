package web

import (
	"html/template"
	"math"
)

// spark is a line without axes, for a cell of a table. Its title says what it shows.
func spark(name string, values []float64, u unit) template.HTML {
	low, high := extent(math.Inf(1), math.Inf(-1), values)
	var b svg
	b.WriteString(`<svg class="spark" viewBox="0 0 1000 200" preserveAspectRatio="none" role="img"><title>`)
	if low > high {
		b.text(name + ": no value")
		b.WriteString("</title></svg>")
		return template.HTML(b.String())
	}
	b.text(name + ": " + u.write(low) + " to " + u.write(high))
	b.WriteString("</title>")
	x := make([]float64, len(values))
	for i := range x {
		x[i] = boxWidth / 2
		if len(x) > 1 {
			x[i] = boxWidth * float64(i) / float64(len(x)-1)
		}
	}
	y := scale{low: min(low, 0), high: high * 1.06}
	if y.high <= y.low {
		y.high = y.low + 1
	}
	b.WriteString(`<path class="area c1" d="`)
	areaPath(&b, x, y, values)
	b.WriteString(`"/><path class="line c1" d="`)
	linePath(&b, x, y, values)
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}

// meter is a bar filled to a fraction.
func meter(fraction float64) template.HTML {
	if !isNumber(fraction) {
		fraction = 0
	}
	fraction = min(max(fraction, 0), 1)
	var b svg
	b.WriteString(`<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"><title>`)
	b.text(percent(fraction))
	b.WriteString(`</title><rect class="track" width="100" height="6"/><rect class="fill"`)
	b.attr("width", 100*fraction)
	b.WriteString(` height="6"/></svg>`)
	return template.HTML(b.String())
}
