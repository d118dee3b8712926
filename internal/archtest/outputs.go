package archtest

import (
	"go/ast"
	"path"
	"strings"
)

// Outputs checks that programs under cmd use the process's outputs in main.go alone, which passes them on, so that
// all other code prints to the writer that escapes what servers chose.
func Outputs(t *Tree) ([]Finding, error) {
	return t.inspectFunctions(func(f function) (findings []Finding) {
		if !strings.HasPrefix(f.file, "cmd/") || path.Base(f.file) == "main.go" {
			return nil
		}
		for n := range ast.Preorder(f.node) {
			if s, ok := n.(*ast.SelectorExpr); ok && (isName(s, "os", "Stdout") || isName(s, "os", "Stderr")) {
				findings = append(findings, f.finding(n, "output that is not escaped", "print to the writers of the command"))
			}
		}
		return findings
	})
}
