package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	floorsFile = "ARCHITECTURE.md"

	// strictFloors is the number of lowest floors that may import only the standard library.
	strictFloors = 2

	// testFloor marks packages that only tests import.
	testFloor = -1
)

// A room is one row of the table: a package and those below its directory.
type room struct {
	path    string
	floor   int
	besides []string // import paths that it may use despite the rule
	line    int
}

// tableRow is "| floor | `package` | what it is | may also import |".
var tableRow = regexp.MustCompile("^\\| *(\\d+|test) *\\| *`([^`]+)` *\\|[^|]*\\|([^|]*)\\|$")

var quoted = regexp.MustCompile("`([^`]+)`")

// readRooms reads the table of packages.
func readRooms(text string) ([]room, error) {
	var rooms []room
	n := 0
	for line := range strings.Lines(text) {
		n++
		m := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		r := room{path: m[2], floor: testFloor, line: n}
		if m[1] != "test" {
			r.floor, _ = strconv.Atoi(m[1]) // digits, by the expression
		}
		for _, q := range quoted.FindAllStringSubmatch(m[3], -1) {
			r.besides = append(r.besides, q[1])
		}
		rooms = append(rooms, r)
	}
	if len(rooms) == 0 {
		return nil, fmt.Errorf("%s has no table of packages (| floor | `package` | what it is | may also import |)", floorsFile)
	}
	return rooms, nil
}

// roomOf returns the room of a package: the longest path that it is at or below.
func roomOf(rooms []room, path string) *room {
	var best *room
	for i := range rooms {
		r := &rooms[i]
		if within(path, r.path) && (best == nil || len(r.path) > len(best.path)) {
			best = r
		}
	}
	return best
}

func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// Floors checks that imports go down, and that the lower floors import only what is listed.
func Floors(t *Tree) ([]Finding, error) {
	text, err := t.read(floorsFile)
	if err != nil {
		return nil, fmt.Errorf("read the table of packages: %w", err)
	}
	rooms, err := readRooms(string(text))
	if err != nil {
		return nil, err
	}
	var findings []Finding
	lived := make(map[*room]bool)
	standard, err := t.standard()
	if err != nil {
		return nil, err
	}
	for _, p := range t.Packages {
		path, _ := t.short(p.ImportPath)
		from := roomOf(rooms, path)
		if from == nil {
			findings = append(findings, Finding{path, "the package has no floor", "add a row to the table of packages in " + floorsFile})
			continue
		}
		lived[from] = true
		if below := strings.TrimPrefix(path, from.path); below != "" && !strings.Contains(below+"/", "/internal/") {
			findings = append(findings, Finding{path, "the package has no row of its own", "add one to the table of packages in " + floorsFile + ", or move it below " + from.path + "/internal"})
		}
		for _, imported := range p.Imports {
			if what, remedy := judge(t, rooms, from, imported, standard); what != "" {
				findings = append(findings, Finding{path, what, remedy})
			}
		}
		if from.floor >= 0 && from.floor < strictFloors {
			findings = append(findings, t.reached(from, p, standard)...)
		}
	}
	for i := range rooms {
		if !lived[&rooms[i]] {
			findings = append(findings, Finding{
				fmt.Sprintf("%s:%d", floorsFile, rooms[i].line),
				"there is no package " + rooms[i].path, "remove the row, or correct the path",
			})
		}
	}
	return findings, nil
}

// reached returns the modules that a package reaches through other packages of this module, and that its room does not list.
func (t *Tree) reached(from *room, p Package, standard map[string]bool) (findings []Finding) {
	path, _ := t.short(p.ImportPath)
	byPath := make(map[string]Package)
	for _, other := range t.Packages {
		byPath[other.ImportPath] = other
	}
	seen := map[string]bool{p.ImportPath: true}
	for work := []Package{p}; len(work) > 0; work = work[1:] {
		for _, imported := range work[0].Imports {
			_, ours := t.short(imported)
			switch {
			case seen[imported]:
				continue
			case ours:
				work = append(work, byPath[imported])
			case !standard[imported] && work[0].ImportPath != p.ImportPath && !from.lists(t, imported):
				by, _ := t.short(work[0].ImportPath)
				findings = append(findings, Finding{
					path, fmt.Sprintf("on floor %d reaches %s through %s", from.floor, imported, by),
					"split " + by + ", or name the module in the last column of " + floorsFile + ": users of the package download it",
				})
			}
			seen[imported] = true
		}
	}
	return findings
}

// lists reports whether the room's row names an import path, or one above it.
func (r *room) lists(t *Tree, imported string) bool {
	return slices.ContainsFunc(r.besides, func(b string) bool { return within(imported, b) || within(imported, t.Module+"/"+b) })
}

// Imports returns the floors of the table's packages, excluding tests, and the imports of each.
func (t *Tree) Imports() (floors map[string]int, imports map[string][]string, err error) {
	text, err := t.read(floorsFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the table of packages: %w", err)
	}
	rooms, err := readRooms(string(text))
	if err != nil {
		return nil, nil, err
	}
	floors, imports = make(map[string]int), make(map[string][]string)
	for _, r := range rooms {
		if r.floor != testFloor {
			floors[r.path] = r.floor
		}
	}
	for _, p := range t.Packages {
		path, _ := t.short(p.ImportPath)
		from := roomOf(rooms, path)
		if from == nil || from.floor == testFloor {
			continue
		}
		for _, imported := range p.Imports {
			path, ours := t.short(imported)
			if to := roomOf(rooms, path); ours && to != nil && to != from && to.floor != testFloor {
				imports[from.path] = append(imports[from.path], to.path)
			}
		}
	}
	return floors, imports, nil
}

// judge returns the problem of an import from a room, "" if there is none.
func judge(t *Tree, rooms []room, from *room, imported string, standard map[string]bool) (what, remedy string) {
	if from.lists(t, imported) {
		return "", ""
	}
	path, ours := t.short(imported)
	if !ours {
		if standard[imported] || from.floor >= strictFloors || from.floor == testFloor {
			return "", ""
		}
		return fmt.Sprintf("floor %d imports %s", from.floor, imported),
			"use the standard library, move the code up, or name the module in the last column of " + floorsFile + " and argue it in the commit"
	}
	to := roomOf(rooms, path)
	switch {
	case to == nil || to == from:
		return "", "" // a package without a floor is a separate finding
	case to.floor == testFloor && from.floor != testFloor:
		return "imports " + path + ", which is for tests", "use it in _test.go files only"
	case from.floor == testFloor || to.floor < from.floor:
		return "", ""
	case to.floor == from.floor:
		return fmt.Sprintf("imports %s on the same floor (%d)", path, to.floor),
			"move what both need to a floor below, take it as an interface or a value, or name it in the last column of " + floorsFile
	}
	return fmt.Sprintf("on floor %d imports %s on floor %d", from.floor, path, to.floor),
		"imports go down: declare the interface that is needed here and let the floor above pass it in"
}

// standard returns the import paths of the standard library.
func (t *Tree) standard() (map[string]bool, error) {
	packages, err := t.command("go", "list", "std")
	if err != nil {
		return nil, err
	}
	standard := map[string]bool{"C": true, "unsafe": true}
	for p := range strings.FieldsSeq(string(packages)) {
		standard[p] = true
	}
	return standard, nil
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
