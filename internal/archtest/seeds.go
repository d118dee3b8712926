package archtest

import (
	"go/ast"
	"path"
	"strings"
)

// Seeds checks that the randomness of a test is reproducible: it comes from a constant, or from a seed that
// the given package prints and accepts, not from the top-level functions of math/rand, which are seeded
// randomly, nor from the time or a process number.
func Seeds(t *Tree, helper string) ([]Finding, error) {
	files, err := t.testFiles()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range files {
		if path.Dir(f.name) == helper {
			continue
		}
		remedy := "use " + path.Base(helper) + ".New or .Rand, or a constant seed"
		random := f.importName("math/rand")
		if random == "" {
			random = f.importName("math/rand/v2")
		}
		for n := range ast.Preorder(f.File) {
			if what := f.unseeded(n, random); what != "" {
				findings = append(findings, f.finding(n, what, remedy))
			}
		}
	}
	return findings, nil
}

// unseeded returns the problem of a node's use of randomness, "" if there is none. random is the name of
// math/rand in the file, "" if it is not imported.
func (f *goFile) unseeded(n ast.Node, random string) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || random == "" || !isName(s, random, s.Sel.Name) {
			return ""
		}
		if !strings.HasPrefix(s.Sel.Name, "New") {
			return "random numbers without a seed: " + random + "." + s.Sel.Name
		}
		if passing(n.Args...) && s.Sel.Name != "New" { // the source within New is checked itself
			return "a seed that is not printed"
		}
	case *ast.AssignStmt:
		if len(n.Lhs) == 1 && strings.Contains(strings.ToLower(last(n.Lhs[0])), "seed") && passing(n.Rhs...) {
			return "a seed from the time or a process number"
		}
	}
	return ""
}

// passing reports whether an expression depends on the time or the process.
func passing(in ...ast.Expr) (found bool) {
	for _, e := range in {
		ast.Inspect(e, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				found = found || isCall(s, "time", "Now") || isCall(s, "os", "Getpid")
			}
			return true
		})
	}
	return found
}

// importName returns the name by which a file uses a package, "" if it does not.
func (f *goFile) importName(wanted string) string {
	for _, i := range f.Imports {
		switch {
		case i.Path.Value != `"`+wanted+`"`:
		case i.Name != nil:
			return i.Name.Name
		default:
			return "rand"
		}
	}
	return ""
}
