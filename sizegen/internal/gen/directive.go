package gen

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// The directives, by the word after //sizegen: in the comment.
const (
	dirRoot   = "root"   // on a type: write WalkHeap and CachedSize for it
	dirSize   = "size"   // on a field or type: N heap bytes, not looked into
	dirShared = "shared" // on a field or type: not the holder's; nothing counted or detached
	dirTypes  = "types"  // on a field or interface type: the only dynamic types
	dirField  = "field"  // anywhere: size or shared for a field of another module's type
)

// A directive is one //sizegen: comment, understood.
type directive struct {
	kind string
	pos  token.Pos
	size uint64
	list []string // of types
	file *ast.File
	pkg  *source
}

// directives holds what the main module's sources say, by the position of the field or type
// name that it was said of: positions survive the instantiation of generic types.
type directives struct {
	at      map[token.Pos][]directive
	foreign map[string]map[string]directive // package -> path.Type.Field -> directive
}

func (d *directives) find(pos token.Pos, kinds ...string) (directive, bool) {
	for _, x := range d.at[pos] {
		if slices.Contains(kinds, x.kind) {
			return x, true
		}
	}
	return directive{}, false
}

// readDirectives finds the directives of p, and refuses those that say nothing or stand
// where nothing is.
func (g *generator) readDirectives(p *source) {
	for _, file := range p.Syntax {
		r := directiveReader{g: g, p: p, file: file, placed: make(map[*ast.Comment]bool)}
		for n := range ast.Preorder(file) {
			r.node(n)
		}
		r.rest()
	}
}

// A directiveReader reads the directives of one file.
type directiveReader struct {
	g      *generator
	p      *source
	file   *ast.File
	placed map[*ast.Comment]bool // those that a type or field follows
}

// node reads the directives of a type declaration or of a struct's fields.
func (r *directiveReader) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.GenDecl:
		for _, spec := range n.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := ts.Doc
			if doc == nil && !n.Lparen.IsValid() {
				doc = n.Doc
			}
			r.place([]token.Pos{ts.Name.Pos()}, true, doc, ts.Comment)
		}
	case *ast.StructType:
		for _, f := range n.Fields.List {
			r.place(fieldPositions(f), false, f.Doc, f.Comment)
		}
	}
}

// place records the directives of comments for the names at the given positions.
func (r *directiveReader) place(names []token.Pos, onType bool, groups ...*ast.CommentGroup) {
	for _, c := range comments(groups...) {
		d, ok := r.g.parseDirective(c, r.p, r.file)
		if !ok {
			continue
		}
		r.placed[c] = true
		if d.kind == dirRoot && !onType {
			r.g.refuseDirective(c, "root is said of a type", "put it above the type declaration")
			continue
		}
		for _, at := range names {
			r.g.dirs.at[at] = append(r.g.dirs.at[at], d)
		}
	}
}

// rest reads the directives for fields of other modules' types, and refuses those that nothing follows.
func (r *directiveReader) rest() {
	for _, c := range comments(r.file.Comments...) {
		if r.placed[c] || !strings.HasPrefix(c.Text, "//sizegen:") {
			continue
		}
		if strings.HasPrefix(c.Text, "//sizegen:"+dirField) {
			r.g.parseForeign(c, r.p)
		} else if _, ok := r.g.parseDirective(c, r.p, r.file); ok {
			r.g.refuseDirective(c, "no type or field follows it", "put it directly above the type or field, or behind it on its line")
		}
	}
}

// comments returns the comments of groups, of which some may be nil.
func comments(groups ...*ast.CommentGroup) (all []*ast.Comment) {
	for _, g := range groups {
		if g != nil {
			all = append(all, g.List...)
		}
	}
	return all
}

// fieldPositions returns where go/types says the variables of f are.
func fieldPositions(f *ast.Field) []token.Pos {
	var out []token.Pos
	for _, n := range f.Names {
		out = append(out, n.Pos())
	}
	if len(out) > 0 {
		return out
	}
	for t := f.Type; ; {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.SelectorExpr:
			return []token.Pos{x.Sel.Pos()}
		default:
			return []token.Pos{t.Pos()}
		}
	}
}

// parseDirective reads one comment; false means that it is no directive, or a refused one.
func (g *generator) parseDirective(c *ast.Comment, p *source, file *ast.File) (directive, bool) {
	text, ok := strings.CutPrefix(c.Text, "//sizegen:")
	if !ok || strings.HasPrefix(text, dirField) {
		return directive{}, false
	}
	kind, rest, _ := strings.Cut(text, " ")
	d := directive{kind: kind, pos: c.Pos(), file: file, pkg: p}
	words := strings.Fields(rest)
	why, try := "", ""
	switch kind {
	case dirRoot:
		if len(words) > 0 {
			why, try = "root takes no arguments", "//sizegen:root"
		}
	case dirSize, dirShared:
		d.size, why, try = sizeOrShared(kind, words)
	case dirTypes:
		if d.list = words; len(words) == 0 {
			why, try = "types needs the dynamic types that occur", "//sizegen:types *Circle Square string"
		}
	default:
		why, try = "there is no directive "+strconv.Quote(kind), "root, size, shared, types or field"
	}
	if why != "" {
		g.refuseDirective(c, why, try)
		return d, false
	}
	return d, true
}

func sizeOrShared(kind string, words []string) (n uint64, why, try string) {
	if kind == dirShared {
		if len(words) == 0 {
			return 0, "shared needs a reason", "//sizegen:shared owned by the process-wide table"
		}
		return 0, "", ""
	}
	const example = "//sizegen:size 48 one closure with three captured words"
	if len(words) < 2 {
		return 0, "size needs the number of heap bytes and a reason", example
	}
	n, err := strconv.ParseUint(words[0], 10, 32)
	if err != nil {
		return 0, strconv.Quote(words[0]) + " is not a number of bytes", example
	}
	return n, "", ""
}

// parseForeign reads //sizegen:field path.Type.Field shared|size ….
func (g *generator) parseForeign(c *ast.Comment, p *source) {
	words := strings.Fields(strings.TrimPrefix(c.Text, "//sizegen:"+dirField))
	const example = "//sizegen:field example.com/pkg.Type.Field size 48 the captured state"
	if len(words) < 2 || words[1] != dirSize && words[1] != dirShared {
		g.refuseDirective(c, "field needs path.Type.Field and then size or shared", example)
		return
	}
	n, why, try := sizeOrShared(words[1], words[2:])
	if why != "" {
		g.refuseDirective(c, why, strings.Replace(try, "//sizegen:", "//sizegen:field "+words[0]+" ", 1))
		return
	}
	of := g.dirs.foreign[p.ImportPath]
	if of == nil {
		of = make(map[string]directive)
		g.dirs.foreign[p.ImportPath] = of
	}
	of[words[0]] = directive{kind: words[1], pos: c.Pos(), size: n, pkg: p}
}

func (g *generator) refuseDirective(c *ast.Comment, why, try string) {
	g.problems.add(Problem{g.fset.Position(c.Pos()), c.Text, why, try})
}

// fieldDirective returns what is said of field f of the struct type owner, seen from package
// from, where owner may be nil.
func (g *generator) fieldDirective(from *types.Package, owner *types.Named, f *types.Var) (directive, bool) {
	if d, ok := g.dirs.find(f.Origin().Pos(), dirSize, dirShared); ok {
		return d, true
	}
	if owner == nil || owner.Obj().Pkg() == nil {
		return directive{}, false
	}
	key := owner.Obj().Pkg().Path() + "." + owner.Obj().Name() + "." + f.Name()
	d, ok := g.dirs.foreign[from.Path()][key]
	if ok {
		g.usedForeign[d.pos] = true
	}
	return d, ok
}
