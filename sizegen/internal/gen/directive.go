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
	dirRoot   = "root"   // on a type: generate WalkHeap and CachedSize for it
	dirSize   = "size"   // on a field or type: N heap bytes, not walked
	dirEach   = "each"   // on a field or type: N heap bytes for each func, channel, … in it
	dirOpaque = "opaque" // on a field or type: not walked, its cost is the result of a rule
	dirShared = "shared" // on a field or type: owned by another object; nothing counted or detached
	dirInside = "inside" // on a field or type: it, or a pointer to it, may point into an object of another type
	dirTypes  = "types"  // on a field or interface type: the only dynamic types
	dirField  = "field"  // anywhere: one of these for a named field or type
	dirValues = "values" // on a function of a test: it returns values of a root
)

// A directive is one //sizegen: comment, parsed.
type directive struct {
	kind   string
	pos    token.Pos
	size   uint64   // of size, each and opaque
	rule   string   // of opaque: a function, "" for a constant size
	part   string   // of inside: path.Type.Field
	list   []string // of types
	reason string
	file   *ast.File
	pkg    *source
}

// directives are the directives of the main module's sources: by the position of the field or type name that
// they apply to, since positions survive the instantiation of generic types; and by the name of a field or
// type, path.Type.Field or path.Type.
type directives struct {
	at    map[token.Pos][]directive
	named map[string][]directive
}

func (d *directives) find(pos token.Pos, kinds ...string) (directive, bool) {
	for _, x := range d.at[pos] {
		if slices.Contains(kinds, x.kind) {
			return x, true
		}
	}
	return directive{}, false
}

// readDirectives collects the directives of p, and refuses those that are empty or apply to nothing.
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
	placed map[*ast.Comment]bool // those followed by a type or field
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
			r.place([]token.Pos{ts.Name.Pos()}, ts, doc, ts.Comment)
		}
	case *ast.StructType:
		for _, f := range n.Fields.List {
			r.place(fieldPositions(f), nil, f.Doc, f.Comment)
		}
	}
}

// place records the directives of comments for the names at the given positions: of the type that ts declares
// or, if ts is nil, of fields.
func (r *directiveReader) place(names []token.Pos, ts *ast.TypeSpec, groups ...*ast.CommentGroup) {
	for _, c := range comments(groups...) {
		text, ok := strings.CutPrefix(c.Text, "//sizegen:")
		if _, _, named := splitNamed(text); !ok || named {
			continue
		}
		d, ok := r.parse(c, text, "")
		if !ok {
			continue
		}
		r.placed[c] = true
		switch {
		case d.kind == dirRoot && ts == nil:
			r.refuse(c, "root is said of a type: put it above the type declaration", "")
			continue
		case ts != nil && ts.Assign.IsValid():
			r.refuse(c, "an alias is only a name: put it above the declaration of the type that it names", "")
			continue
		case d.kind == dirRoot && !r.topLevel(ts):
			r.refuse(c, "a type declared in a function cannot have methods: declare it outside", "")
			continue
		}
		for _, at := range names {
			r.g.dirs.at[at] = append(r.g.dirs.at[at], d)
		}
	}
}

// topLevel reports whether a type is declared outside of functions.
func (r *directiveReader) topLevel(ts *ast.TypeSpec) bool {
	obj := r.p.Types.Scope().Lookup(ts.Name.Name)
	return obj != nil && obj.Pos() == ts.Name.Pos()
}

// rest reads the directives that name a field or type, and refuses others that are not followed by a field or
// type.
func (r *directiveReader) rest() {
	for _, c := range comments(r.file.Comments...) {
		if strings.HasPrefix(c.Text, "// sizegen:") {
			r.refuse(c, "this is a comment, not a directive: remove the space after the slashes", "")
		}
		text, ok := strings.CutPrefix(c.Text, "//sizegen:")
		if !ok || r.placed[c] {
			continue
		}
		if name, rest, named := splitNamed(text); named {
			r.parseNamed(c, name, rest)
		} else if _, ok := r.parse(c, text, ""); ok {
			r.refuse(c, "no type or field follows it: put it directly above the type or field, or behind it on its line", "")
		}
	}
}

// splitNamed returns the name, or names separated by commas, in a directive of the form "field name …" or
// "types name = …", and the directive in the form for the line above its subject.
func splitNamed(text string) (name, rest string, ok bool) {
	if text, ok := strings.CutPrefix(text, dirField); ok && (text == "" || text[0] == ' ') {
		name, rest, _ = strings.Cut(strings.TrimSpace(text), " ")
		for more := ""; strings.HasSuffix(name, ","); name += " " + more {
			more, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
			if more == "" {
				break
			}
		}
		return name, strings.TrimSpace(rest), true
	}
	if text, ok := strings.CutPrefix(text, dirTypes+" "); ok {
		if name, list, ok := strings.Cut(text, "="); ok {
			return strings.TrimSpace(name), dirTypes + " " + strings.TrimSpace(list), true
		}
	}
	return "", "", false
}

// comments returns the comments of groups, some of which may be nil.
func comments(groups ...*ast.CommentGroup) (all []*ast.Comment) {
	for _, g := range groups {
		if g != nil {
			all = append(all, g.List...)
		}
	}
	return all
}

// fieldPositions returns the positions of f's variables in go/types.
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

// parse parses the text of a directive for the field or type name or, if name is empty, for the
// declaration at the comment. It returns false if it refused the directive.
func (r *directiveReader) parse(c *ast.Comment, text, name string) (directive, bool) {
	kind, rest, _ := strings.Cut(text, " ")
	d := directive{kind: kind, pos: c.Pos(), file: r.file, pkg: r.p}
	why, try := "", ""
	switch words := strings.Fields(rest); kind {
	case dirRoot:
		if len(words) > 0 {
			why, try = "root takes no arguments", "//sizegen:root"
		}
	case dirSize, dirEach, dirOpaque:
		why, try = d.parseSize(words)
	case dirShared:
		if d.reason = strings.Join(words, " "); d.reason == "" {
			why, try = "shared needs a reason", "//sizegen:shared it belongs to the whole process"
		}
	case dirInside:
		const example = "//sizegen:inside example.com/pkg.Type.Field it is a slice of that array"
		if len(words) < 2 {
			why, try = "inside needs the field path.Type.Field that is pointed into, or [] for an array, and a reason", example
		} else {
			d.part, d.reason = words[0], strings.Join(words[1:], " ")
		}
	case dirTypes:
		d.list = strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		if len(d.list) == 0 {
			why, try = "types needs the dynamic types that occur", "//sizegen:types *Circle, Square, string"
		}
	case dirValues:
		why = "values is said of a function in a test file of the package: func name(i int) *Root"
	default:
		why = "there is no directive " + strconv.Quote(kind) + ", but root, size, each, opaque, shared, inside, types, field and values"
	}
	if why == "" {
		return d, true
	}
	if say, ok := strings.CutPrefix(try, "//sizegen:"); ok && name != "" {
		try = namedStatement(name, say)
	}
	r.refuse(c, why, try)
	return d, false
}

// parseSize reads the arguments of size and opaque.
func (d *directive) parseSize(words []string) (why, try string) {
	const example = "32 a func with at most three captured words"
	if len(words) < 2 {
		return d.kind + " needs the number of heap bytes and a reason", "//sizegen:" + d.kind + " " + example
	}
	d.reason = strings.Join(words[1:], " ")
	if name, ok := strings.CutSuffix(words[0], "()"); ok && d.kind == dirOpaque && token.IsIdentifier(name) {
		d.rule = name
		return "", ""
	}
	n, err := strconv.ParseUint(words[0], 10, 32)
	if err != nil {
		return strconv.Quote(words[0]) + " is not a number of bytes", "//sizegen:" + d.kind + " " + example
	}
	d.size = n
	return "", ""
}

// parseNamed reads a directive for the field or type that it names.
func (r *directiveReader) parseNamed(c *ast.Comment, name, text string) {
	const example = "//sizegen:field example.com/pkg.Type.Field size 48 the captured state"
	kind, _, _ := strings.Cut(text, " ")
	if name == "" || !slices.Contains([]string{dirSize, dirEach, dirOpaque, dirShared, dirInside, dirTypes}, kind) {
		r.refuse(c, "field needs path.Type.Field, or several with commas, and then size, each, opaque, shared, inside or types", example)
		return
	}
	d, ok := r.parse(c, text, name)
	if !ok {
		return
	}
	for one := range strings.SplitSeq(name, ",") {
		one = strings.TrimSpace(one)
		key, ok := r.g.nameKey(one, r.file, r.p)
		if !ok {
			r.refuse(c, "there is no type or field "+one+" in the packages that this one depends on", "")
			return
		}
		r.g.dirs.named[key] = append(r.g.dirs.named[key], d)
	}
}

func (r *directiveReader) refuse(c *ast.Comment, why, try string) {
	r.g.problems.add(Problem{Pos: r.g.fset.Position(c.Pos()), What: c.Text, Why: why, Try: try})
}

// nameKey returns path.Type.Field or path.Type for a name whose package is given by its path, by the name of
// an import of file, or not at all for the file's package.
func (g *generator) nameKey(name string, file *ast.File, p *source) (string, bool) {
	if obj := types.Universe.Lookup(name); obj != nil {
		return name, name == "error"
	}
	for i := strings.LastIndexByte(name, '.'); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		if path := g.packagePath(name[:i], file); path != "" && g.declares(path, name[i+1:]) {
			return path + "." + name[i+1:], true
		}
	}
	return p.ImportPath + "." + name, g.declares(p.ImportPath, name)
}

// packagePath returns the path of a package named by path or by its name in file.
func (g *generator) packagePath(name string, file *ast.File) string {
	if g.all[name] != nil {
		return name
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if p := g.all[path]; err == nil && p != nil && (spec.Name != nil && spec.Name.Name == name || spec.Name == nil && p.Types.Name() == name) {
			return path
		}
	}
	return ""
}

// declares reports whether a package has a type, or a struct type with a field: "Type", "Type.Field".
func (g *generator) declares(path, name string) bool {
	name, field, isField := strings.Cut(name, ".")
	tn, ok := g.all[path].Types.Scope().Lookup(name).(*types.TypeName)
	if !ok || !isField {
		return ok
	}
	s, ok := tn.Type().Underlying().(*types.Struct)
	return ok && slices.ContainsFunc(slices.Collect(s.Fields()), func(f *types.Var) bool { return f.Name() == field })
}

// fieldDirective returns the directive for field f of the struct type owner, seen from package from; owner
// may be nil.
func (g *generator) fieldDirective(from *types.Package, owner *types.Named, f *types.Var, kinds ...string) (directive, bool) {
	if d, ok := g.dirs.find(f.Origin().Pos(), kinds...); ok {
		return d, true
	}
	if owner == nil {
		return directive{}, false
	}
	return g.namedDirective(from, typeKey(owner)+"."+f.Name(), kinds...)
}

// typeDirective returns the directive for a defined type, seen from package from.
func (g *generator) typeDirective(from *types.Package, n *types.Named, kinds ...string) (directive, bool) {
	if d, ok := g.dirs.find(n.Obj().Pos(), kinds...); ok {
		return d, true
	}
	return g.namedDirective(from, typeKey(n), kinds...)
}

// namedDirective returns the directive for a name: in package from itself, otherwise anywhere.
func (g *generator) namedDirective(from *types.Package, key string, kinds ...string) (found directive, ok bool) {
	for _, d := range g.dirs.named[key] {
		if slices.Contains(kinds, d.kind) && (!ok || from != nil && d.pkg.ImportPath == from.Path()) {
			found, ok = d, true
		}
	}
	if ok {
		g.usedNamed[found.pos] = true
	}
	return found, ok
}

// typeKey returns path.Type, the name of a defined type in directives.
func typeKey(n *types.Named) string { return qualified(n.Origin()) }
