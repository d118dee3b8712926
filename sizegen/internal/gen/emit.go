package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"
)

// An emitter writes the body of one function.
type emitter struct {
	o     *output
	b     strings.Builder
	vars  int
	owner *types.Named // whose parts are walked, nil outside of a defined type
	at    token.Pos    // the field or type being walked, for problems
	what  string       // the same in words
	dir   directive    // the //sizegen:types said of the field
	via   site         // the field of this module that led to another module's type
}

func (e *emitter) printf(format string, args ...any) {
	fmt.Fprintf(&e.b, format, args...)
}

// local returns a variable name that is new in the function.
func (e *emitter) local(prefix string) string {
	for {
		e.vars++
		if name := fmt.Sprintf("%s%d", prefix, e.vars); !e.o.taken[name] {
			return name
		}
	}
}

// A site is a field or type of this module, where its author can act.
type site struct {
	at   token.Pos
	what string
}

// site returns where e is, or, inside of another module's types, where it came from.
func (e *emitter) site() site {
	if e.via.what != "" {
		return e.via
	}
	return site{e.at, e.what}
}

// refuse notes what cannot be seen. What is another module's can only be answered from here.
func (e *emitter) refuse(why, try string) {
	what := e.what
	if e.via.what != "" {
		what = e.via.what + ": " + e.what
		if e.owner != nil {
			field := e.what[strings.LastIndexByte(e.what, '.')+1:]
			try = fmt.Sprintf("in package %s: //sizegen:field %s size N reason, or shared reason", e.o.pkg.Path(), fieldKey(e.owner, field))
		}
	}
	e.o.g.problems.add(Problem{e.o.g.position(e.site().at), what, why, try})
}

// pointerTo, field and element write expressions on the variable x, which may be "*q".
func pointerTo(x string) string {
	if q, ok := strings.CutPrefix(x, "*"); ok {
		return q
	}
	return "&" + x
}

func field(x, name string) string { return strings.TrimPrefix(x, "*") + "." + name }

func operand(x string) string {
	if strings.HasPrefix(x, "*") {
		return "(" + x + ")"
	}
	return x
}

// walk writes what leads w over all that the variable x of type t holds, x's own bytes not
// included.
func (e *emitter) walk(x string, t types.Type) {
	if t == nil || t == types.Typ[types.Invalid] {
		e.refuse("its type does not type-check", "go vet the package")
		return
	}
	if e.o.g.silent(t) {
		return
	}
	if n := named(t); n != nil && !(e.dir.kind != "" && types.IsInterface(n)) {
		e.walkNamed(x, n)
		return
	}
	e.walkUnderlying(x, t)
}

// walkNamed walks a value of a defined type through that type's own function.
func (e *emitter) walkNamed(x string, n *types.Named) {
	if d, ok := e.o.g.dirs.find(n.Obj().Pos(), dirShared, dirSize); ok {
		if d.kind == dirSize {
			e.printf("w.Add(%d)\n", d.size)
		}
		return
	}
	if original := e.o.mirrored[n]; original != nil && holdsNothing(original) || holdsNothing(n) || e.walkKnown(x, n) {
		return
	}
	pkg := n.Obj().Pkg()
	if pkg == nil || pkg == e.o.pkg || !e.ownMethod(n) {
		if !e.o.g.nameable(e.o.pkg, n) {
			e.refuse(fmt.Sprintf("its type %s cannot be named in package %s", short(n), e.o.pkg.Name()),
				"export it, or say //sizegen:size N reason of the field")
			return
		}
		if types.IsInterface(n) && e.o.g.openEnded(n) {
			e.refuse(fmt.Sprintf("the types behind %s cannot all be found", short(n)), "//sizegen:types *A B …, or //sizegen:shared reason")
			return
		}
		e.printf("%s(w, %s)\n", e.o.walkFunc(n, e.site()), pointerTo(x))
		return
	}
	// Another package of this module: its own output has the method.
	if e.o.g.targets[pkg.Path()] == nil {
		e.refuse(fmt.Sprintf("its type %s is in package %s, which is not among the packages given", short(n), pkg.Path()),
			"name that package too, or ./...")
		return
	}
	e.o.g.output(pkg).partsMethod(n)
	e.printf("%s\n", field(x, "WalkHeapParts(w)"))
}

// ownMethod reports whether n can be given methods in its own package of this module.
func (e *emitter) ownMethod(n *types.Named) bool {
	return e.o.g.inModule(n.Obj().Pkg().Path()) && n.TypeArgs().Len() == 0 &&
		n.Obj().Parent() == n.Obj().Pkg().Scope() && !types.IsInterface(n) && !isPointer(n)
}

// walkKnown handles the types of the standard library whose state is known by contract.
func (e *emitter) walkKnown(x string, n *types.Named) bool {
	switch qualified(n) {
	case "sync/atomic.Pointer":
		elem := n.TypeArgs().At(0)
		q := e.local("q")
		inner := e.capture(func() { e.walk("*"+q, elem) })
		e.printf("if %s := %s; %s {\n%s}\n", q, field(x, "Load()"), e.enter(q, elem), inner)
		return true
	}
	return false
}

// enter writes the condition that the object of type t at q is met for the first time.
func (e *emitter) enter(q string, t types.Type) string {
	return fmt.Sprintf("w.Enter(%s(%s), %s(*%s), %t)", e.o.unsafe("Pointer"), q, e.o.unsafe("Sizeof"), q, hasPointers(t))
}

func (e *emitter) walkUnderlying(x string, t types.Type) {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		e.walkBasic(x, t, u)
	case *types.Pointer:
		e.walkPointer(x, u)
	case *types.Slice:
		e.walkSlice(x, u)
	case *types.Array:
		i := e.local("i")
		e.loop(fmt.Sprintf("for %s := range %s {\n", i, operand(x)), func() { e.walk(operand(x)+"["+i+"]", u.Elem()) })
	case *types.Struct:
		e.walkFields(x, u)
	case *types.Map:
		e.walkMap(x, u)
	case *types.Interface:
		if e.dir.kind == "" {
			e.printf("%s(w, %s)\n", e.o.walkFunc(t, e.site()), pointerTo(x)) // an any may hold an any
			return
		}
		e.walkInterface(x, t, u)
	case *types.Chan:
		if hasPointers(u.Elem()) {
			e.refuse("what lies in a channel's buffer cannot be seen", "//sizegen:size N reason, or //sizegen:shared reason")
			return
		}
		e.printf("%s(w, %s)\n", e.o.heapsize("WalkChan"), x)
	case *types.Signature:
		e.refuse("what a func has captured cannot be seen",
			"//sizegen:size N reason, or //sizegen:shared reason when it captures nothing of the entry's")
	case *types.TypeParam:
		e.refuse("a type parameter has no size before it is instantiated", "walk an instance")
	default:
		e.refuse(fmt.Sprintf("no rule for %T", u), "//sizegen:size N reason")
	}
}

func (e *emitter) walkBasic(x string, t types.Type, u *types.Basic) {
	switch {
	case u.Kind() == types.UnsafePointer:
		e.refuse("what an unsafe.Pointer points to cannot be seen", "//sizegen:size N reason, or //sizegen:shared reason")
	case types.Identical(t, types.Typ[types.String]):
		e.printf("w.String(%s)\n", pointerTo(x))
	default:
		e.printf("w.String((*string)(%s))\n", pointerTo(x))
	}
}

func (e *emitter) walkPointer(x string, u *types.Pointer) {
	if n := named(u.Elem()); n != nil {
		if _, ok := e.o.g.dirs.find(n.Obj().Pos(), dirShared); ok || qualified(n) == timeLocation {
			return
		}
	}
	if zeroSize(u.Elem()) {
		return // no object of its own
	}
	if token.IsIdentifier(x) {
		e.block("if "+e.enter(x, u.Elem())+" {\n", func() { e.walk("*"+x, u.Elem()) })
		return
	}
	q := e.local("q")
	inner := e.capture(func() { e.walk("*"+q, u.Elem()) })
	if inner == "" {
		e.printf("w.Enter(%s(%s), %s(%s), %t)\n", e.o.unsafe("Pointer"), x, e.o.unsafe("Sizeof"), dereference(x), hasPointers(u.Elem()))
		return
	}
	e.printf("if %s := %s; %s {\n%s}\n", q, x, e.enter(q, u.Elem()), inner)
}

func dereference(x string) string { return "*" + operand(x) }

// walkSlice walks the whole backing array: what lies past the length is held as well.
func (e *emitter) walkSlice(x string, u *types.Slice) {
	if zeroSize(u.Elem()) {
		return
	}
	s, i := e.local("s"), e.local("i")
	call := fmt.Sprintf("%s(w, %%s, %t)", e.o.heapsize("WalkSlice"), hasPointers(u.Elem()))
	inner := e.capture(func() { e.walk(s+"["+i+"]", u.Elem()) })
	if inner == "" {
		e.printf(call+"\n", x)
		return
	}
	e.printf("if %s := %s[:cap(%s)]; %s {\nfor %s := range %s {\n%s}\n}\n",
		s, operand(x), x, fmt.Sprintf(call, s), i, s, inner)
}

// block writes a block, or, when nothing would be in it, the condition of its if alone.
func (e *emitter) block(head string, body func()) {
	if inner := e.capture(body); inner != "" {
		e.printf("%s%s}\n", head, inner)
	} else {
		e.printf("%s\n", strings.TrimSuffix(strings.TrimPrefix(head, "if "), " {\n"))
	}
}

// loop writes a block unless nothing would be in it.
func (e *emitter) loop(head string, body func()) {
	if inner := e.capture(body); inner != "" {
		e.printf("%s%s}\n", head, inner)
	}
}

// capture returns what body writes.
func (e *emitter) capture(body func()) string {
	outer := e.b.String()
	e.b.Reset()
	body()
	inner := e.b.String()
	e.b.Reset()
	e.b.WriteString(outer)
	return inner
}

func (e *emitter) walkFields(x string, u *types.Struct) {
	at, what, dir := e.at, e.what, e.dir
	defer func() { e.at, e.what, e.dir = at, what, dir }()
	for f := range u.Fields() {
		if f.Name() == "_" {
			continue // a blank field cannot be set
		}
		e.at, e.what, e.dir = f.Origin().Pos(), what+"."+f.Name(), directive{}
		if d, ok := e.o.g.fieldDirective(e.o.pkg, e.owner, f); ok {
			if d.kind == dirSize {
				e.addSize(field(x, f.Name()), f.Type(), d.size)
			}
			continue
		}
		e.dir, _ = e.o.g.dirs.find(f.Origin().Pos(), dirTypes)
		if e.dir.kind != "" && !holdsInterface(f.Type()) {
			e.o.g.problems.add(Problem{
				e.o.g.position(e.dir.pos), "//sizegen:types of " + e.what,
				"there is no interface in " + short(f.Type()), "say it where the interface is declared",
			})
		}
		e.walk(field(x, f.Name()), f.Type())
	}
}

// addSize adds a stated size, where the field holds something.
func (e *emitter) addSize(x string, t types.Type, size uint64) {
	if size == 0 {
		return
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Chan, *types.Signature, *types.Interface:
		e.printf("if %s != nil {\nw.Add(%d)\n}\n", x, size)
	default:
		e.printf("w.Add(%d)\n", size)
	}
}

// walkMap walks keys and elements: in place where only what they point to matters, as copies
// that are put back when detaching changes them themselves.
func (e *emitter) walkMap(x string, u *types.Map) {
	key, elem := u.Key(), u.Elem()
	if !e.o.g.nameable(e.o.pkg, u) {
		e.refuse(fmt.Sprintf("%s cannot be named in package %s", short(u), e.o.pkg.Name()), "//sizegen:size N reason")
		return
	}
	m := e.local("m")
	call := fmt.Sprintf("%s(w, %%s, %s)", e.o.heapsize("WalkMap"), e.o.shape(u))
	if e.o.g.silent(key) && e.o.g.silent(elem) {
		e.printf(call+"\n", x)
		return
	}
	if replaced(key) || replaced(elem) {
		s, i := e.local("s"), e.local("i")
		inner := e.capture(func() {
			e.walk(s+"["+i+"].Key", key)
			e.walk(s+"["+i+"].Elem", elem)
		})
		if inner != "" {
			e.printf("if %s := %s; %s {\n%s := %s(%s)\nfor %s := range %s {\n%s}\n%s(w, %s, %s)\n}\n", m, x,
				fmt.Sprintf(call, m), s, e.o.heapsize("Entries"), m, i, s, inner, e.o.heapsize("PutBack"), m, s)
			return
		}
	}
	k, v := e.local("k"), e.local("v")
	keys := e.capture(func() { e.walk(k, key) })
	elems := e.capture(func() { e.walk(v, elem) })
	switch {
	case keys == "" && elems == "":
		e.printf(call+"\n", x)
		return
	case keys == "":
		k = "_"
	}
	if elems != "" {
		k += ", " + v
	}
	e.printf("if %s := %s; %s {\nfor %s := range %s {\n%s%s}\n}\n", m, x, fmt.Sprintf(call, m), k, m, keys, elems)
}
