package gen

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/types"
	"slices"
	"strings"
)

// walkInterface writes a type switch over what the interface variable x can hold.
func (e *emitter) walkInterface(x string, t types.Type, u *types.Interface) {
	if u.NumEmbeddeds() > 0 && !u.IsMethodSet() {
		e.refuse("a constraint is not a type of variables", "")
		return
	}
	known, ok := e.dynamicTypes(t, u)
	if !ok {
		return
	}
	v := e.local("v")
	e.printf("switch %s := %s.(type) {\ncase nil:\n", v, operand(x))
	at, what, dir := e.at, e.what, e.dir
	e.dir = directive{}
	var pointers, values bool
	for _, d := range known {
		e.at, e.what = at, what+".("+short(d)+")"
		switch {
		case e.o.g.nameable(e.o.pkg, d):
			e.printf("case %s:\n", e.o.typeName(d))
			e.walkDynamic(x, v, d)
		case e.o.dynamicMethod(e, d):
			_, p := d.(*types.Pointer)
			pointers, values = pointers || p, values || !p
		}
	}
	e.at, e.what, e.dir = at, what, dir
	// Types that this package must not import bring methods of their own.
	if pointers {
		e.printf("case interface{ WalkHeapPointer(*%s, any) }:\n%s.WalkHeapPointer(w, %s)\n", e.o.heapsize("Walk"), v, v)
	}
	if values {
		e.printf("case interface{ WalkHeapValue(*%s, any, %s) }:\n%s.WalkHeapValue(w, %s, %s(%s))\n",
			e.o.heapsize("Walk"), e.o.unsafe("Pointer"), v, v, e.o.unsafe("Pointer"), pointerTo(x))
	}
	e.printf("default:\nw.Unknown(%q, %s)\n}\n", e.what, v)
}

// walkDynamic walks v, the dynamic value of type d in the interface variable x.
func (e *emitter) walkDynamic(x, v string, d types.Type) {
	if p, ok := d.Underlying().(*types.Pointer); ok {
		e.walkPointer(v, p)
		return
	}
	if pointerShaped(d) {
		e.walk(v, d)
		return
	}
	if zeroSize(d) {
		return
	}
	box := fmt.Sprintf("%s(%s)", e.o.unsafe("Pointer"), pointerTo(x))
	if !replaced(d) {
		call := fmt.Sprintf("w.Box(%s, %s(%s), %t)", box, e.o.unsafe("Sizeof"), v, hasPointers(d))
		e.block("if "+call+" {\n", func() { e.walk(v, d) })
		return
	}
	text := isString(d)
	if text {
		e.printf("if %s != \"\" {\n", v) // an empty string has no box
	}
	c := e.local("c")
	e.printf("if %s := %s(w, %s, %s, %t); %s != nil {\n", c, e.o.heapsize("Unbox"), box, v, hasPointers(d), c)
	e.walk("*"+c, d)
	e.printf("}\n")
	if text {
		e.printf("}\n")
	}
}

func isString(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// openTypes are the dynamic types walked in an empty interface of which nothing is said.
var openTypes = []types.Type{
	types.Typ[types.Bool],
	types.Typ[types.Int], types.Typ[types.Int8], types.Typ[types.Int16], types.Typ[types.Int32], types.Typ[types.Int64],
	types.Typ[types.Uint], types.Typ[types.Uint8], types.Typ[types.Uint16], types.Typ[types.Uint32], types.Typ[types.Uint64],
	types.Typ[types.Float32], types.Typ[types.Float64],
	types.Typ[types.String],
	types.NewSlice(types.Typ[types.Uint8]),
	types.NewSlice(types.Typ[types.String]),
	types.NewSlice(emptyInterface),
	types.NewMap(types.Typ[types.String], emptyInterface),
}

//nolint:gochecknoglobals // a constant of go/types
var emptyInterface = types.Universe.Lookup("any").Type()

// dynamicTypes returns what an interface variable can hold, in a fixed order.
func (e *emitter) dynamicTypes(t types.Type, u *types.Interface) ([]types.Type, bool) {
	dir := e.dir
	if n := named(t); n != nil && dir.kind == "" {
		dir, _ = e.o.g.dirs.find(n.Obj().Pos(), dirTypes)
	}
	if dir.kind != "" {
		return e.listedTypes(dir, t, u)
	}
	if u.Empty() {
		return openTypes, true
	}
	n := named(t)
	if n == nil || e.o.g.openEnded(n) {
		e.refuse(fmt.Sprintf("the types behind %s cannot all be found", short(t)), "//sizegen:types *A B …, or //sizegen:shared reason")
		return nil, false
	}
	found := e.o.g.implementers(e.o.pkg, n, u)
	if len(found) == 0 {
		e.refuse(fmt.Sprintf("nothing in this module implements %s", short(t)), "//sizegen:types *A B …")
		return nil, false
	}
	return found, true
}

// openEnded reports whether n, an interface, is one of the language's or the standard
// library's of which nothing is said: implementations that cannot be found are the rule there.
func (g *generator) openEnded(n *types.Named) bool {
	if _, ok := g.dirs.find(n.Obj().Pos(), dirTypes); ok {
		return false
	}
	return n.Obj().Pkg() == nil || g.modulePath(n.Obj().Pkg().Path()) == ""
}

// listedTypes resolves the types of a //sizegen:types directive where it stands.
func (e *emitter) listedTypes(dir directive, t types.Type, u *types.Interface) ([]types.Type, bool) {
	var out []types.Type
	for _, text := range dir.list {
		d, err := dir.resolve(text)
		if err != nil {
			e.o.g.problems.add(Problem{e.o.g.position(dir.pos), "//sizegen:types " + text, err.Error(), "a type as the file would write it"})
			return nil, false
		}
		if !types.Implements(d, u) {
			e.o.g.problems.add(Problem{e.o.g.position(dir.pos), "//sizegen:types " + text, "it does not implement " + short(t), ""})
			return nil, false
		}
		if !slices.ContainsFunc(out, func(o types.Type) bool { return types.Identical(o, d) }) {
			out = append(out, d)
		}
	}
	return out, true
}

// resolve evaluates a type expression in the scope of the directive's file.
func (d directive) resolve(text string) (types.Type, error) {
	if _, err := parser.ParseExpr(text); err != nil {
		return nil, fmt.Errorf("it is no type")
	}
	tv, err := types.Eval(d.pkg.Fset, d.pkg.Types, d.file.Name.End(), text)
	if err != nil || !tv.IsType() {
		return nil, fmt.Errorf("there is no such type in this file's scope")
	}
	return tv.Type, nil
}

// implementers returns the types that implement u, pointers and values, declared in this
// module or in the module that declares the interface.
func (g *generator) implementers(from *types.Package, n *types.Named, u *types.Interface) []types.Type {
	home := g.modulePath(n.Obj().Pkg().Path())
	var out []types.Type
	for path := range g.all {
		own := g.inModule(path)
		if !own && g.modulePath(path) != home {
			continue
		}
		for _, c := range g.concreteTypes(path) {
			if types.IsInterface(c) || isPointer(c) {
				continue
			}
			value, pointer := types.Implements(c, u), types.Implements(types.NewPointer(c), u)
			if !own && !g.nameable(from, c) {
				continue // another module's, and hidden: met at run time, if ever
			}
			if value {
				out = append(out, c)
			}
			if pointer {
				out = append(out, types.NewPointer(c))
			}
		}
	}
	slices.SortFunc(out, func(a, b types.Type) int {
		return cmp.Compare(types.TypeString(a, nil), types.TypeString(b, nil))
	})
	return out
}

// concreteTypes returns the defined types of a package: what it declares, and the instances
// of its generic types that this module's sources write.
func (g *generator) concreteTypes(path string) []*types.Named {
	if g.instances == nil {
		g.findInstances()
	}
	var out []*types.Named
	for _, n := range declaredTypes(g.all[path].Types) {
		if n.TypeParams().Len() == 0 {
			out = append(out, n)
		}
	}
	return append(out, g.instances[path]...)
}

func (g *generator) findInstances() {
	g.instances = make(map[string][]*types.Named)
	seen := make(map[string]bool)
	for _, path := range g.modulePackages() {
		for _, inst := range g.all[path].Instances {
			n, ok := inst.Type.(*types.Named)
			if !ok || n.Obj().Pkg() == nil || !closed(n) {
				continue
			}
			if key := types.TypeString(n, nil); !seen[key] {
				seen[key] = true
				g.instances[n.Obj().Pkg().Path()] = append(g.instances[n.Obj().Pkg().Path()], n)
			}
		}
	}
}

// closed reports whether no type argument of t is open.
func closed(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return false
	case *types.Named:
		return every(t.TypeArgs().Types(), closed)
	case *types.Map:
		return closed(t.Key()) && closed(t.Elem())
	case interface{ Elem() types.Type }:
		return closed(t.Elem())
	case *types.Struct:
		return every(t.Fields(), func(f *types.Var) bool { return closed(f.Type()) })
	case *types.Signature:
		return closed(t.Params()) && closed(t.Results())
	case *types.Tuple:
		return every(t.Variables(), func(v *types.Var) bool { return closed(v.Type()) })
	}
	return true
}

// dynamicMethod gives the type behind d, which this package cannot name, the method by which
// its values are walked, in its own package.
func (o *output) dynamicMethod(e *emitter, d types.Type) bool {
	elem := d
	p, pointer := d.(*types.Pointer)
	if pointer {
		elem = p.Elem()
	}
	n := named(elem)
	switch {
	case n == nil || n.Obj().Pkg() == nil || !e.ownMethod(n) || !o.g.inModule(n.Obj().Pkg().Path()):
		e.refuse(fmt.Sprintf("it cannot be named in package %s", o.pkg.Name()), "//sizegen:types, to name those that occur")
		return false
	case o.g.targets[n.Obj().Pkg().Path()] == nil:
		e.refuse(fmt.Sprintf("it is in package %s, which is not among the packages given", n.Obj().Pkg().Path()), "name that package too, or ./...")
		return false
	}
	o.g.output(n.Obj().Pkg()).dynamicMethodFor(n, pointer)
	return true
}

// dynamicMethodFor writes WalkHeapPointer or WalkHeapValue.
func (o *output) dynamicMethodFor(n *types.Named, pointer bool) {
	key := n.Obj().Name()
	if pointer {
		key = "*" + key
	}
	if o.dynamic[key] {
		return
	}
	o.dynamic[key] = true
	name := n.Obj().Name()
	e := &emitter{o: o, at: n.Obj().Pos(), what: short(n), owner: n}
	walk := o.heapsize("Walk")
	if pointer {
		inner := e.capture(func() { e.walkPointer("p", types.NewPointer(n)) })
		o.declare(declMethod, name+".WalkHeapPointer", fmt.Sprintf(
			"// WalkHeapPointer leads w over *p where an interface of another package holds p: self. It\n"+
				"// does not speak for types that p is embedded in.\n"+
				"func (p *%[1]s) WalkHeapPointer(w *%[2]s, self any) {\n"+
				"if _, ok := self.(*%[1]s); !ok {\nw.Unknown(%[4]q, self)\n}\n%[3]s}\n",
			name, walk, inner, short(n)))
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "if _, ok := self.(%s); !ok {\nw.Unknown(%q, self)\n}\n", name, short(n))
	switch {
	case pointerShaped(n):
		b.WriteString(e.capture(func() { e.walk("v", n) }))
	case zeroSize(n):
	case !replaced(n):
		b.WriteString(e.capture(func() {
			e.block(fmt.Sprintf("if w.Box(box, %s(v), %t) {\n", o.unsafe("Sizeof"), hasPointers(n)), func() { e.walk("v", n) })
		}))
	default:
		if isString(n) {
			b.WriteString("if v == \"\" {\nreturn\n}\n")
		}
		fmt.Fprintf(&b, "if c := %s(w, box, v, %t); c != nil {\n%s}\n", o.heapsize("Unbox"), hasPointers(n),
			e.capture(func() { e.walk("*c", n) }))
	}
	o.declare(declMethod, name+".WalkHeapValue", fmt.Sprintf(
		"// WalkHeapValue leads w over v, which an interface of another package holds: self, in the\n"+
			"// variable at box. It does not speak for types that v is embedded in.\n"+
			"func (v %s) WalkHeapValue(w *%s, self any, box %s) {\n%s}\n",
		name, walk, o.unsafe("Pointer"), b.String()))
}
