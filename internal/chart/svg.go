package chart

import (
	"html"
	"math"
	"strconv"
	"strings"
)

// An SVG builds markup.
type SVG struct {
	strings.Builder

	Whole bool // coordinates are whole numbers
}

// Num appends a coordinate.
func (b *SVG) Num(v float64) {
	if b.Whole {
		v = math.Round(v)
	}
	var buf [24]byte
	out := strconv.AppendFloat(buf[:0], v, 'f', 2, 64)
	for out[len(out)-1] == '0' {
		out = out[:len(out)-1]
	}
	if out[len(out)-1] == '.' {
		out = out[:len(out)-1]
	}
	b.Write(out)
}

// Attr appends an attribute with a coordinate.
func (b *SVG) Attr(name string, v float64) {
	b.WriteByte(' ')
	b.WriteString(name)
	b.WriteString(`="`)
	b.Num(v)
	b.WriteByte('"')
}

// Text appends foreign text, escaped.
func (b *SVG) Text(s string) { b.WriteString(html.EscapeString(s)) }

// Element appends an element with foreign text.
func (b *SVG) Element(name, class, text string) {
	b.WriteByte('<')
	b.WriteString(name)
	if class != "" {
		b.WriteString(` class="`)
		b.Text(class)
		b.WriteByte('"')
	}
	b.WriteByte('>')
	b.Text(text)
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
}

// Line appends the path of a line through points, with gaps where y is NaN. A point between two gaps is a short stroke.
func (b *SVG) Line(x, y []float64) {
	drawing := false
	n := min(len(x), len(y))
	for i := range n {
		if math.IsNaN(y[i]) {
			drawing = false
			continue
		}
		switch {
		case drawing:
			b.WriteByte('L')
		case i+1 < n && !math.IsNaN(y[i+1]):
			b.WriteByte('M')
		default:
			b.WriteByte('M')
			b.Num(max(x[i]-2, 0))
			b.WriteByte(' ')
			b.Num(y[i])
			b.WriteString("h4")
			continue
		}
		b.Num(x[i])
		b.WriteByte(' ')
		b.Num(y[i])
		drawing = true
	}
}

// Area appends the path of the area between each unbroken run of points and a foot.
func (b *SVG) Area(x, y []float64, foot float64) {
	n := min(len(x), len(y))
	for i := 0; i < n; i++ {
		if math.IsNaN(y[i]) {
			continue
		}
		start := i
		b.WriteByte('M')
		b.Num(x[i])
		b.WriteByte(' ')
		b.Num(foot)
		for ; i < n && !math.IsNaN(y[i]); i++ {
			b.WriteByte('L')
			b.Num(x[i])
			b.WriteByte(' ')
			b.Num(y[i])
		}
		b.WriteByte('L')
		b.Num(x[max(i-1, start)])
		b.WriteByte(' ')
		b.Num(foot)
		b.WriteByte('Z')
	}
}
