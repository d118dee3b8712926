package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

var (
	// roadStep matches "1. `package.Function`, `package.(*Type).Method`: their purpose"; the package is the last element of its path.
	roadStep = regexp.MustCompile("^\\d+\\. ((?:`[^`]+`(?:, )?)+): .")

	// testName matches the name of a test in a document.
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
)

// checkNames checks that functions exist which documents name: those of the roads in ARCHITECTURE.md, and the tests that hold the
// promises of SECURITY.md. Each promise, an item of "What Tare promises" that starts with a bold sentence, names at least one.
func checkNames(t *Tree) (findings []Finding, err error) {
	functions := make(map[string]bool) // including tests, also behind build tags
	for _, f := range t.parsed {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				functions[path.Base(path.Dir(f.name))+"."+receiver(fn)+fn.Name.Name] = true
				functions[fn.Name.Name] = true
			}
		}
	}
	page, err := t.read(roomsFile)
	if err != nil {
		return nil, err
	}
	before, roads, _ := strings.Cut(string(page), "\n## Roads\n")
	roads, _, _ = strings.Cut(roads, "\n## ")
	for n, line := range strings.Split(roads, "\n") {
		if m := roadStep.FindStringSubmatch(line); m != nil {
			for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
				if !functions[name[1]] {
					where := fmt.Sprintf("%s:%d", roomsFile, strings.Count(before, "\n")+n+3)
					findings = append(findings, Finding{where, "there is no function " + name[1], "name the one that does this now: the package, the type if it is a method, the function"})
				}
			}
		}
	}
	security, _ := t.read("SECURITY.md") // of which a tree without the file promises nothing
	for _, m := range testName.FindAllStringSubmatch(string(security), -1) {
		if !functions[m[1]] {
			findings = append(findings, Finding{"SECURITY.md", m[1] + " does not exist", "name the test that holds the promise"})
		}
	}
	_, promises, _ := strings.Cut(string(security), "\n## What Tare promises\n")
	promises, _, _ = strings.Cut(promises, "\n## ")
	for _, item := range strings.Split("\n"+promises, "\n- **")[1:] {
		if title, _, _ := strings.Cut(item, "**"); !testName.MatchString(item) {
			findings = append(findings, Finding{"SECURITY.md", fmt.Sprintf("the promise %q names no test", title), "name the test that holds it"})
		}
	}
	return findings, nil
}
