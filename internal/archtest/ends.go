package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// dataPaths are the rooms whose results depend on where data ends.
var dataPaths = [...]string{"fleet", "store"}

// Ends checks that no data path takes a wrapped io.EOF for the end of its data: layers above a connection or
// a file wrap the io.EOF of a broken read, and the result would silently be truncated. The packages have
// separate errors for the end of data; an io.Reader's io.EOF is compared by ==.
func Ends(t *Tree) ([]Finding, error) {
	files, err := t.goFiles(func(name string) bool {
		return !strings.HasSuffix(name, "_test.go") && slices.Contains(dataPaths[:], strings.SplitN(path.Dir(name), "/", 2)[0])
	})
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range files {
		for n := range ast.Preorder(f.File) {
			call, ok := n.(*ast.CallExpr)
			if ok && isName(call.Fun, "errors", "Is") && len(call.Args) == 2 && isName(call.Args[1], "io", "EOF") {
				findings = append(findings, f.finding(call, "errors.Is(…, io.EOF)",
					"return and compare an error of the package's own for the end of data, or compare an io.Reader's error by =="))
			}
		}
	}
	return findings, nil
}

// isName reports whether an expression is a qualified name of a package.
func isName(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
