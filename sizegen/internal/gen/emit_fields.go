package gen

import (
	"fmt"
	"go/types"
)

func (e *emitter) walkFields(x string, u *types.Struct) {
	owner, at, what, key, own, inline, dir, each, of, via := e.owner, e.at, e.what, e.key, e.own, e.inline, e.dir, e.each, e.of, e.via
	defer func() {
		e.owner, e.at, e.what, e.key, e.own, e.inline, e.dir, e.each, e.of, e.via = owner, at, what, key, own, inline, dir, each, of, via
	}()
	for f := range u.Fields() {
		if f.Name() == "_" {
			continue // a blank field cannot be set
		}
		e.owner, e.at, e.what, e.dir, e.each, e.of = owner, f.Origin().Pos(), what+"."+f.Name(), directive{}, directive{}, f.Type()
		e.own = e.o.g.ownPos(f.Origin().Pos())
		if !e.own && via.what == "" { // the struct of another module under a type of this one
			e.via = site{at, what}
		}
		e.inline = false
		switch {
		case owner != nil:
			e.inline = e.o.g.position(owner.Obj().Pos()).Line == e.o.g.position(e.at).Line
			e.key = typeKey(owner) + "." + f.Name()
		case e.own:
			e.key = ""
		default: // a field of an unnamed struct: directives can name only the field of that struct type
			e.key = key
		}
		e.beginField(f)
		e.walkField(field(x, f.Name()), x, f)
	}
}

// walkField walks the variable x of field f of the struct holder, or applies a directive.
func (e *emitter) walkField(x, holder string, f *types.Var) {
	owner := e.owner
	if d, ok := e.o.g.fieldDirective(e.o.pkg, owner, f, dirShared, dirSize, dirOpaque); ok {
		e.stated(x, f.Type(), owner, holder, d)
		return
	}
	if d, ok := e.o.g.sharedPointee(e.o.pkg, e.o.g.fieldOf(owner, x)); ok {
		e.recordHow("shared: " + d.reason)
		e.o.g.skip(e.key, d)
		return
	}
	e.owner = nil
	if d, ok := e.o.g.fieldDirective(e.o.pkg, owner, f, dirInside); ok {
		e.walkInside(x, f.Type(), d)
		return
	}
	e.dir, _ = e.o.g.fieldDirective(e.o.pkg, owner, f, dirTypes)
	if e.dir.kind != "" && !holdsInterface(f.Type()) {
		e.o.g.problems.add(Problem{
			Pos: e.o.g.position(e.dir.pos), What: "//sizegen:types of " + e.what,
			Why: "there is no interface in " + short(f.Type()) + ": say it where the interface is declared",
		})
	}
	e.each, _ = e.o.g.fieldDirective(e.o.pkg, owner, f, dirEach)
	e.checkEach(f.Type())
	e.walk(x, f.Type())
}

// checkEach refuses a directive for the parts of a t that has none of the kind.
func (e *emitter) checkEach(t types.Type) {
	if e.each.kind != "" && !hasUnseen(t) {
		e.o.g.problems.add(Problem{
			Pos: e.o.g.position(e.each.pos), What: "//sizegen:each of " + e.what,
			Why: "it is said of slices, arrays and maps of funcs, channels, unsafe.Pointers or interfaces, not of " + short(t),
		})
	}
}

// stated applies a directive to the variable x, a field of holder or a value of a type.
func (e *emitter) stated(x string, t types.Type, owner *types.Named, holder string, d directive) {
	e.o.g.skip(e.key, d)
	switch {
	case d.kind == dirShared:
		e.recordHow("shared: " + d.reason)
	case d.rule != "":
		e.recordHow("as " + d.rule + " returns: " + d.reason)
		e.addRule(x, t, owner, holder, d)
	default:
		e.recordHow(fmt.Sprintf("%d bytes: %s", d.size, d.reason))
		e.addSize(x, t, d.size)
	}
}

// addSize adds a stated size if the field is not empty.
func (e *emitter) addSize(x string, t types.Type, size uint64) {
	if size == 0 {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Chan, *types.Signature, *types.Interface:
		e.printf("if %s != nil {\nw.Add(%d)\n}\n", x, size)
		return
	case *types.Basic:
		if u.Kind() == types.UnsafePointer {
			e.printf("if %s != nil {\nw.Add(%d)\n}\n", x, size)
			return
		}
	case *types.Array:
		if isOpaqueWords(u) {
			e.printf("if %s[0] != nil {\nw.Add(%d)\n}\n", x, size)
			return
		}
	}
	e.printf("w.Add(%d)\n", size)
}

// addRule adds the result of a function of this package for the field, or for the struct that has it.
func (e *emitter) addRule(x string, t types.Type, owner *types.Named, holder string, d directive) {
	refuse := func(why string) {
		e.o.g.problems.add(Problem{Pos: e.o.g.position(d.pos), What: "//sizegen:opaque " + d.rule + "()", Why: why})
	}
	if d.pkg.Types != e.o.pkg {
		refuse(fmt.Sprintf("the function is in package %s, and package %s requires a separate one", d.pkg.ImportPath, e.o.pkg.Path()))
		return
	}
	fn, ok := e.o.pkg.Scope().Lookup(d.rule).(*types.Func)
	if !ok {
		refuse("there is no such function in the package")
		return
	}
	sig := fn.Signature()
	if sig.Params().Len() != 1 || sig.Results().Len() != 1 || !types.Identical(sig.Results().At(0).Type(), types.Typ[types.Int64]) {
		refuse("the function must take a pointer to the field, or to the struct that has it, and return an int64")
		return
	}
	param, _ := sig.Params().At(0).Type().Underlying().(*types.Pointer)
	arg := ""
	switch {
	case param == nil:
	case owner != nil && types.Identical(param.Elem(), owner):
		arg = pointerTo(holder)
	case types.Identical(param.Elem(), t), e.o.g.fieldOf(owner, x) != nil && types.Identical(param.Elem(), e.o.g.fieldOf(owner, x)):
		arg = pointerTo(x)
	}
	if arg == "" {
		refuse(fmt.Sprintf("the function must take a pointer to %s, or to the struct that has it", short(t)))
		return
	}
	e.printf("w.Add(uintptr(%s((%s)(%s(%s)))))\n", d.rule, e.o.typeName(sig.Params().At(0).Type()), e.o.unsafe("Pointer"), arg)
}

// walkMap walks keys and elements: in place if only the objects they point to matter; as copies that are put
// back if detaching changes them themselves, or if a map may contain itself.
func (e *emitter) walkMap(x string, u *types.Map) {
	key, elem := u.Key(), u.Elem()
	if !e.o.g.nameable(e.o.pkg, u) {
		e.refuse(fmt.Sprintf("%s cannot be named in package %s", short(u), e.o.pkg.Name()), "shared it belongs to another owner")
		return
	}
	e.recordHow("map")
	m := e.local("m")
	call := fmt.Sprintf("%s(w, %%s, %s)", e.o.heapsize("WalkMap"), e.o.shape(u))
	if e.o.g.silent(e.o.pkg, key) && e.o.g.silent(e.o.pkg, elem) {
		e.printf(call+"\n", x)
		return
	}
	if putBack := replaced(key) || replaced(elem); putBack || holdsMap(elem) {
		s, i := e.local("s"), e.local("i")
		inner := e.captureHeap(func() {
			e.walk(s+"["+i+"].Key", key)
			e.walk(s+"["+i+"].Elem", elem)
		})
		if inner != "" {
			e.printf("if %s := %s; %s {\n%s := %s(%s)\n%s {\n%s}\n", m, x,
				fmt.Sprintf(call, m), s, e.o.heapsize("Entries"), m, forRange(inner, s, i), inner)
			if putBack {
				e.printf("%s(w, %s, %s)\n", e.o.heapsize("PutBack"), m, s)
			}
			e.printf("}\n")
			return
		}
	}
	k, v := e.local("k"), e.local("v")
	keys := e.captureAt(false, func() { e.walk(k, key) })
	elems := e.captureAt(false, func() { e.walk(v, elem) })
	if keys == "" && elems == "" {
		e.printf(call+"\n", x)
		return
	}
	e.printf("if %s := %s; %s {\n%s {\n%s%s}\n}\n", m, x, fmt.Sprintf(call, m), forRange(keys+elems, m, k, v), keys, elems)
}
