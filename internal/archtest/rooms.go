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
	line int
}

var (
	// roomHeading is "### `move`: tables moved and altered"; the section of the packages for tests has no path.
	roomHeading = regexp.MustCompile("^### (?:`([^`]+)`: .+|Test support)$")

	// packageRow is "| `move/alter` | changes a table's definition |".
	packageRow = regexp.MustCompile("^\\| `([^`]+)` \\| [^|]+ \\|$")

	quoted = regexp.MustCompile("`([^`]+)`")
)

// readRows reads the tables of packages, from the highest room to the lowest.
func readRows(text string) ([]row, error) {
	var rows []row
	var in *room
	rooms, n := 0, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if m := roomHeading.FindStringSubmatch(line); m != nil {
			in = &room{name: m[1], rank: rooms, test: m[1] == ""}
			rooms++
		} else if strings.HasPrefix(line, "#") {
			in = nil
		} else if m := packageRow.FindStringSubmatch(line); m != nil && in != nil {
			rows = append(rows, row{m[1], in, n})
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no room with a table of packages (### `room`: what it is for; | `package` | what it is |)", roomsFile)
	}
	return rows, nil
}

// rows reads the page of the tree.
func (t *Tree) rows() ([]row, error) {
	text, err := t.read(roomsFile)
	if err != nil {
		return nil, fmt.Errorf("read the tables of packages: %w", err)
	}
	return readRows(string(text))
}

// rowOf returns the row of a package: the longest path that it is at or below.
func rowOf(rows []row, path string) *row {
	var best *row
	for i := range rows {
		r := &rows[i]
		if within(path, r.path) && (best == nil || len(r.path) > len(best.path)) {
			best = r
		}
	}
	return best
}

func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// Rooms checks that each package is in the table of its room, and that imports between rooms go down.
func Rooms(t *Tree) (findings []Finding, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	found := make(map[*row]bool)
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
			to, ours := t.short(imported)
			if r := rowOf(rows, to); ours && r != nil {
				if problem, remedy := judge(from, r); problem != "" {
					findings = append(findings, Finding{path, problem, remedy})
				}
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		where := fmt.Sprintf("%s:%d", roomsFile, r.line)
		if !found[r] {
			findings = append(findings, Finding{where, "there is no package " + r.path, "remove the row, or correct the path"})
		}
		if !r.room.test && !within(r.path, r.room.name) && !within(r.path, "internal/"+r.room.name) {
			findings = append(findings, Finding{where, r.path + " is neither below " + r.room.name + " nor below internal/" + r.room.name, "move the row to the table of its room"})
		}
	}
	return findings, nil
}

// judge returns the problem of an import, "" if there is none.
func judge(from, to *row) (problem, remedy string) {
	switch {
	case from.room.test:
		return "", ""
	case to.room.test:
		return "imports " + to.path + ", which is for tests", "use it in _test.go files only"
	case to.room.rank < from.room.rank:
		return fmt.Sprintf("of room %s imports %s of room %s above it", from.room.name, to.path, to.room.name),
			"imports go down: declare the interface that is needed here and let the room above pass it in"
	}
	return "", ""
}

// An Import says that packages of a room import those of another one.
type Import struct{ From, To string }

// Imports returns the rooms from the highest to the lowest, without that for tests, and the imports between them, sorted.
func (t *Tree) Imports() (rooms []string, imports []Import, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		if !r.room.test && !slices.Contains(rooms, r.room.name) {
			rooms = append(rooms, r.room.name)
		}
	}
	for _, p := range t.Packages {
		path, _ := t.short(p.ImportPath)
		from := rowOf(rows, path)
		if from == nil || from.room.test {
			continue
		}
		for _, imported := range p.Imports {
			path, ours := t.short(imported)
			to := rowOf(rows, path)
			if !ours || to == nil || to.room == from.room || to.room.test {
				continue
			}
			if i := (Import{from.room.name, to.room.name}); !slices.Contains(imports, i) {
				imports = append(imports, i)
			}
		}
	}
	slices.SortFunc(imports, func(a, b Import) int {
		return slices.Compare([]string{a.From, a.To}, []string{b.From, b.To})
	})
	return rooms, imports, nil
}

// NotLinked checks that no binary but one links a module.
func NotLinked(t *Tree, module, except, remedy string) ([]Finding, error) {
	var findings []Finding
	for _, p := range t.Packages {
		path, _ := t.short(p.ImportPath)
		if p.Name != "main" || path == except {
			continue
		}
		linked, err := t.list("-deps", p.ImportPath)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(linked, func(d Package) bool { return within(d.ImportPath, module) }) {
			findings = append(findings, Finding{path, "links " + module, remedy})
		}
	}
	return findings, nil
}
