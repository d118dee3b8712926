package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const roomsFile = "ARCHITECTURE.md"

// A room is a section of the page: packages of one product, or of the ground below all products.
type room struct {
	name string
	rank int // 0 is the highest; imports go to the same or a greater one
	test bool
}

// A row is a package of a room's table.
type row struct {
	path string
	room *room
}

var (
	// roomHeading is "### `move`: tables moved and altered"; the section of the packages for tests has no path.
	roomHeading = regexp.MustCompile("^### (?:`([^`]+)`: .+|Test support)$")

	// packageRow is "| `move/alter` | changes a table's definition |".
	packageRow = regexp.MustCompile("^\\| `([^`]+)` \\| [^|]+ \\|$")

	quoted = regexp.MustCompile("`([^`]+)`")
)

// rows reads the tables of packages, from the highest room to the lowest.
func (t *Tree) rows() (rows []row, err error) {
	text, err := t.read(roomsFile)
	if err != nil {
		return nil, fmt.Errorf("read the tables of packages: %w", err)
	}
	var in *room
	rooms := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if m := roomHeading.FindStringSubmatch(line); m != nil {
			in = &room{name: m[1], rank: rooms, test: m[1] == ""}
			rooms++
		} else if strings.HasPrefix(line, "#") {
			in = nil
		} else if m := packageRow.FindStringSubmatch(line); m != nil && in != nil {
			rows = append(rows, row{m[1], in})
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no room with a table of packages (### `room`: what it is for; | `package` | what it is |)", roomsFile)
	}
	return rows, nil
}

// rowOf returns the row of a package: the longest path that it is at or below.
func rowOf(rows []row, path string) *row {
	var best *row
	for i := range rows {
		if r := &rows[i]; within(path, r.path) && (best == nil || len(r.path) > len(best.path)) {
			best = r
		}
	}
	return best
}

// checkRooms checks that each package is in the table of its room, that imports between rooms go down, and that the page draws them.
func checkRooms(t *Tree) (findings []Finding, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	found := make(map[*row]bool)
	edges := make(map[[2]string]bool) // imports between rooms
	for _, p := range t.Packages {
		path, _ := t.short(p.ImportPath)
		from := rowOf(rows, path)
		if from == nil {
			findings = append(findings, Finding{path, "the package is in no room", "add a row to the table of its room in " + roomsFile})
			continue
		}
		found[from] = true
		if below := strings.TrimPrefix(path, from.path); below != "" && !strings.Contains(below+"/", "/internal/") {
			findings = append(findings, Finding{path, "the package has no row", "add one to the table of its room in " + roomsFile + ", or move it below " + from.path + "/internal"})
		}
		for _, imported := range p.Imports {
			short, ours := t.short(imported)
			to := rowOf(rows, short)
			switch {
			case !ours || to == nil || from.room.test || to.room == from.room:
			case to.room.test:
				findings = append(findings, Finding{path, "imports " + to.path + ", which is for tests", "use it in _test.go files only"})
			case to.room.rank < from.room.rank:
				what := fmt.Sprintf("of room %s imports %s of room %s above it", from.room.name, to.path, to.room.name)
				findings = append(findings, Finding{path, what, "imports go down: declare the interface that is needed here and let the room above pass it in"})
			default:
				edges[[2]string{from.room.name, to.room.name}] = true
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		if !found[r] {
			findings = append(findings, Finding{roomsFile, "there is no package " + r.path, "remove the row, or correct the path"})
		}
		if !r.room.test && !within(r.path, r.room.name) && !within(r.path, "internal/"+r.room.name) {
			findings = append(findings, Finding{roomsFile, r.path + " is neither below " + r.room.name + " nor below internal/" + r.room.name, "move the row to the table of its room"})
		}
	}
	text, err := t.read(roomsFile)
	if want := drawing(rows, edges); err == nil && want != "" && !strings.Contains(string(text), want) {
		findings = append(findings, Finding{roomsFile, "does not draw the imports between rooms", "write:\n" + strings.TrimSpace(want)})
	}
	return findings, err
}

// drawing returns the imports between rooms as a graph in Mermaid's language, without those that others imply.
func drawing(rows []row, edges map[[2]string]bool) string {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.room.name) {
			names = append(names, r.room.name)
		}
	}
	var implied func(from, to string) bool
	implied = func(from, to string) bool {
		return slices.ContainsFunc(names, func(via string) bool {
			return edges[[2]string{from, via}] && (edges[[2]string{via, to}] || implied(via, to))
		})
	}
	var b strings.Builder
	for _, from := range names {
		for _, to := range names {
			if edges[[2]string{from, to}] && !implied(from, to) {
				fmt.Fprintf(&b, "    %s --> %s\n", from, to)
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "```mermaid\ngraph TD\n" + b.String() + "```\n"
}
