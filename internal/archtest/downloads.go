package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// downloadRow is "| `package` | `module`, `module` |" or "| `package` | none |".
var downloadRow = regexp.MustCompile("^\\| `([^`]+)` \\| (none|`[^|]*`) \\|$")

// Downloads checks the table of the modules that a user of each public package on the lower floors links.
func Downloads(t *Tree) ([]Finding, error) {
	text, err := t.read(floorsFile)
	if err != nil {
		return nil, err
	}
	rooms, err := readRooms(string(text))
	if err != nil {
		return nil, err
	}
	rows := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if m := downloadRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			rows[m[1]] = m[2]
		}
	}
	linked, err := t.linkedModules()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, r := range rooms {
		if r.floor < 0 || r.floor >= strictFloors || strings.Contains(r.path+"/", "internal/") {
			continue
		}
		want := "none"
		if modules := linked[r.path]; len(modules) > 0 {
			want = "`" + strings.Join(modules, "`, `") + "`"
		}
		if rows[r.path] != want {
			findings = append(findings, Finding{
				floorsFile, fmt.Sprintf("the modules of %s are stated as %q", r.path, rows[r.path]),
				fmt.Sprintf("users of the package download other modules: write | `%s` | %s |", r.path, want),
			})
		}
	}
	return findings, nil
}

// linkedModules returns the other modules that each package links, by its path in this module.
func (t *Tree) linkedModules() (map[string][]string, error) {
	out, err := t.command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}-{{end}} {{join .Deps \" \"}}", "./...")
	if err != nil {
		return nil, err
	}
	module, deps := make(map[string]string), make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if words[1] != "-" {
			module[words[0]] = words[1]
		}
		if path, ours := t.short(words[0]); ours {
			deps[path] = words[2:]
		}
	}
	linked := make(map[string][]string)
	for path, of := range deps {
		for _, d := range of {
			if m := module[d]; m != "" && m != t.Module && !slices.Contains(linked[path], m) {
				linked[path] = append(linked[path], m)
			}
		}
		slices.Sort(linked[path])
	}
	return linked, nil
}
