package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// Globals checks that package-level variables are constant tables, not written after their declaration. Tests
// may write them, because they own the process.
func Globals(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, p := range t.Packages {
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			// Objects are resolved within a file: a name without one is not local.
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		globals := packageVariables(files)
		for _, file := range files {
			if ast.IsGenerated(file) {
				continue
			}
			for _, target := range writes(file) {
				spec, ok := globals[target.Name]
				if !ok || target.Obj != nil && target.Obj.Decl != spec {
					continue // a local variable, perhaps of the same name
				}
				where := fset.Position(target.Pos())
				findings = append(findings, Finding{
					fmt.Sprintf("%s:%d", t.rel(where.Filename), where.Line), "writes to the package's variable " + target.Name,
					"let a struct own it, or compute it in its declaration with sync.OnceValue",
				})
			}
		}
	}
	return findings, nil
}

// packageVariables returns the variables that a package declares, with their declarations.
func packageVariables(files []*ast.File) map[string]*ast.ValueSpec {
	variables := make(map[string]*ast.ValueSpec)
	for _, file := range files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for _, name := range spec.Names {
					variables[name.Name] = spec
				}
			}
		}
	}
	return variables
}

// writes returns the variables that a file's functions assign to, or to parts of.
func writes(file *ast.File) []*ast.Ident {
	var targets []*ast.Ident
	note := func(e ast.Expr) {
		if x := root(e); x != nil && x.Name != "_" {
			targets = append(targets, x)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					note(e)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				note(n.Key)
				note(n.Value)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy") && len(n.Args) > 0 {
				note(n.Args[0])
			}
		}
		return true
	})
	return targets
}

// root returns the variable at the base of an expression, nil if there is none.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}
