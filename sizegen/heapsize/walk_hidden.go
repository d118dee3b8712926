package heapsize

import (
	"reflect"
	"unsafe"
)

// A layoutPair is a type and its mirror.
type layoutPair struct{ original, mirror reflect.Type }

// TypeName returns the name of v's dynamic type with the path of its package, prefixed by * for a pointer:
// "*example.com/shapes.circle". Generated code uses it to distinguish types it cannot name. It allocates on
// the first visit of a type only.
func (w *Walk) TypeName(v any) string {
	t := reflect.TypeOf(v)
	if name, ok := w.typeNames[t]; ok {
		return name
	}
	star, elem := "", t
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		star, elem = "*", t.Elem()
	}
	name := star + elem.PkgPath() + "." + elem.Name()
	if w.typeNames == nil {
		w.typeNames = make(map[reflect.Type]string)
	}
	w.typeNames[t] = name
	return name
}

// Hidden returns the object that v points to, of another package's unexported type, as an M, which has the
// layout of that type. If it has not, as after an update of that package, the walk stops with an [Error].
func Hidden[M any](w *Walk, v any) *M {
	w.checkLayout(layoutPair{reflect.TypeOf(v).Elem(), reflect.TypeFor[M]()})
	return (*M)((*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1])
}

// HiddenBox is [Unbox] for v, a value of another package's unexported type in the interface variable that x
// points to: it returns the box as an M, which has the layout of that type, or nil if it was visited before.
// replaced reports whether detaching changes bytes of the box.
func HiddenBox[M any](w *Walk, x unsafe.Pointer, v any, pointers, replaced bool) *M {
	w.checkLayout(layoutPair{reflect.TypeOf(v), reflect.TypeFor[M]()})
	data := &(*[2]unsafe.Pointer)(x)[1]
	if !w.Detach || !replaced {
		if !w.Box(x, unsafe.Sizeof(*new(M)), pointers) {
			return nil
		}
		return (*M)(*data)
	}
	if static(*data) || !w.visit(span{addr: uintptr(x), kind: counted}) {
		return nil
	}
	c := reflect.New(reflect.TypeOf(v))
	c.Elem().Set(reflect.ValueOf(v))
	*data = c.UnsafePointer()
	w.Enter(*data, unsafe.Sizeof(*new(M)), pointers)
	return (*M)(*data)
}

// HiddenWord returns the value of v, of another package's unexported type of pointer shape, in the interface
// variable that x points to, as an M.
func HiddenWord[M any](w *Walk, x unsafe.Pointer, v any) *M {
	w.checkLayout(layoutPair{reflect.TypeOf(v), reflect.TypeFor[M]()})
	return (*M)(unsafe.Pointer(&(*[2]unsafe.Pointer)(x)[1]))
}

// checkLayout stops the walk if a mirror differs from its type. It compares each pair once.
func (w *Walk) checkLayout(p layoutPair) {
	same, known := w.layouts[p]
	if !known {
		same = sameLayout(p, make(map[layoutPair]bool))
		if w.layouts == nil {
			w.layouts = make(map[layoutPair]bool)
		}
		w.layouts[p] = same
	}
	if !same {
		panic(&Error{Where: p.original.String(), Why: "its fields are not those that it had when the walk was generated"})
	}
}

// sameLayout reports whether two types have the same fields at the same offsets, recursively through
// pointers, slices, arrays, maps and structs. Meaningless words in the mirror match anything.
func sameLayout(p layoutPair, seen map[layoutPair]bool) bool {
	a, b := p.original, p.mirror
	if a == b || seen[p] {
		return true
	}
	seen[p] = true
	words := b
	if words.Kind() == reflect.Array {
		words = words.Elem()
	}
	switch {
	case a.Size() != b.Size():
		return false
	case words.Kind() == reflect.UnsafePointer:
		return true
	case a.Kind() != b.Kind():
		return false
	}
	switch a.Kind() {
	case reflect.Map:
		return sameLayout(layoutPair{a.Key(), b.Key()}, seen) && sameLayout(layoutPair{a.Elem(), b.Elem()}, seen)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		return sameLayout(layoutPair{a.Elem(), b.Elem()}, seen)
	case reflect.Struct:
		if a.NumField() != b.NumField() {
			return false
		}
		for i := range a.NumField() {
			x, y := a.Field(i), b.Field(i)
			if x.Name != y.Name || x.Offset != y.Offset || !sameLayout(layoutPair{x.Type, y.Type}, seen) {
				return false
			}
		}
	}
	return true
}
