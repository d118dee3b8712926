package gen

import (
	"fmt"
	"go/types"
)

// partArray is the argument of an inside directive for elements of an array that is allocated as a whole.
const partArray = "[]"

// walkInside walks the target of x, a pointer or slice of type t that may point into another object: that object if it
// does, otherwise its target.
func (e *emitter) walkInside(x string, t types.Type, d directive) {
	refuse := func(why string) {
		e.o.g.problems.add(Problem{Pos: e.o.g.position(d.pos), What: "//sizegen:inside " + d.part, Why: why})
	}
	var elem types.Type
	switch u := t.Underlying().(type) {
	case *types.Slice:
		elem = u.Elem()
	case *types.Pointer:
		elem = u.Elem()
	default:
		refuse("it is said of slices and pointers")
		return
	}
	if d.part == partArray {
		e.recordHow("within an array: " + d.reason)
		e.walkHolder(x, t, e.siblings(x, t, elem), types.NewSlice(elem))
		return
	}
	whole, part := e.o.g.partOf(d)
	if part == nil {
		refuse("there is no such field of a struct in the packages that this one depends on")
		return
	}
	e.recordHow("within a " + short(whole) + ": " + d.reason)
	holder := whole
	if !e.o.g.nameable(e.o.pkg, whole) || !part.Exported() && part.Pkg() != e.o.pkg {
		holder = e.o.mirror(whole, e.site())
	}
	object := "new(" + e.o.typeName(holder) + ")"
	at := fmt.Sprintf("%s(%s.%s), %t", e.o.unsafe("Offsetof"), object, part.Name(), hasPointers(whole))
	var call string
	if _, ok := t.Underlying().(*types.Slice); ok {
		array, ok := part.Type().Underlying().(*types.Array)
		if !ok || !types.Identical(array.Elem(), elem) {
			refuse(fmt.Sprintf("that field is not an array of %s", short(elem)))
			return
		}
		call = fmt.Sprintf("%s[%s](%s, %d, %s)", e.o.heapsize("HolderOf"), e.o.typeName(holder), x, array.Len(), at)
	} else {
		if !types.Identical(part.Type(), e.o.g.originalOf(elem)) {
			refuse(fmt.Sprintf("that field is not a %s", short(elem)))
			return
		}
		call = fmt.Sprintf("%s[%s](%s(%s), %s)", e.o.heapsize("Holder"), e.o.typeName(holder), e.o.unsafe("Pointer"), x, at)
	}
	e.walkHolder(x, t, call, types.NewPointer(holder))
}

// siblings returns the call for the array around the elements of x.
func (e *emitter) siblings(x string, t, elem types.Type) string {
	if _, ok := t.Underlying().(*types.Slice); ok {
		x = e.o.unsafe("SliceData") + "(" + x + ")"
	}
	return fmt.Sprintf("%s(%s, %t)", e.o.heapsize("Siblings"), x, hasPointers(elem))
}

// walkHolder walks the result of call, a pointer or slice of type holder, if there is one, and x of type t otherwise.
func (e *emitter) walkHolder(x string, t types.Type, call string, holder types.Type) {
	h := e.local("h")
	e.apart = true
	inner := e.captureHeap(func() { e.walkUnderlying(h, holder) })
	e.apart = true
	other := e.captureHeap(func() { e.walkUnderlying(x, t) })
	e.apart = false
	e.printf("if %s := %s; %s != nil {\n%s} else {\n%s}\n", h, call, h, inner, other)
}

// originalOf returns the type that t mirrors, or t.
func (g *generator) originalOf(t types.Type) types.Type {
	if n := named(t); n != nil {
		return g.original(n)
	}
	return t
}
