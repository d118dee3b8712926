package gen

import (
	"go/ast"
	"go/parser"
	"path/filepath"
	"slices"
	"strings"
)

// readTests reads the directives in the test files of p, of which only values is allowed: other types are not in the
// package that is generated for.
func (g *generator) readTests(p *source) {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(g.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // go vet reports it
		}
		read := make(map[*ast.Comment]bool)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, c := range comments(f.Doc) {
				if c.Text == "//sizegen:"+dirValues {
					read[c] = true
					g.readValues(p, file, f, c)
				}
			}
		}
		for _, c := range comments(file.Comments...) {
			if strings.HasPrefix(c.Text, "//sizegen:") && !read[c] {
				g.problems.add(Problem{Pos: g.fset.Position(c.Pos()), What: c.Text, Why: "test files are not read, except for values above a function: move the type or the directive to another file"})
			}
		}
	}
}

// readValues records a function that returns real values of a root.
func (g *generator) readValues(p *source, file *ast.File, f *ast.FuncDecl, c *ast.Comment) {
	if name, ok := valuesOf(f); ok && file.Name.Name == p.Types.Name() {
		if obj := p.Types.Scope().Lookup(name); obj != nil {
			g.values[obj] = append(g.values[obj], f.Name.Name)
			return
		}
	}
	g.problems.add(Problem{Pos: g.fset.Position(c.Pos()), What: c.Text, Why: "it is said of a function of the package " + p.Types.Name() + ", not of its external test: func name(i int) *Root"})
}

// valuesOf returns the name T of the type in func(i int) *T.
func valuesOf(f *ast.FuncDecl) (string, bool) {
	params, results := f.Type.Params, f.Type.Results
	if f.Recv != nil || f.Type.TypeParams != nil || params.NumFields() != 1 || results.NumFields() != 1 {
		return "", false
	}
	if i, ok := params.List[0].Type.(*ast.Ident); !ok || i.Name != "int" {
		return "", false
	}
	star, ok := results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return "", false
	}
	name, ok := star.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}
