package gen

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// An explained type describes the walk of a type, field by field.
type explained struct {
	name   string
	fields []*explainedField
}

// An explainedField is one field, or the value itself of a type that is not a struct.
type explainedField struct {
	name, typ string
	how       []string // how it is counted, or why not
	to        []types.Type
}

// beginType starts the explanation of the type being walked.
func (e *emitter) beginType() {
	t := &explained{name: e.what}
	e.o.g.trees[e.node] = t
	t.fields = []*explainedField{{}}
}

// beginField starts the explanation of one of its fields.
func (e *emitter) beginField(f *types.Var) {
	t := e.o.g.trees[e.node]
	if t == nil {
		return
	}
	if !e.o.g.silent(e.o.pkg, f.Type()) {
		e.o.g.fields[e.node]++
	}
	typ := f.Type()
	if original := e.o.g.fieldOf(e.owner, "."+f.Name()); original != nil {
		typ = original
	}
	t.fields = append(t.fields, &explainedField{name: f.Name(), typ: short(typ)})
}

// recordHow records the treatment of the current field.
func (e *emitter) recordHow(how string) {
	if f := e.currentField(); f != nil && !slices.Contains(f.how, how) {
		f.how = append(f.how, how)
	}
}

// leadsTo records a type that the current field leads to.
func (e *emitter) leadsTo(t types.Type) {
	if f := e.currentField(); f != nil && !slices.ContainsFunc(f.to, func(have types.Type) bool { return types.Identical(have, t) }) {
		f.to = append(f.to, t)
	}
}

func (e *emitter) currentField() *explainedField {
	t := e.o.g.trees[e.node]
	if t == nil {
		return nil
	}
	return t.fields[len(t.fields)-1]
}

// Explain returns the walk of a type as a tree: where bytes are counted, shared or skipped. The type is named
// as in Config.Roots, and may be in any module that the packages depend on.
func Explain(cfg Config, name string) (string, []Problem, error) {
	g, err := prepare(cfg)
	if err != nil {
		return "", nil, err
	}
	n := g.lookup(name)
	if i := strings.LastIndexByte(name, '.'); n == nil && i > 0 {
		// A package that the others do not import.
		cfg.Patterns = append(slices.Clone(cfg.Patterns), name[:i])
		if with, err := prepare(cfg); err == nil {
			g, n = with, with.lookup(name)
		}
	}
	if n == nil {
		return "", nil, fmt.Errorf("explain %s: no such type in the packages given or in those that they import: want path.Type, such as net/url.URL", name)
	}
	if err := g.walkRoots(nil); err != nil {
		return "", nil, err
	}
	from := n.Obj().Pkg()
	if g.targets[from.Path()] == nil {
		for _, p := range g.targets {
			if g.dependsOn(p.ImportPath, from.Path()) && (g.targets[from.Path()] == nil || p.ImportPath < from.Path()) {
				from = p.Types
			}
		}
	}
	if g.trees[nodeOf(n)] == nil && !g.silent(from, n) {
		g.rootNodes = append(g.rootNodes, nodeOf(n))
		e := &emitter{o: g.output(from), fn: "explain", node: "explain", at: n.Obj().Pos(), what: short(n)}
		e.walk("*p", n)
		g.finishWork()
	}
	g.merge()
	var b strings.Builder
	x := explainer{g: g, b: &b, seen: make(map[string]bool)}
	fmt.Fprintf(&b, "%s\n", short(n))
	x.parts(n, 1)
	return b.String(), g.problems.sorted(cfg.Dir), nil
}

// lookup returns the defined type path.Type.
func (g *generator) lookup(name string) *types.Named {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return nil
	}
	for path, p := range g.all {
		if path != name[:i] && (p.Types.Name() != name[:i] || g.targets[path] == nil) {
			continue
		}
		if tn, ok := p.Types.Scope().Lookup(name[i+1:]).(*types.TypeName); ok {
			return named(tn.Type())
		}
	}
	return nil
}

// An explainer prints trees.
type explainer struct {
	g    *generator
	b    *strings.Builder
	seen map[string]bool
}

// parts prints the walk of a t, once for each type.
func (x *explainer) parts(t types.Type, depth int) {
	node := x.node(t)
	tree := x.g.trees[node]
	if tree == nil || x.seen[node] {
		return
	}
	x.seen[node] = true
	for i, f := range tree.fields {
		if i == 0 {
			if len(f.how) > 0 {
				fmt.Fprintf(x.b, "%s%s\n", strings.Repeat("  ", depth), strings.Join(f.how, ", "))
			}
			x.targets(f, depth)
			continue
		}
		how := f.how
		to := f.to
		if len(to) == 1 {
			if plain := x.plain(to[0]); plain != nil {
				how, to = append(slices.Clone(how), plain...), nil
			}
		}
		if len(how) == 0 && len(to) == 0 {
			how = []string{"no pointers"}
		}
		line := f.name + " " + f.typ
		if len(how) > 0 {
			line += ": " + strings.Join(how, ", ")
		}
		fmt.Fprintf(x.b, "%s%s\n", strings.Repeat("  ", depth), line)
		x.targets(&explainedField{typ: f.typ, to: to}, depth+1)
	}
}

// plain returns the explanation of a type whose walk leads to no other, nil for structs and others.
func (x *explainer) plain(t types.Type) []string {
	tree := x.g.trees[x.node(t)]
	if tree == nil || len(tree.fields) != 1 || len(tree.fields[0].to) > 0 {
		return nil
	}
	return tree.fields[0].how
}

// node returns the name of the tree of t or, for a pointer, of its element type.
func (x *explainer) node(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n := named(t); n != nil {
		t = x.g.original(n)
	}
	return nodeOf(t)
}

// targets prints the types that a field leads to, those without a tree on one line. It does not repeat the
// name of the field's type.
func (x *explainer) targets(f *explainedField, depth int) {
	indent := strings.Repeat("  ", depth)
	var plain []string
	for _, t := range f.to {
		node := x.node(t)
		switch name := short(t); {
		case x.g.trees[node] == nil:
			plain = append(plain, name)
		case x.seen[node]:
			fmt.Fprintf(x.b, "%s%s (above)\n", indent, name)
		case len(f.to) == 1 && strings.TrimLeft(f.typ, "*") == strings.TrimLeft(name, "*"):
			x.parts(t, depth)
		default:
			fmt.Fprintf(x.b, "%s%s\n", indent, name)
			x.parts(t, depth+1)
		}
	}
	if len(plain) > 0 {
		fmt.Fprintf(x.b, "%s%s\n", indent, strings.Join(plain, ", "))
	}
}
