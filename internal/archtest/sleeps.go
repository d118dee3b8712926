package archtest

import (
	"go/ast"
)

// Sleeps checks that no code sleeps instead of waiting: neither tests, in which sleeping may only advance the
// clock of testing/synctest, nor programs, which could not be stopped meanwhile. A poll of a source without
// notifications (the kernel, another process) marks the line of its pause by "// polls: " and the polled
// condition, the pace of a load by "// paces: " and the paced load.
func Sleeps(t *Tree) ([]Finding, error) {
	files, err := t.goFiles(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range files {
		if imports(f.File, "testing/synctest") || !imports(f.File, "time") {
			continue
		}
		excused := f.endings("// polls: ", "// paces: ")
		for n := range ast.Preorder(f.File) {
			if s, ok := n.(*ast.SelectorExpr); ok && isName(s, "time", "Sleep") && !excused[f.line(s)] {
				findings = append(findings, f.finding(s, "sleeps",
					"wait for what is waited for: by testing/synctest, by a timer beside ctx.Done(), or say at the line's end what it polls (// polls: …)"))
			}
		}
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
