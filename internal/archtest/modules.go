package archtest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	modulesFile = "MODULES.md"
	maxNamed    = 8                      // the number of modules up to which they are named
	tags        = "gcs,azure,vtprotobuf" // of options of the product, and of a dependency
	apart       = "sizegen"              // the directory that is to become a module
)

var (
	// testRow is "| `module`, `module` | by tests: purpose |".
	testRow = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| by tests: .* \\|$")

	// requiredModule is a requirement in go.mod.
	requiredModule = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v`)
)

// checkModules checks that the page on modules states what each public package links, and that go.mod lists what the packages besides
// those for tests link on any system, with and without the tags of the product's options, and the modules in the table of those
// for tests.
func checkModules(t *Tree) (findings []Finding, err error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	page, err1 := t.read(modulesFile)
	mod, err2 := t.read("go.mod")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	for _, variant := range []string{"linux ", "linux " + tags, "darwin ", "windows "} {
		system, tags, _ := strings.Cut(variant, " ")
		linked, err := t.linkedModules(system, tags)
		if err != nil {
			return nil, err
		}
		for _, p := range t.Packages {
			path, _ := t.short(p.ImportPath)
			r := rowOf(rows, path)
			if r == nil || r.room.test {
				continue
			}
			for _, module := range linked[path] {
				all[module] = true
			}
			if variant != "linux " || path != r.path || strings.Contains(path+"/", "internal/") || p.Name == "main" {
				continue
			}
			want := "none"
			if modules := linked[path]; len(modules) > maxNamed {
				want = strconv.Itoa(len(modules))
			} else if len(modules) > 0 {
				want = "`" + strings.Join(modules, "`, `") + "`"
			}
			if want = fmt.Sprintf("| `%s` | %s |", path, want); !strings.Contains(string(page), want+"\n") {
				findings = append(findings, Finding{modulesFile, "does not state the modules that users of " + path + " download", "write " + want})
			}
		}
	}
	listed := testRow.FindAllString(string(page), -1)
	isListed := func(module string) bool {
		return slices.ContainsFunc(listed, func(row string) bool { return strings.Contains(row, "`"+module+"`") })
	}
	for _, m := range requiredModule.FindAllStringSubmatch(string(mod), -1) {
		if all[m[1]] == isListed(m[1]) {
			what := fmt.Sprintf("requires %s; packages link it, and the table of requirements of tests lists it: both %t", m[1], all[m[1]])
			findings = append(findings, Finding{"go.mod", what, "move tests that import a module alone to the module e2e, or argue it in the table of " + modulesFile})
		}
	}
	return findings, nil
}

// linkedModules returns the other modules that each package links, by its path in this module.
func (t *Tree) linkedModules(system, tags string) (map[string][]string, error) {
	out, err := t.command("env", "GOOS="+system, "go", "list", "-e", "-deps", "-tags", tags, "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}-{{end}} {{join .Deps \" \"}}", "./...")
	if err != nil {
		return nil, err
	}
	module, linked := make(map[string]string), make(map[string][]string)
	for line := range strings.Lines(string(out)) { // a package follows its imports
		words := strings.Fields(line)
		module[words[0]] = words[1]
		path, ours := t.short(words[0])
		if !ours {
			continue
		}
		for _, d := range words[2:] {
			if m := module[d]; m != "-" && m != "" && m != t.Module && !slices.Contains(linked[path], m) {
				linked[path] = append(linked[path], m)
			}
		}
		slices.Sort(linked[path])
	}
	return linked, nil
}

// checkApart checks that the packages below sizegen, tests included, import the standard library and each other alone, so that
// they can be a module without requirements. Its subjects stay behind.
func checkApart(t *Tree) (findings []Finding, _ error) { //nolint:unparam // as the other checks
	const except = apart + "/internal/subjects"
	for _, p := range t.Packages {
		from, _ := t.short(p.ImportPath)
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			path, ours := t.short(imported)
			foreign := !ours && strings.Contains(strings.Split(imported, "/")[0], ".") || ours && (!within(path, apart) || within(path, except))
			if foreign && within(from, apart) && !within(from, except) {
				findings = append(findings, Finding{from, "imports " + imported, "import the standard library and packages below " + apart + " alone, which are to become a module"})
			}
		}
	}
	return findings, nil
}
