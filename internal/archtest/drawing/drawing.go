package drawing

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/archtest"
)

// A box is a room of the drawing.
type box struct {
	name        string
	imports     map[*box]bool
	row         int // 0 is the lowest
	x, width, y int
}

// center returns the x coordinate at which arrows start and end.
func (b *box) center() int { return b.x + b.width/2 }

// Draw returns the imports between rooms as an SVG drawing. Each arrow points down; transitive ones are omitted. An import that
// points up is an error.
func Draw(t *archtest.Tree) (string, error) {
	all, err := boxes(t)
	if err != nil {
		return "", err
	}
	rows := arrange(all)
	var b strings.Builder
	const width, rowHeight, boxHeight, top = 720, 90, 30, 20
	height := len(rows)*rowHeight - rowHeight + boxHeight + 2*top
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">`+"\n", width, height)
	b.WriteString("<title>Imports between rooms</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n")
	for i, row := range rows {
		gap := width / (len(row) + 1)
		for j, x := range row {
			x.x, x.y = gap*(j+1)-x.width/2, top+(len(rows)-1-i)*rowHeight
		}
	}
	for _, from := range all {
		for _, to := range all {
			if from.imports[to] && !implied(from, to) {
				y1, y2 := from.y+boxHeight, to.y
				fmt.Fprintf(&b, "<path d=\"M%d %dC%d %d %d %d %d %d\" fill=\"none\" stroke=\"#88a\"/><path d=\"M%d %dl-3 -7h6z\" fill=\"#88a\"/>\n",
					from.center(), y1, from.center(), y1+40, to.center(), y2-40, to.center(), y2, to.center(), y2)
			}
		}
	}
	for _, x := range all {
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"#eef\" stroke=\"#446\"/><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			x.x, x.y, x.width, boxHeight, x.center(), x.y+20, html.EscapeString(x.name))
	}
	return b.String() + "</svg>\n", nil
}

// boxes returns the rooms with their imports, the highest first, each above those that it imports.
func boxes(t *archtest.Tree) ([]*box, error) {
	rooms, imports, err := t.Imports()
	if err != nil {
		return nil, err
	}
	all := make([]*box, len(rooms))
	for i := len(rooms) - 1; i >= 0; i-- {
		all[i] = &box{name: rooms[i], imports: make(map[*box]bool), width: 24 + 8*len(rooms[i])}
		for _, x := range imports {
			if x.From != rooms[i] {
				continue
			}
			to := slices.Index(rooms, x.To)
			if to <= i {
				return nil, fmt.Errorf("the import of %s by %s runs up", x.To, x.From)
			}
			all[i].imports[all[to]] = true
			all[i].row = max(all[i].row, all[to].row+1)
		}
	}
	return all, nil
}

// implied reports whether from also imports to through another room.
func implied(from, to *box) bool {
	for via := range from.imports {
		if via != to && (via.imports[to] || implied(via, to)) {
			return true
		}
	}
	return false
}

// arrange returns the rows from the lowest; within a row, rooms are near those that import them.
func arrange(boxes []*box) [][]*box {
	var rows [][]*box
	for _, b := range boxes {
		for len(rows) <= b.row {
			rows = append(rows, nil)
		}
		rows[b.row] = append(rows[b.row], b)
	}
	at := make(map[*box]float64)
	for i := len(rows) - 1; i >= 0; i-- {
		want := make(map[*box]float64)
		for _, b := range rows[i] {
			n := 0
			for _, from := range boxes {
				if from.imports[b] && !implied(from, b) {
					want[b] += at[from]
					n++
				}
			}
			want[b] /= float64(max(n, 1))
		}
		slices.SortStableFunc(rows[i], func(a, b *box) int { return cmp.Compare(want[a], want[b]) })
		for j, b := range rows[i] {
			at[b] = float64(j+1) / float64(len(rows[i])+1)
		}
	}
	return rows
}
