package drawing

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/archtest"
)

// A box is a package of the drawing: a row of the table of packages.
type box struct {
	path        string
	floor       int
	imports     map[*box]bool
	row         int // 0 is the lowest
	x, width, y int
}

// center returns the x coordinate at which arrows start and end.
func (b *box) center() int { return b.x + b.width/2 }

// Draw returns the imports between the packages of the table, excluding packages of tests, as an SVG drawing.
// Each arrow points down; transitive ones are omitted. An import that points up is an error.
func Draw(t *archtest.Tree) (string, error) {
	all, err := boxes(t)
	if err != nil {
		return "", err
	}
	if err := stack(all); err != nil {
		return "", err
	}
	rows := arrange(all)
	var b strings.Builder
	const width, rowHeight, boxHeight, top = 1500, 110, 26, 20
	height := len(rows)*rowHeight + top
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	b.WriteString("<title>Imports between packages</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n")
	for i, row := range rows {
		gap := (width - 60) / (len(row) + 1)
		for j, x := range row {
			x.x, x.y = 60+gap*(j+1)-x.width/2, top+(len(rows)-1-i)*rowHeight
		}
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\" fill=\"#666\">floor %d</text>\n", row[0].y+17, row[0].floor)
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
			x.x, x.y, x.width, boxHeight, x.center(), x.y+17, html.EscapeString(strings.TrimPrefix(x.path, "internal/")))
	}
	return b.String() + "</svg>\n", nil
}

// boxes returns the packages of the table with their imports, by path.
func boxes(t *archtest.Tree) ([]*box, error) {
	floors, imports, err := t.Imports()
	if err != nil {
		return nil, err
	}
	of := make(map[string]*box)
	var all []*box
	for _, path := range slices.Sorted(maps.Keys(floors)) {
		of[path] = &box{path: path, floor: floors[path], imports: make(map[*box]bool), width: 16 + 7*len(strings.TrimPrefix(path, "internal/"))}
		all = append(all, of[path])
	}
	for _, from := range all {
		for _, to := range imports[from.path] {
			from.imports[of[to]] = true
		}
	}
	return all, nil
}

// stack assigns rows to the boxes: floors above each other, and within a floor the importer above.
func stack(boxes []*box) error {
	floors := make(map[int][]*box)
	for _, b := range boxes {
		floors[b.floor] = append(floors[b.floor], b)
	}
	row := 0
	for _, floor := range slices.Sorted(maps.Keys(floors)) {
		rest := floors[floor]
		for len(rest) > 0 {
			var placed, left []*box
			for _, b := range rest {
				if slices.ContainsFunc(rest, func(to *box) bool { return b.imports[to] }) {
					left = append(left, b)
				} else {
					b.row = row
					placed = append(placed, b)
				}
			}
			if len(placed) == 0 {
				return fmt.Errorf("packages of floor %d import each other in a circle: %s, …", floor, rest[0].path)
			}
			row, rest = row+1, left
		}
	}
	for _, from := range boxes {
		for to := range from.imports {
			if to.row >= from.row {
				return fmt.Errorf("the import of %s by %s runs up", to.path, from.path)
			}
		}
	}
	return nil
}

// implied reports whether from also imports to through another package.
func implied(from, to *box) bool {
	for via := range from.imports {
		if via != to && (via.imports[to] || implied(via, to)) {
			return true
		}
	}
	return false
}

// arrange returns the rows from the lowest; within a row, packages are near those that import them.
func arrange(boxes []*box) [][]*box {
	var rows [][]*box
	for _, b := range boxes {
		for len(rows) <= b.row {
			rows = append(rows, nil)
		}
		rows[b.row] = append(rows[b.row], b)
	}
	at := make(map[*box]float64)
	place := func(row []*box) {
		for i, b := range row {
			at[b] = float64(i+1) / float64(len(row)+1)
		}
	}
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
		place(rows[i])
	}
	return rows
}
