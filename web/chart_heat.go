package web

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/chart"
)

// heatSteps is the number of shades of a heat map: the classes h1 to h8.
const heatSteps = 8

// A heatMap shows the distribution of durations of calls over time.
type heatMap struct {
	ID, Title string
	From, To  time.Time   // of the axis; extended by Times and End
	Times     []time.Time // start of each column
	End       time.Time   // of the last column
	Bounds    []float64   // upper bound of each row, ascending, in the unit
	Counts    [][]uint64  // by column and row
	Unit      unit
	PromQL    string
	Marks     []mark
}

// HTML returns the figure.
func (c heatMap) HTML() template.HTML {
	p := plot{id: c.ID, title: c.Title, class: "heat", promql: c.PromQL}
	most, total, first, last := uint64(0), uint64(0), len(c.Bounds), -1
	for _, column := range c.Counts {
		for row, n := range column[:min(len(column), len(c.Bounds))] {
			if n > 0 {
				most, total = max(most, n), total+n
				first, last = min(first, row), max(last, row)
			}
		}
	}
	if most == 0 || len(c.Times) == 0 {
		p.empty, p.desc = true, "no calls."
		return p.html()
	}
	// Add a row on each side, if there is one, to separate the data from the border.
	first, last = max(first-1, 0), min(last+1, len(c.Bounds)-1)
	rows := last - first + 1
	for edge, step := first, (rows+maxTicks-1)/maxTicks; edge <= last+1; edge += step {
		p.up = append(p.up, tick{float64(edge-first) / float64(rows), c.Unit.write(c.border(edge))})
	}
	x := newTimeScale(c.From, c.To, append(slices.Clone(c.Times), c.End))
	p.across = timeTicks(x.from, x.to)
	p.from, p.to, p.marks = x.from, x.to, c.Marks
	p.desc = "From " + moment(c.Times[0]) + " to " + moment(c.End) + " UTC: " + callsText(total) + ", at most " + count(most) +
		" in one field. Darker fields have more calls."
	p.shades = count(most)
	edges := c.edges(x)
	p.drawing = c.draw(edges, first, last, most, p.across)
	p.data = c.fields(edges, first, last)
	p.table = c.table(first, last)
	return p.html()
}

// edges returns the start of each column and the end of the last one.
func (c heatMap) edges(x timeScale) []float64 {
	edges := make([]float64, 0, len(c.Times)+1)
	for _, t := range c.Times {
		edges = append(edges, boxWidth*x.at(t))
	}
	return append(edges, boxWidth*x.at(c.End))
}

// fields returns the data that the script shows for the field under the pointer: the edges of the columns,
// the borders of the rows, and the calls of each field of a nonempty column, as "row:calls" with rows counted
// from the bottom.
func (c heatMap) fields(edges []float64, first, last int) []pair {
	var columns, rows, calls chart.SVG
	for i, e := range edges {
		if i > 0 {
			columns.WriteByte(' ')
		}
		columns.Num(e)
	}
	for edge := first; edge <= last+1; edge++ {
		if edge > first {
			rows.WriteByte('|')
		}
		rows.WriteString(c.Unit.write(c.border(edge)))
	}
	for x, column := range c.Counts[:min(len(c.Times), len(c.Counts))] {
		if x > 0 {
			calls.WriteByte(';')
		}
		for row := first; row <= min(last, len(column)-1); row++ {
			if column[row] > 0 {
				calls.WriteString(strconv.Itoa(row-first) + ":" + strconv.FormatUint(column[row], 10) + " ")
			}
		}
	}
	return []pair{{"columns", columns.String()}, {"rows", rows.String()}, {"calls", calls.String()}}
}

// border returns the lower bound of a row, which is the upper bound of the previous row. Rows are octaves:
// the lower bound of the first is half of its upper bound, unless it is the row for the shortest durations.
func (c heatMap) border(row int) float64 {
	switch {
	case row > 0:
		return c.Bounds[row-1]
	case len(c.Bounds) > 1 && c.Bounds[1] > 2.1*c.Bounds[0]:
		return 0
	}
	return c.Bounds[0] / 2
}

// draw returns one path per shade with all its fields.
func (c heatMap) draw(edges []float64, first, last int, most uint64, ticks []tick) string {
	var paths [heatSteps]chart.SVG
	rows := last - first + 1
	h := boxHeight / float64(rows)
	for x, column := range c.Counts[:min(len(c.Times), len(c.Counts))] {
		w := edges[x+1] - edges[x]
		for row := first; row <= min(last, len(column)-1); row++ {
			if column[row] == 0 {
				continue
			}
			b := &paths[shade(column[row], most)]
			b.WriteByte('M')
			b.Num(edges[x])
			b.WriteByte(' ')
			b.Num(float64(rows-1-(row-first)) * h)
			b.WriteByte('h')
			b.Num(w)
			b.WriteByte('v')
			b.Num(h)
			b.WriteByte('h')
			b.Num(-w)
			b.WriteByte('z')
		}
	}
	var b chart.SVG
	tickPath(&b, ticks)
	for i := range paths {
		if paths[i].Len() > 0 {
			b.WriteString(`<path class="h` + strconv.Itoa(i+1) + `" d="` + paths[i].String() + `"/>`)
		}
	}
	return b.String()
}

// shade returns the shade of a number of calls, from 0. It is logarithmic, so that a single slow call is
// visible beside thousands of fast ones.
func shade(n, most uint64) int {
	if most <= 1 {
		return heatSteps - 1
	}
	f := math.Log(float64(n)) / math.Log(float64(most))
	return min(int(f*heatSteps), heatSteps-1)
}

// table sums the fields up to at most 24 times and 8 durations.
func (c heatMap) table(first, last int) string {
	perRow := (last - first + 1 + 7) / 8
	perColumn := (len(c.Times) + 23) / 24
	var b chart.SVG
	b.WriteString(`<table><thead><tr><th scope="col">Time (` + utc + `)</th>`)
	for row := first; row <= last; row += perRow {
		b.WriteString(`<th scope="col" class="n">≤ `)
		b.Text(c.Unit.write(c.Bounds[min(row+perRow-1, last)]))
		b.WriteString("</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	for x := 0; x < len(c.Times); x += perColumn {
		b.WriteString(`<tr><th scope="row">`)
		b.Text(moment(c.Times[x]))
		b.WriteString("</th>")
		for row := first; row <= last; row += perRow {
			var n uint64
			for i := x; i < min(x+perColumn, len(c.Counts)); i++ {
				column := c.Counts[i]
				for r := row; r < min(row+perRow, last+1, len(column)); r++ {
					n += column[r]
				}
			}
			b.Element("td", "n", count(n))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return b.String()
}
