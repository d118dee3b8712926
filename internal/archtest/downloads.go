package archtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modulesFile has the tables of modules.
const modulesFile = "docs/background/modules.md"

// maxNamed is the number of modules up to which they are named.
const maxNamed = 8

// downloadRow is "| `package` | `module`, `module` |", "| `package` | none |" or "| `package` | 12 |".
var downloadRow = regexp.MustCompile("^\\| `([^`]+)` \\| (none|[0-9]+|`[^|]*`) \\|$")

// Downloads checks the table of the modules that a user of each public package links.
func Downloads(t *Tree) ([]Finding, error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	text, err := t.read(modulesFile)
	if err != nil {
		return nil, err
	}
	stated := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if m := downloadRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			stated[m[1]] = m[2]
		}
	}
	linked, err := t.linkedModules("")
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, r := range rows {
		if !public(r) {
			continue
		}
		want := "none"
		if modules := linked[r.path]; len(modules) > maxNamed {
			want = strconv.Itoa(len(modules))
		} else if len(modules) > 0 {
			want = "`" + strings.Join(modules, "`, `") + "`"
		}
		if stated[r.path] != want {
			findings = append(findings, Finding{
				modulesFile, fmt.Sprintf("the modules of %s are stated as %q", r.path, stated[r.path]),
				fmt.Sprintf("users of the package download other modules: write | `%s` | %s |", r.path, want),
			})
		}
	}
	return findings, nil
}

// public reports whether other modules can import a package.
func public(r row) bool {
	return !r.room.test && !strings.Contains(r.path+"/", "internal/") && !strings.HasPrefix(r.path, "cmd/") && r.path != "sizegen"
}

// Gets adds public packages to a fresh module each, by go get, and checks that its go.mod requires the modules that the
// package links, with the tags of the product's options, which go get ignores, and no others. Of all packages, every
// step-th is tried.
func Gets(t *Tree, tags string, step int) (findings []Finding, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	linked, err := t.linkedModules(tags)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return !public(r) })
	for i := 0; i < len(rows); i += step {
		path := rows[i].path
		required, err := t.get(path)
		if err != nil {
			return nil, err
		}
		slices.Sort(required)
		if !slices.Equal(required, linked[path]) {
			differ := func(a, b []string) []string {
				return slices.DeleteFunc(slices.Clone(a), func(m string) bool { return slices.Contains(b, m) })
			}
			findings = append(findings, Finding{path, fmt.Sprintf("go get adds %q besides the modules that it links, and lacks %q", differ(required, linked[path]), differ(linked[path], required)), "require what the package links"})
		}
	}
	return findings, nil
}

// requiredModule is a requirement in go.mod.
var requiredModule = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v`)

// get returns the modules besides this one that go get adds to a fresh module for a package.
func (t *Tree) get(path string) (modules []string, err error) {
	tmp, err := os.MkdirTemp("", "fresh")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	mod := filepath.Join(tmp, "go.mod")
	for name, text := range map[string]string{
		mod:                            fmt.Sprintf("module example.com/fresh\n\ngo 1.25\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", t.Module, t.Module, t.Root),
		filepath.Join(tmp, "fresh.go"): fmt.Sprintf("package fresh\n\nimport _ %q\n", t.Module+"/"+path),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	get := exec.Command("go", "get", ".")
	get.Dir = tmp
	get.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GONOSUMDB=*")
	if out, err := get.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go get %s in a fresh module: %w\n%s", path, err, out)
	}
	text, err := os.ReadFile(mod)
	if err != nil {
		return nil, err
	}
	for _, m := range requiredModule.FindAllStringSubmatch(string(text), -1) {
		if m[1] != t.Module {
			modules = append(modules, m[1])
		}
	}
	return modules, nil
}

// testRow is "| `module`, `module` | by tests: purpose |".
var testRow = regexp.MustCompile("^\\| (`[^|]*`) \\| by tests: .* \\|$")

// Requirements checks that go.mod lists what the packages besides those for tests link on any system, with and without the
// tags of the product's options, and the modules in the table of those for tests.
func Requirements(t *Tree, tags string) (findings []Finding, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	text, err := t.read(modulesFile)
	if err != nil {
		return nil, err
	}
	linked := make(map[string]bool)
	for _, variant := range []string{"linux ", "linux " + tags, "darwin ", "windows "} {
		system, tags, _ := strings.Cut(variant, " ")
		args := []string{"GOOS=" + system, "go", "list", "-e", "-deps", "-tags", tags, "-f", "{{with .Module}}{{.Path}}{{end}}"}
		for _, r := range rows {
			if !r.room.test {
				args = append(args, "./"+r.path)
			}
		}
		out, err := t.command("env", args...)
		if err != nil {
			return nil, err
		}
		for module := range strings.FieldsSeq(string(out)) {
			linked[module] = true
		}
	}
	mod, err := t.read("go.mod")
	if err != nil {
		return nil, err
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if m := testRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
				listed[q[1]] = true
			}
		}
	}
	required := make(map[string]bool)
	for _, m := range requiredModule.FindAllStringSubmatch(string(mod), -1) {
		required[m[1]] = true
		if !linked[m[1]] && !listed[m[1]] {
			findings = append(findings, Finding{"go.mod", "no package links " + m[1] + ", which users get as a requirement", "move the tests that import it to the module e2e, or argue it in the table of " + modulesFile})
		}
	}
	for module := range listed {
		if linked[module] || !required[module] {
			findings = append(findings, Finding{modulesFile, module + " is no requirement of tests alone", "remove its row"})
		}
	}
	return findings, nil
}

// linkedModules returns the other modules that each package links, by its path in this module.
func (t *Tree) linkedModules(tags string) (map[string][]string, error) {
	out, err := t.command("go", "list", "-deps", "-tags", tags, "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}-{{end}} {{join .Deps \" \"}}", "./...")
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
