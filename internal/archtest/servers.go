package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// serverPackage is the package that creates all HTTP servers.
const serverPackage = "internal/httpserver"

// Servers checks that only package httpserver, whose guard refuses requests of other sites, creates HTTP
// servers, and that routes are registered only where each declares the role that it requires. The ledger
// lists functions with a separate mux.
func Servers(t *Tree, name, text string) ([]Finding, error) {
	l, err := readExceptions(name, text)
	if err != nil {
		return nil, err
	}
	findings, err := t.inspectFunctions(func(f function) (findings []Finding) {
		if strings.HasPrefix(f.file, serverPackage+"/") {
			return nil
		}
		for n := range ast.Preorder(f.node) {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if isName(n.Type, "http", "Server") {
					findings = append(findings, f.finding(n, "an http.Server without the guard against other sites", "call httpserver.New"))
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				switch {
				case isName(s, "http", "ListenAndServe"), isName(s, "http", "ListenAndServeTLS"), isName(s, "http", "Serve"), isName(s, "http", "ServeTLS"):
					findings = append(findings, f.finding(n, "a server without the guard against other sites", "call httpserver.New"))
				case isName(s, "http", "Handle"), isName(s, "http", "HandleFunc"), isName(s, "http", "NewServeMux"):
					if !l.allows(f.file, f.name) {
						findings = append(findings, f.finding(n, "routes that declare no role", "return a web.Route, or list the function in "+name+" with the reason"))
					}
				}
			}
		}
		return findings
	})
	return append(findings, l.stale()...), err
}

// Goroutines checks that a panic in a goroutine fails the request or session that started it instead of the
// process: its function calls package panics, or recovered. The ledger lists reviewed functions.
func Goroutines(t *Tree, name, text string) ([]Finding, error) {
	l, err := readExceptions(name, text)
	if err != nil {
		return nil, err
	}
	findings, err := t.inspectFunctions(func(f function) (findings []Finding) {
		for n := range ast.Preorder(f.node) {
			var started ast.Node
			switch n := n.(type) {
			case *ast.GoStmt:
				started = n.Call.Fun
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					started = n.Args[0]
				}
			}
			if started == nil || recovers(started) || l.allows(f.file, f.name) {
				continue
			}
			findings = append(findings, f.finding(n, "a goroutine whose panic ends the process",
				"call panics.Guard in it, or list the function in "+name+" with the reason"))
		}
		return findings
	})
	return append(findings, l.stale()...), err
}

// recovers reports whether a function literal handles its panics.
func recovers(n ast.Node) bool {
	body, ok := n.(*ast.FuncLit)
	if !ok {
		return false
	}
	for n := range ast.Preorder(body) {
		switch n := n.(type) {
		case *ast.Ident: // or the name of a method
			if n.Name == "recovered" {
				return true
			}
		case *ast.SelectorExpr:
			if isName(n, "panics", "Guard") || isName(n, "panics", "Recovered") {
				return true
			}
		}
	}
	return false
}

// A function is a declaration in the tree's code.
type function struct {
	file, name string
	node       ast.Node
	in         *goFile
}

func (f function) finding(n ast.Node, what, remedy string) Finding {
	return f.in.finding(n, what, remedy)
}

// inspectFunctions calls check for every declaration of code that is linked into programs, excluding tests
// and packages that only tests import.
func (t *Tree) inspectFunctions(check func(function) []Finding) ([]Finding, error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	files, err := t.linkedFiles()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, file := range files {
		if r := rowOf(rows, path.Dir(file.name)); r != nil && r.room.test {
			continue
		}
		for _, d := range file.Decls {
			f := function{file: file.name, name: "-", node: d, in: file}
			if fn, ok := d.(*ast.FuncDecl); ok {
				f.name = fn.Name.Name
			}
			findings = append(findings, check(f)...)
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Where, b.Where) })
	return findings, nil
}
