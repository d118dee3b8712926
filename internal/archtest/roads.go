package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// roadStep matches "1. `package.Function`, `package.(*Type).Method`: their purpose"; the package is the last
// element of its path.
var roadStep = regexp.MustCompile("^\\d+\\. ((?:`[^`]+`(?:, )?)+): .")

// Roads checks that the functions named in the numbered steps in ARCHITECTURE.md exist.
func Roads(t *Tree) ([]Finding, error) {
	text, err := t.read(roomsFile)
	if err != nil {
		return nil, err
	}
	_, roads, ok := strings.Cut(string(text), "\n## Roads\n")
	if !ok {
		return nil, nil
	}
	first := strings.Count(string(text[:len(text)-len(roads)]), "\n")
	roads, _, _ = strings.Cut(roads, "\n## ")
	functions, err := t.functions()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	n := first
	for line := range strings.Lines(roads) {
		n++
		m := roadStep.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
			if !functions[name[1]] {
				findings = append(findings, Finding{
					fmt.Sprintf("%s:%d", roomsFile, n), "there is no function " + name[1],
					"name the one that does this now: the package, the type if it is a method, the function",
				})
			}
		}
	}
	return findings, nil
}

// functions returns the names of all functions and methods: package.Function, package.(*Type).Method.
func (t *Tree) functions() (map[string]bool, error) {
	names := make(map[string]bool)
	fset := token.NewFileSet()
	for _, p := range t.Packages {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					names[path.Base(p.ImportPath)+"."+receiver(f)+f.Name.Name] = true
				}
			}
		}
	}
	return names, nil
}
