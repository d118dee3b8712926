package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// Sleeps checks that nothing sleeps in place of a wait: neither tests, where only the clock of
// testing/synctest moves by sleeping, nor programs, which could not be stopped meanwhile. A poll of
// something that sends no notification (the kernel, another process) ends the line of its pause with
// "// polls: " and what it polls, the pace of a load with "// paces: " and what it paces.
func Sleeps(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, name := range t.Files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+path.Dir(name)+"/", "/testdata/") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if imports(file, "testing/synctest") || !imports(file, "time") {
			continue
		}
		excused := make(map[int]bool)
		for _, group := range file.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "// polls: ") || strings.HasPrefix(c.Text, "// paces: ") {
					excused[fset.Position(c.Pos()).Line] = true
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Sleep" {
				return true
			}
			line := fset.Position(s.Pos()).Line
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && !excused[line] {
				findings = append(findings, Finding{
					fmt.Sprintf("%s:%d", name, line), "sleeps",
					"wait for what is waited for: by testing/synctest, by a timer beside ctx.Done(), or say at the line's end what it polls (// polls: …)",
				})
			}
			return true
		})
	}
	return findings, nil
}

func imports(file *ast.File, wanted string) bool {
	for _, i := range file.Imports {
		if i.Path.Value == `"`+wanted+`"` {
			return true
		}
	}
	return false
}
