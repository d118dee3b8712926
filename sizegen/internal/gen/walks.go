package gen

import (
	"fmt"
	"go/types"
)

// root generates the methods of a root type.
func (o *output) root(n *types.Named) {
	name := n.Obj().Name()
	for _, method := range []string{"WalkHeap", "CachedSize"} {
		if o.refuseMember(n, method, "a root gets a method of this name: rename it, or remove the root") {
			return
		}
	}
	walk := o.heapsize("Walk")
	body := fmt.Sprintf("w.Enter(%s(p), %s(*p), %t)\n", o.unsafe("Pointer"), o.unsafe("Sizeof"), hasPointers(n))
	o.g.rootNodes = append(o.g.rootNodes, nodeOf(n))
	if !o.g.silent(o.pkg, n) {
		body = fmt.Sprintf("if %s {\n%s(w, p)\n}\n", body[:len(body)-1], o.walkFunc(n, site{}))
	}
	o.declare(declMethod, name+".WalkHeap", fmt.Sprintf(
		"// WalkHeap leads w over *p and all that it holds.\nfunc (p *%s) WalkHeap(w *%s) {\n%s}\n", name, walk, body))
	o.declare(declMethod, name+".CachedSize", fmt.Sprintf(
		"// CachedSize walks *p with w, which it resets, and returns its heap bytes; where w.Detach is\n"+
			"// set, the strings of *p are its own from then on. It returns a [%[4]s], and\n"+
			"// leaves *p as it is, when an interface holds a type that sizegen did not find, or an\n"+
			"// object is reached by a pointer into it alone.\n"+
			"func (p *%[1]s) CachedSize(w *%[2]s) (size int64, err error) {\n"+
			"defer %[3]s(&err, p)\nw.Reset()\np.WalkHeap(w)\n"+
			"if err := w.Check(p); err != nil {\nreturn 0, err\n}\nreturn w.Finish(), nil\n}\n", name, walk, o.heapsize("RecoverIn"), o.heapsize("Error")))
}

// refuseMember reports whether n has a field or declares a method of that name, which then is refused.
func (o *output) refuseMember(n *types.Named, name, why string) bool {
	obj, index, _ := types.LookupFieldOrMethod(n, true, o.pkg, name)
	if obj == nil || len(index) > 1 { // none, or promoted from an embedded field
		return false
	}
	o.g.problems.add(Problem{Pos: o.g.position(obj.Pos()), What: n.Obj().Name() + "." + name, Why: why})
	return true
}

// renameMember is why a field or method with the name of a generated method is refused.
const renameMember = "its type gets a method of this name, which other packages call: rename it"

// partsMethod generates the method by which other packages of the module walk an n, and returns the function
// that the method calls.
func (o *output) partsMethod(n *types.Named) string {
	walk := o.walkFunc(n, site{})
	if o.parts[n] {
		return walk
	}
	o.parts[n] = true
	if o.refuseMember(n, "WalkHeapParts", renameMember) {
		return walk
	}
	name := n.Obj().Name()
	o.declare(declMethod, name+".WalkHeapParts", fmt.Sprintf(
		"// WalkHeapParts leads w over all that *p holds, *p itself not included.\n"+
			"func (p *%s) WalkHeapParts(w *%s) { %s(w, p) }\n", name, o.heapsize("Walk"), walk))
	return walk
}

// walkFunc returns the name of the function that walks the parts of a t, and generates it if necessary. A
// problem in another module's type is reported at from.
func (o *output) walkFunc(t types.Type, from site) string {
	if u, ok := t.(*types.Interface); ok && u.Empty() {
		t = emptyInterface // any, in whichever spelling
	}
	if name, ok := o.walks.at(t); ok {
		return name
	}
	name := o.unique("walkHeap" + title(types.TypeString(t, func(p *types.Package) string {
		if p == o.pkg {
			return ""
		}
		return p.Name()
	})))
	o.walks.set(t, name)
	o.g.work = append(o.g.work, func() { o.writeWalk(name, t, from) })
	return name
}

func (o *output) writeWalk(name string, t types.Type, from site) {
	e := &emitter{o: o, fn: o.node(name), node: nodeOf(t), what: short(t)}
	param := o.typeName(t)
	subject := "*p"
	n := named(t)
	if n != nil {
		original := o.g.original(n)
		e.owner, e.at, e.what, e.key, e.node = original, n.Obj().Pos(), short(original), typeKey(original), nodeOf(original)
		if e.own = o.g.ownPos(n.Obj().Pos()); !e.own {
			e.via = from
		}
		if n == original && o.needsMirror(n) {
			m := o.mirror(n, e.site())
			e.printf("m := (*%s)(%s(p))\n", m.Obj().Name(), o.unsafe("Pointer"))
			subject, t = "*m", m
		}
	}
	e.of = t
	if n != nil {
		e.each, _ = o.g.typeDirective(o.pkg, o.g.original(n), dirEach)
		e.checkEach(t)
	}
	e.beginType()
	body := e.capture(func() {
		if u, ok := t.Underlying().(*types.Interface); ok {
			e.walkInterface(subject, t, u)
		} else {
			e.walkUnderlying(subject, t)
		}
	})
	doc := "// " + name + " walks what a value of type " + e.what + " holds.\n"
	if body == "" {
		// All of it is shared, or has a stated size of 0.
		o.declare(declWalk, name, fmt.Sprintf("%sfunc %s(*%s, *%s) {}\n", doc, name, o.heapsize("Walk"), param))
		return
	}
	o.declare(declWalk, name, fmt.Sprintf("%sfunc %s(w *%s, p *%s) {\n%s%s}\n", doc, name, o.heapsize("Walk"), param, e.b.String(), body))
}

// shape generates the MapShape for the type of a map.
func (o *output) shape(m *types.Map) string {
	return fmt.Sprintf("%s[%s, %s](%t, %t)", o.heapsize("ShapeWith"),
		o.typeName(m.Key()), o.typeName(m.Elem()), hasPointers(m.Key()), hasPointers(m.Elem()))
}
