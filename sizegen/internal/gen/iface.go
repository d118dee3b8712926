package gen

import (
	"cmp"
	"errors"
	"fmt"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// walkEmpty generates a call of the function that walks any interface without methods; it is a function
// because the value may contain further such interfaces. The author of such a field in this module knows its
// dynamic types; a field of another module gets a warning.
func (e *emitter) walkEmpty(x string, t types.Type) {
	if !e.own && !e.listed && e.owner == nil && e.key != "" && e.via.what != "" && e.node != nodeOf(emptyInterface) {
		e.warn("an any of another module: other types than bool, numbers, string, []byte, []string, []any and map[string]any stop the walk; "+
			"where others occur, list them by "+namedStatement(e.key, dirTypes+" …, "+listBasic), "")
	}
	e.call(e.o.walkFunc(t, e.site()), pointerTo(x), emptyInterface)
}

// walkInterface generates a type switch over the possible dynamic types of the interface variable x.
func (e *emitter) walkInterface(x string, t types.Type, u *types.Interface) {
	if u.NumEmbeddeds() > 0 && !u.IsMethodSet() {
		e.refuse("a constraint is not a type of variables", "")
		return
	}
	known, ok := e.dynamicTypes(t, u)
	if !ok {
		return
	}
	e.recordHow("one of " + strconv.Itoa(len(known)) + " types")
	if key := e.dynamicKey(t); key != "" {
		e.o.g.dynamic[key] = known
	}
	v := e.local("v")
	subject := operand(x)
	if n := named(t); n != nil && e.o.g.originals[n] != nil || e.o.g.originalInterfaces[u] != nil || !e.o.g.nameable(e.o.pkg, t) {
		subject = "any(" + x + ")" // a mirror has other methods
	}
	e.printf("switch %s := %s.(type) {\ncase nil:\n", v, subject)
	at, what, own, dir, wasListed := e.at, e.what, e.own, e.dir, e.listed
	e.dir, e.listed = directive{}, true
	var pointers, values bool
	var hidden []types.Type
	for _, d := range known {
		e.what = what + ".(" + short(d) + ")"
		e.leadsTo(d)
		switch {
		case e.o.g.nameable(e.o.pkg, d):
			e.printf("case %s:\n", e.o.typeName(d))
			e.walkDynamic(x, v, d)
		case (!e.o.g.ofMain(d) || isInstance(d)) && hiddenName(d) != "":
			hidden = append(hidden, d)
		case e.o.dynamicMethod(e, d):
			_, p := d.(*types.Pointer)
			pointers, values = pointers || p, values || !p
		}
	}
	e.at, e.what, e.own, e.dir = at, what, own, dir
	defer func() { e.listed = wasListed }()
	// Types that this package must not import have generated methods.
	if pointers {
		e.printf("case interface{ WalkHeapPointer(*%s, any) }:\n%s.WalkHeapPointer(w, %s)\n", e.o.heapsize("Walk"), v, v)
	}
	if values {
		e.printf("case interface{ WalkHeapValue(*%s, any, %s) }:\n%s.WalkHeapValue(w, %s, %s(%s))\n",
			e.o.heapsize("Walk"), e.o.unsafe("Pointer"), v, v, e.o.unsafe("Pointer"), pointerTo(x))
	}
	e.printf("default:\n")
	if len(hidden) > 0 {
		e.printf("switch w.TypeName(%s) {\n", v)
		for _, d := range hidden {
			e.what = what + ".(" + short(d) + ")"
			e.printf("case %q:\n", hiddenName(d))
			e.walkHidden(x, v, d)
		}
		e.what = what
		e.printf("default:\nw.Unknown(%q, %s)\n}\n}\n", e.what, v)
		return
	}
	e.printf("w.Unknown(%q, %s)\n}\n", e.what, v)
}

// dynamicKey returns the name of the field if a directive lists its dynamic types, otherwise the name of the
// interface t, or "" if t has none.
func (e *emitter) dynamicKey(t types.Type) string {
	n := named(t)
	switch {
	case e.dir.kind != "":
		return e.key
	case n != nil:
		return typeKey(e.o.g.original(n))
	case t == emptyInterface:
		return "any"
	}
	return ""
}

// walkDynamic walks v, the dynamic value of type d in the interface variable x.
func (e *emitter) walkDynamic(x, v string, d types.Type) {
	if p, ok := d.Underlying().(*types.Pointer); ok {
		e.walkPointer(v, p)
		return
	}
	if pointerShaped(d) {
		e.printf("%s", e.captureAt(false, func() { e.walk(v, d) }))
		return
	}
	if zeroSize(d) {
		return
	}
	box := fmt.Sprintf("%s(%s)", e.o.unsafe("Pointer"), pointerTo(x))
	if !replaced(d) {
		e.recordHow("box")
		call := fmt.Sprintf("w.Box(%s, %s(%s), %t)", box, e.o.unsafe("Sizeof"), v, hasPointers(d))
		if inner := e.captureAt(false, func() { e.walk(v, d) }); inner != "" {
			e.printf("if %s {\n%s}\n", call, inner)
		} else {
			e.printf("%s\n", call)
		}
		return
	}
	text := isString(d)
	if text {
		e.printf("if %s != \"\" {\n", v) // an empty string has no box
	}
	e.recordHow("box")
	c := e.local("c")
	e.printf("if %s := %s(w, %s, %s, %t); %s != nil {\n%s}\n", c, e.o.heapsize("Unbox"), box, v, hasPointers(d), c,
		e.captureHeap(func() { e.walk("*"+c, d) }))
	if text {
		e.printf("}\n")
	}
}

func isString(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// openTypes are the dynamic types walked in an empty interface without a directive.
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

// Keywords in the list of a types directive.
const (
	listBasic = "basic" // the types that an any without a directive may hold
	listAll   = "all"   // all implementations that sizegen finds, unexported ones included
)

// dynamicTypes returns the possible dynamic types of an interface variable, in a fixed order.
func (e *emitter) dynamicTypes(t types.Type, u *types.Interface) ([]types.Type, bool) {
	n := named(t)
	if n != nil {
		n = e.o.g.original(n)
		t, u = n, n.Underlying().(*types.Interface)
	} else if original := e.o.g.originalInterfaces[u]; original != nil {
		t, u = original, original
	}
	dir := e.dir
	if n != nil && dir.kind == "" {
		dir, _ = e.o.g.typeDirective(e.o.pkg, n, dirTypes)
	}
	switch {
	case dir.kind != "":
		return e.listedTypes(dir, t, u)
	case u.Empty():
		return openTypes, true
	case e.o.g.openEnded(e.o.pkg, t):
		if n != nil {
			e.refuseInterface(n)
		} else {
			e.refuse(fmt.Sprintf("the types behind %s cannot all be found", short(t)), "shared it belongs to another owner")
		}
		return nil, false
	}
	found, hidden := e.o.g.implementers(e.o.pkg, t, u)
	switch {
	case len(found) == 0 && len(hidden) > 0:
		say := dirTypes + " " + listAll
		if slices.ContainsFunc(hidden, func(d types.Type) bool { return hiddenName(d) == "" }) {
			say = "shared it belongs to another owner"
		}
		e.refuse(fmt.Sprintf("%s cannot be named in package %s", listed3(hidden), e.o.pkg.Name()), say)
		return nil, false
	case len(found) == 0:
		e.refuse("no type that can be named here implements it", "shared nothing of this module is behind it")
		return nil, false
	}
	var why []string
	if len(hidden) > 0 {
		why = append(why, fmt.Sprintf("%s cannot be named in package %s: a value of %s stops the walk",
			listed3(hidden), e.o.pkg.Name(), map[bool]string{true: "it", false: "them"}[len(hidden) == 1]))
	}
	if open := e.o.g.openImplementers(t, u); len(open) > 0 {
		why = append(why, fmt.Sprintf("not all instances of %s can be found: a value of another stops the walk", listed3(open)))
	}
	if len(why) > 0 {
		e.warn(strings.Join(why, "; "), dirTypes+" "+listAll)
	}
	return found, true
}

// listed3 names at most three of the types.
func listed3(all []types.Type) string {
	var b strings.Builder
	for i, t := range all {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(short(t))
	}
	return b.String()
}

// typeList returns types in the form of a directive in this package: by import path.
func (o *output) typeList(all []types.Type) string {
	names := make([]string, 0, len(all))
	for _, t := range all {
		names = append(names, types.TypeString(t, types.RelativeTo(o.pkg)))
	}
	return strings.Join(names, ", ")
}

// refuseInterface reports an interface of the language or the standard library, once for all fields of that
// type.
func (e *emitter) refuseInterface(n *types.Named) {
	key, own, what := e.key, e.own, e.what
	defer func() { e.key, e.own, e.what = key, own, what }()
	e.key, e.own = typeKey(n), false
	e.refuse(fmt.Sprintf("the types behind %s cannot all be found", short(n)), e.listFor(n))
}

// manyThere is the number of implementations in the package of an interface that make it probable that no others
// occur, as for go/types.Type.
const manyThere = 5

// valuesOfStandard are the documented types behind empty interfaces of the standard library.
//

var valuesOfStandard = map[string]string{
	"database/sql/driver.Value": "time.Time, " + listBasic,
	"encoding/json.Token":       "encoding/json.Delim, encoding/json.Number, " + listBasic,
	"encoding/xml.Token":        "encoding/xml.StartElement, encoding/xml.EndElement, encoding/xml.CharData, encoding/xml.Comment, encoding/xml.ProcInst, encoding/xml.Directive",
}

// listFor returns the directive that is suggested for an interface of the language or the standard library.
func (e *emitter) listFor(n *types.Named) string {
	u := n.Underlying().(*types.Interface)
	if u.Empty() {
		if list := valuesOfStandard[qualified(n)]; list != "" {
			return dirTypes + " " + list
		}
		return ""
	}
	known, hidden := e.o.g.implementers(e.o.pkg, n, u)
	own := slices.DeleteFunc(slices.Clone(known), func(d types.Type) bool { return !e.o.g.ofMain(d) })
	switch {
	case len(known)-len(own) >= manyThere && !slices.ContainsFunc(hidden, func(d types.Type) bool { return hiddenName(d) == "" }):
		return dirTypes + " " + listAll
	case len(own) > 0 && len(own) <= 16:
		return dirTypes + " " + e.o.typeList(own)
	}
	return "shared it belongs to another owner"
}

// openEnded reports whether t is an interface of the language or the standard library without a directive,
// which any package may implement: unknown implementations are the rule there.
func (g *generator) openEnded(from *types.Package, t types.Type) bool {
	if n := named(t); n != nil {
		if _, ok := g.typeDirective(from, n, dirTypes); ok {
			return false
		}
	}
	if u, ok := t.Underlying().(*types.Interface); ok && sealed(u) {
		return false
	}
	home := homeOf(t)
	return home == nil || g.modulePath(home.Path()) == ""
}

// homeOf returns the package of an interface; for one without a name, the package of a method. It returns nil
// for interfaces of the language.
func homeOf(t types.Type) *types.Package {
	if n := named(t); n != nil {
		return n.Obj().Pkg()
	}
	if u, ok := t.Underlying().(*types.Interface); ok {
		for m := range u.Methods() {
			return m.Pkg()
		}
	}
	return nil
}

// listedTypes resolves the types of a //sizegen:types directive in its scope.
func (e *emitter) listedTypes(dir directive, t types.Type, u *types.Interface) ([]types.Type, bool) {
	var out []types.Type
	add := func(d types.Type) {
		if !slices.ContainsFunc(out, func(o types.Type) bool { return types.Identical(o, d) }) {
			out = append(out, d)
		}
	}
	for _, text := range dir.list {
		switch {
		case text == listBasic && u.Empty():
			for _, d := range openTypes {
				add(d)
			}
			continue
		case text == listAll && !u.Empty():
			found, hidden := e.o.g.implementers(e.o.pkg, t, u)
			for _, d := range append(found, hidden...) {
				add(d)
			}
			continue
		}
		why := ""
		d, err := e.o.g.resolve(dir, text)
		switch {
		case err != nil:
			why = err.Error()
		case !types.Implements(d, u):
			why = "it does not implement " + short(t)
		case !e.o.g.nameable(e.o.pkg, d) && !e.o.g.ofMain(d) && hiddenName(d) == "":
			why = "it cannot be named in package " + e.o.pkg.Name()
		}
		if why != "" {
			e.o.g.problems.add(Problem{Pos: e.o.g.position(dir.pos), What: "//sizegen:types " + text, Why: why})
			return nil, false
		}
		add(d)
	}
	return out, true
}

// resolve evaluates a type expression in the scope of the directive's file, in which a type may also be named
// by the path of its package.
func (g *generator) resolve(d directive, text string) (types.Type, error) {
	if tv, err := types.Eval(d.pkg.Fset, d.pkg.Types, d.file.Name.End(), text); err == nil && tv.IsType() {
		return tv.Type, nil
	}
	if rest, ok := strings.CutPrefix(text, "*"); ok {
		t, err := g.resolve(d, rest)
		if err != nil {
			return nil, err
		}
		return types.NewPointer(t), nil
	}
	if rest, ok := strings.CutPrefix(text, "[]"); ok {
		t, err := g.resolve(d, rest)
		if err != nil {
			return nil, err
		}
		return types.NewSlice(t), nil
	}
	if i := strings.LastIndexByte(text, '.'); i > 0 {
		if path := g.packagePath(text[:i], d.file); path != "" {
			if tn, ok := g.all[path].Types.Scope().Lookup(text[i+1:]).(*types.TypeName); ok {
				return tn.Type(), nil
			}
		}
	}
	return nil, errors.New("there is no such type in this file's scope")
}

// searched reports whether the implementations of u, the interface t, are searched in a package: one of this
// module or, if u is sealed or of the standard library, its package, otherwise one of the module that declares t.
func (g *generator) searched(u *types.Interface, t types.Type, path string) bool {
	if g.inModule(path) {
		return true
	}
	if sealed(u) {
		return g.sealedIn(u, path)
	}
	home := homeOf(t)
	if home == nil || g.modulePath(home.Path()) == "" {
		return home != nil && path == home.Path()
	}
	return g.modulePath(path) == g.modulePath(home.Path())
}

// implementers returns the types that implement u, pointers and values, declared in this module or in the
// module that declares the interface, and hidden, those of that module that package from cannot name. For a
// sealed interface it searches its package; types elsewhere have to embed it or one of those.
func (g *generator) implementers(from *types.Package, t types.Type, u *types.Interface) (found, hidden []types.Type) {
	for path := range g.all {
		if !g.searched(u, t, path) {
			continue
		}
		own := g.inModule(path)
		for _, c := range g.concreteTypes(path) {
			if types.IsInterface(c) || isPointer(c) {
				continue
			}
			list := &found
			if !own && !g.nameable(from, c) {
				list = &hidden
			}
			if types.Implements(c, u) {
				*list = append(*list, c)
			}
			if p := types.NewPointer(c); types.Implements(p, u) {
				*list = append(*list, p)
			}
		}
	}
	for _, list := range [][]types.Type{found, hidden} {
		slices.SortFunc(list, func(a, b types.Type) int {
			return cmp.Compare(types.TypeString(a, nil), types.TypeString(b, nil))
		})
	}
	return found, hidden
}

// dynamicMethod generates, in the package of the type behind d, which this package cannot name, the method by
// which its values are walked.
func (o *output) dynamicMethod(e *emitter, d types.Type) bool {
	elem := d
	p, pointer := d.(*types.Pointer)
	if pointer {
		elem = p.Elem()
	}
	n := named(elem)
	switch {
	case n == nil || n.Obj().Pkg() == nil || !o.g.inModule(n.Obj().Pkg().Path()) || !e.ownMethod(n):
		e.refuse(fmt.Sprintf("%s cannot be named in package %s", short(d), o.pkg.Name()), "shared it belongs to another owner")
		return false
	case o.g.targets[n.Obj().Pkg().Path()] == nil:
		e.refuse(fmt.Sprintf("it is in package %s, which is not among the packages given: name it too, or ./...", n.Obj().Pkg().Path()), "")
		return false
	}
	other := o.g.output(n.Obj().Pkg())
	method := other.dynamicMethodFor(n, pointer)
	e.lead(n, method)
	return true
}

// dynamicMethodFor generates WalkHeapPointer or WalkHeapValue, and returns its node in the graph of calls.
func (o *output) dynamicMethodFor(n *types.Named, pointer bool) string {
	key := n.Obj().Name()
	if pointer {
		key = "*" + key
	}
	node := o.node(key)
	if o.dynamic[key] {
		return node
	}
	o.dynamic[key] = true
	name := n.Obj().Name()
	if method := map[bool]string{true: "WalkHeapPointer", false: "WalkHeapValue"}[pointer]; o.refuseMember(n, method, renameMember) {
		return node
	}
	e := &emitter{o: o, fn: node, node: nodeOf(n), at: n.Obj().Pos(), what: short(n), own: true}
	walk := o.heapsize("Walk")
	if pointer {
		inner := e.capture(func() { e.walkPointer("p", types.NewPointer(n)) })
		o.declare(declMethod, name+".WalkHeapPointer", fmt.Sprintf(
			"// WalkHeapPointer leads w over *p where an interface of another package holds p: self. It\n"+
				"// does not speak for types that p is embedded in.\n"+
				"func (p *%[1]s) WalkHeapPointer(w *%[2]s, self any) {\n"+
				"if _, ok := self.(*%[1]s); !ok {\nw.Unknown(%[4]q, self)\n}\n%[3]s}\n",
			name, walk, inner, short(n)))
		return node
	}
	var b strings.Builder
	fmt.Fprintf(&b, "if _, ok := self.(%s); !ok {\nw.Unknown(%q, self)\n}\n", name, short(n))
	switch {
	case pointerShaped(n):
		b.WriteString(e.capture(func() { e.walk("v", n) }))
	case zeroSize(n):
	case !replaced(n):
		call := fmt.Sprintf("w.Box(box, %s(v), %t)", o.unsafe("Sizeof"), hasPointers(n))
		if inner := e.capture(func() { e.walk("v", n) }); inner != "" {
			fmt.Fprintf(&b, "if %s {\n%s}\n", call, inner)
		} else {
			fmt.Fprintf(&b, "%s\n", call)
		}
	default:
		if isString(n) {
			b.WriteString("if v == \"\" {\nreturn\n}\n")
		}
		fmt.Fprintf(&b, "if c := %s(w, box, v, %t); c != nil {\n%s}\n", o.heapsize("Unbox"), hasPointers(n),
			e.captureHeap(func() { e.walk("*c", n) }))
	}
	o.declare(declMethod, name+".WalkHeapValue", fmt.Sprintf(
		"// WalkHeapValue leads w over v, which an interface of another package holds: self, in the\n"+
			"// variable at box. It does not speak for types that v is embedded in.\n"+
			"func (v %s) WalkHeapValue(w *%s, self any, box %s) {\n%s}\n",
		name, walk, o.unsafe("Pointer"), b.String()))
	return node
}
