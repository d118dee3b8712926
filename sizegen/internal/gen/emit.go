package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// An emitter generates the body of one function.
type emitter struct {
	o    *output
	b    strings.Builder
	vars int
	fn   string // the function, in the graph of calls
	node string // the type that it walks, in the graph of walks

	owner  *types.Named // its fields are walked; nil outside of a defined type
	at     token.Pos    // the field or type being walked, for problems
	what   string       // the same in words
	key    string       // the same as named by directives
	own    bool         // at is in this module: a directive can be placed there
	inline bool         // it is a field on the line of its type's name: a directive above would apply to both
	dir    directive    // the //sizegen:types of the field
	each   directive    // the //sizegen:each of the field or type
	of     types.Type   // of the field, or the type, that at declares
	via    site         // the field of this module that led to another module's type
	listed bool         // it is one of the possible dynamic types of an interface
	heap   bool         // the walked value is on the heap, not in a variable of the function
	apart  bool         // the walked pointer is not inside of another object
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

// site returns the current position or, inside of another module's types, the position that led there.
func (e *emitter) site() site {
	if e.via.what != "" {
		return e.via
	}
	return site{e.at, e.what}
}

// refuse reports why the current field or type cannot be walked, and suggests say, if not empty, as a
// directive: placed above a field or type of this module, otherwise naming it.
func (e *emitter) refuse(why, say string) {
	e.recordHow("refused: " + e.o.g.problems.add(e.problem(why, say)))
}

// warn reports a possible reason for a walk to stop.
func (e *emitter) warn(why, say string) {
	p := e.problem(why, say)
	p.Warning = true
	p.cause += " warning"
	e.o.g.problems.add(p)
}

func (e *emitter) problem(why, say string) Problem {
	s := e.site()
	p := Problem{Pos: e.o.g.position(s.at), What: e.what, Why: why, node: e.node, key: e.key, cause: e.key}
	if e.via.what != "" && e.via.what != e.what {
		p.What = e.via.what + ": " + e.what
	}
	if e.key == "" {
		p.cause = e.what + ": " + why
	}
	if strings.HasPrefix(say, dirShared+" ") && e.onlyContent() {
		say = ""
		p.Why += "; it is all that the root holds"
	}
	if say != "" {
		p.Try, p.named = e.statement(say)
	}
	return p
}

// onlyContent reports whether the current field is the only one of a root that is walked.
func (e *emitter) onlyContent() bool {
	if e.via.what != "" {
		return false // a part of it
	}
	at := e.at
	return slices.ContainsFunc(e.o.g.rootTypes, func(n *types.Named) bool {
		s, ok := n.Underlying().(*types.Struct)
		if !ok {
			return n.Obj().Pos() == at
		}
		walked, here := 0, false
		for f := range s.Fields() {
			if !e.o.g.silent(n.Obj().Pkg(), f.Type()) {
				walked++
				here = here || f.Origin().Pos() == at
			}
		}
		return here && walked == 1
	})
}

// statement returns a directive for the field or type being walked.
func (e *emitter) statement(say string) (text string, named bool) {
	if e.own && !e.inline {
		return "//sizegen:" + say, false
	}
	return namedStatement(e.key, say), true
}

// unlessEach returns the directive say with a reason or, if the field is a slice, array or map of what cannot be
// seen, the one for its parts.
func (e *emitter) unlessEach(say, size, reason string) string {
	if e.of != nil && hasUnseen(e.of) {
		return dirEach + " " + size + " " + reason
	}
	return say + " " + reason
}

func namedStatement(key, say string) string {
	if list, ok := strings.CutPrefix(say, dirTypes+" "); ok {
		return "//sizegen:" + dirTypes + " " + key + " = " + list
	}
	return "//sizegen:" + dirField + " " + key + " " + say
}

// pointerTo, field and element return expressions on the variable x, which may be "*q".
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

// walk generates the code that leads w over everything that the variable x of type t references, excluding
// x's own bytes.
func (e *emitter) walk(x string, t types.Type) {
	if t == nil || t == types.Typ[types.Invalid] {
		e.refuse("its type does not type-check: go vet the package", "")
		return
	}
	if e.o.g.silent(e.o.pkg, t) {
		return
	}
	if e.each.kind != "" && unseen(t) {
		e.recordHow(fmt.Sprintf("%d bytes each: %s", e.each.size, e.each.reason))
		e.addSize(x, t, e.each.size)
		return
	}
	if n := named(t); n != nil && !(e.dir.kind != "" && types.IsInterface(n)) {
		e.walkNamed(x, n)
		return
	}
	e.walkUnderlying(x, t)
}

// walkNamed walks a value of a defined type through that type's function.
func (e *emitter) walkNamed(x string, n *types.Named) {
	original := e.o.g.original(n)
	if d, ok := e.o.g.typeDirective(e.o.pkg, original, dirShared, dirSize, dirOpaque); ok {
		e.o.g.skip(typeKey(original), d)
		e.stated(x, n, nil, "", d)
		return
	}
	if holdsNothing(original) {
		e.recordHow("belongs to the process")
		return
	}
	if e.refuseRuntime(original) || n == original && e.walkKnown(x, n) {
		return
	}
	pkg := n.Obj().Pkg()
	if pkg == nil || pkg == e.o.pkg || !e.ownMethod(n) {
		if !e.o.g.nameable(e.o.pkg, n) {
			e.refuse(fmt.Sprintf("its type %s cannot be named in package %s", short(n), e.o.pkg.Name()), "shared it belongs to another owner")
			return
		}
		if types.IsInterface(n) && e.o.g.openEnded(e.o.pkg, original) {
			e.refuseInterface(original)
			return
		}
		e.call(e.o.walkFunc(n, e.site()), pointerTo(x), original)
		return
	}
	// Another package of this module: its output has the method.
	if e.o.g.targets[pkg.Path()] == nil {
		e.refuse(fmt.Sprintf("its type %s is in package %s, which is not among the packages given: name it too, or ./...", short(n), pkg.Path()), "")
		return
	}
	o := e.o.g.output(pkg)
	e.lead(original, o.node(o.partsMethod(n)))
	e.printf("%s\n", field(x, "WalkHeapParts(w)"))
}

// call generates a call of a function of this file. Render decides whether it is followed.
func (e *emitter) call(name, arg string, t types.Type) {
	callee := e.o.node(name)
	e.lead(t, callee)
	if e.heap {
		e.printf("%s\n", followMark(e.fn, callee, name, arg))
	} else {
		e.printf("%s(w, %s)\n", name, arg)
	}
}

// lead records that the walk of the current field reaches a value of type t, walked by callee.
func (e *emitter) lead(t types.Type, callee string) {
	e.o.g.calls.add(e.fn, callee)
	e.o.g.leads = append(e.o.g.leads, lead{
		from: e.node, to: nodeOf(t), key: e.key, own: e.own, at: e.at, what: e.what, site: e.site(), foreign: !e.o.g.ofMain(t),
		toKey: keyOf(t),
	})
	e.leadsTo(t)
}

// keyOf returns the name of a type of another package in directives, "" if it has none.
func keyOf(t types.Type) string {
	if n := named(t); n != nil && n.Obj().Pkg() != nil {
		return typeKey(n)
	}
	return ""
}

// ownMethod reports whether methods of n can be generated in its package of this module.
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
		inner := e.captureHeap(func() { e.walk("*"+q, elem) })
		e.recordHow("object")
		e.printf("if %s := %s; %s {\n%s}\n", q, field(x, "Load()"), e.firstVisit(q, elem), inner)
		return true
	case timeTime:
		if d, ok := e.o.g.namedDirective(e.o.pkg, timeTime+".loc", dirShared, dirSize); ok {
			e.stated(x, n, nil, "", d)
			return true
		}
		e.recordHow("zone, where it is not one of the process")
		e.printf("w.Location(%s)\n", field(x, "Location()"))
		return true
	case timeLocation:
		e.recordHow("zone")
		e.printf("w.LocationParts(%s)\n", pointerTo(x))
		return true
	case syncMap:
		e.walkSyncMap(x)
		return true
	}
	return false
}

// refuseRuntime reports whether n is a type of the standard library that points to other objects than its fields
// declare.
func (e *emitter) refuseRuntime(n *types.Named) bool {
	switch qualified(n) {
	case "internal/sync.HashTrieMap":
		e.refuse("its nodes cannot be seen: make it a sync.Map", "shared it belongs to another owner")
	case "time.Timer", "time.Ticker":
		key, own := e.key, e.own
		e.key, e.own = qualified(n), false
		e.refuse("the timer of the runtime cannot be seen", "size 232 a timer and its channel")
		e.key, e.own = key, own
	default:
		return false
	}
	return true
}

// walkSyncMap walks the keys and elements of a sync.Map as variables of type any, or of the types listed for the
// field.
func (e *emitter) walkSyncMap(x string) {
	e.recordHow("map")
	v := e.local("x")
	inner := e.captureHeap(func() { e.walk("*"+v, emptyInterface) })
	e.printf("%s(w, %s, func(w *%s, %s *any) {\n%s})\n", e.o.heapsize("WalkSyncMap"), pointerTo(x), e.o.heapsize("Walk"), v, inner)
}

// firstVisit returns the condition that the object of type t at q is visited for the first time.
func (e *emitter) firstVisit(q string, t types.Type) string {
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
		if inner := e.capture(func() { e.walk(operand(x)+"["+i+"]", u.Elem()) }); inner != "" {
			e.printf("%s {\n%s}\n", forRange(inner, operand(x), i), inner)
		}
	case *types.Struct:
		e.walkFields(x, u)
	case *types.Map:
		e.walkMap(x, u)
	case *types.Interface:
		if e.dir.kind == "" && u.Empty() {
			e.walkEmpty(x, t)
			return
		}
		e.walkInterface(x, t, u)
	case *types.Chan:
		if hasPointers(u.Elem()) {
			e.refuse("what lies in a channel's buffer cannot be seen", e.unlessEach("shared", "0", "its elements belong to their receivers"))
			return
		}
		e.recordHow("channel")
		walk := "WalkChan"
		if u.Dir() == types.SendOnly {
			walk = "WalkSendChan"
		}
		e.printf("%s(w, %s)\n", e.o.heapsize(walk), x)
	case *types.Signature:
		e.refuse("what a func has captured cannot be seen", e.unlessEach("size 32", "32", "a func with at most three captured words"))
	case *types.TypeParam:
		e.refuse("a type parameter has no size before it is instantiated: walk an instance", "")
	default:
		e.refuse(fmt.Sprintf("no rule for %T", u), "shared it belongs to another owner")
	}
}

func (e *emitter) walkBasic(x string, t types.Type, u *types.Basic) {
	switch {
	case u.Kind() == types.UnsafePointer:
		e.refuse("what an unsafe.Pointer points to cannot be seen", e.unlessEach("shared", "0", "what it points to belongs to another owner"))
		return
	case types.Identical(t, types.Typ[types.String]):
		e.printf("w.String(%s)\n", pointerTo(x))
	default:
		e.printf("w.String((*string)(%s))\n", pointerTo(x))
	}
	e.recordHow("string")
}

func (e *emitter) walkPointer(x string, u *types.Pointer) {
	if n := named(u.Elem()); n != nil {
		if d, ok := e.o.g.typeDirective(e.o.pkg, e.o.g.original(n), dirShared); ok {
			e.recordHow("shared: " + d.reason)
			e.o.g.skip(e.key, d)
			return
		}
		if holdsNothing(n) {
			e.recordHow("belongs to the process")
			return
		}
		if qualified(n) == timeLocation {
			e.recordHow("zone, where it is not one of the process")
			e.printf("w.Location(%s)\n", x)
			return
		}
	}
	if zeroSize(u.Elem()) {
		return // not a separate object
	}
	if d, ok := e.insideDirective(u.Elem()); ok {
		e.walkInside(x, u, d)
		return
	}
	e.apart = false
	e.recordHow("object")
	if token.IsIdentifier(x) {
		e.block("if "+e.firstVisit(x, u.Elem())+" {\n", func() { e.walk("*"+x, u.Elem()) })
		return
	}
	q := e.local("q")
	inner := e.captureHeap(func() { e.walk("*"+q, u.Elem()) })
	if inner == "" {
		e.printf("w.Enter(%s(%s), %s(%s), %t)\n", e.o.unsafe("Pointer"), x, e.o.unsafe("Sizeof"), dereference(x), hasPointers(u.Elem()))
		return
	}
	e.printf("if %s := %s; %s {\n%s}\n", q, x, e.firstVisit(q, u.Elem()), inner)
}

// insideDirective returns the directive by which a pointer to t may point into another object.
func (e *emitter) insideDirective(t types.Type) (directive, bool) {
	n := named(t)
	if n == nil || e.apart {
		return directive{}, false
	}
	return e.o.g.typeDirective(e.o.pkg, e.o.g.original(n), dirInside)
}

func dereference(x string) string { return "*" + operand(x) }

// walkSlice walks the whole backing array: elements past the length are alive as well.
func (e *emitter) walkSlice(x string, u *types.Slice) {
	if zeroSize(u.Elem()) {
		return
	}
	e.apart = false
	e.recordHow("array")
	e.walkElements(x, u, fmt.Sprintf("%s(w, %%s, %t)", e.o.heapsize("WalkSlice"), hasPointers(u.Elem())))
}

// walkElements generates the walk of a slice, whose array the call records.
func (e *emitter) walkElements(x string, u *types.Slice, call string) {
	s, i := e.local("s"), e.local("i")
	inner := e.captureHeap(func() { e.walk(s+"["+i+"]", u.Elem()) })
	if inner == "" {
		e.printf(call+"\n", x)
		return
	}
	e.printf("if %s := %s[:cap(%s)]; %s {\n%s {\n%s}\n}\n",
		s, operand(x), x, fmt.Sprintf(call, s), forRange(inner, s, i), inner)
}

// forRange returns the head of a loop over x that declares only the variables that its body uses.
func forRange(body, x string, variables ...string) string {
	used := 0
	for i, v := range variables {
		if regexp.MustCompile(`\b` + v + `\b`).MatchString(body) {
			used = i + 1
		} else {
			variables[i] = "_"
		}
	}
	if used == 0 {
		return "for range " + x
	}
	return "for " + strings.Join(variables[:used], ", ") + " := range " + x
}

// block generates a block or, if the block would be empty, only the condition of its if.
func (e *emitter) block(head string, body func()) {
	if inner := e.captureHeap(body); inner != "" {
		e.printf("%s%s}\n", head, inner)
	} else {
		e.printf("%s\n", strings.TrimSuffix(strings.TrimPrefix(head, "if "), " {\n"))
	}
}

// capture returns the output of body.
func (e *emitter) capture(body func()) string {
	outer := e.b.String()
	e.b.Reset()
	body()
	inner := e.b.String()
	e.b.Reset()
	e.b.WriteString(outer)
	return inner
}

// captureHeap returns the output of body for a variable on the heap.
func (e *emitter) captureHeap(body func()) string { return e.captureAt(true, body) }

func (e *emitter) captureAt(heap bool, body func()) string {
	was := e.heap
	defer func() { e.heap = was }()
	e.heap = heap
	return e.capture(body)
}
