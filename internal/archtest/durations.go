package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Durations checks that no test compares a measured time: on a busy machine everything takes longer. The
// ledger lists functions in which such a comparison concerns data or bounds a wait, one per line: file,
// function, reason. A file that uses testing/synctest has a fake clock.
func Durations(t *Tree, name, text string) ([]Finding, error) {
	l, err := readExceptions(name, text)
	if err != nil {
		return nil, err
	}
	files, err := t.testFiles()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range files {
		if imports(f.File, "testing/synctest") {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			for _, compared := range elapsed(fn.Body) {
				if !l.allows(f.name, fn.Name.Name) {
					findings = append(findings, f.finding(compared, "compares how long something took",
						"wait for the event, use testing/synctest, or list the function in "+name+" with the reason"))
				}
			}
		}
	}
	findings = append(findings, l.stale()...)
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Where, b.Where) })
	return findings, nil
}

// elapsed returns the comparisons of results of time.Since, time.Until or a Sub method, directly or through a
// variable.
func elapsed(body ast.Node) (found []ast.Node) {
	names := make(map[string]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, e := range a.Rhs {
				if isElapsed(e, nil) {
					names[last(a.Lhs[i])] = true
				}
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok {
			return true
		}
		switch b.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
			if isElapsed(b.X, names) || isElapsed(b.Y, names) {
				found = append(found, b)
			}
		}
		return true
	})
	return found
}

// isElapsed reports whether an expression is a measured duration: a call, a variable with one, a method of
// one such as Abs, a sum or a conversion.
func isElapsed(e ast.Expr, names map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return names[e.Name]
	case *ast.ParenExpr:
		return isElapsed(e.X, names)
	case *ast.BinaryExpr:
		return isElapsed(e.X, names) || isElapsed(e.Y, names)
	case *ast.CallExpr:
		if isCall(e.Fun, "time", "Since") || isCall(e.Fun, "time", "Until") {
			return true
		}
		s, ok := e.Fun.(*ast.SelectorExpr)
		if ok && s.Sel.Name == "Sub" && len(e.Args) == 1 {
			return true
		}
		if ok && isElapsed(s.X, names) {
			return true
		}
		return len(e.Args) == 1 && isElapsed(e.Args[0], names)
	}
	return false
}
