package heapsize

import (
	"fmt"
	"unsafe"
)

// Holder returns the T that has p offset bytes from its start, or nil if p is in no object of the size of a T that starts
// there, such as a separate one. pointers reports whether a T has any. On a Go release of which objects are not known
// the result is nil.
func Holder[T any](p unsafe.Pointer, offset uintptr, pointers bool) *T {
	o := objectAt(p)
	if o.size == 0 || o.pointers != pointers || o.size != Object(unsafe.Sizeof(*new(T)), pointers) {
		return nil
	}
	start := uintptr(p) - offset
	if pointers && unsafe.Sizeof(*new(T)) > classes().headerPast {
		start -= classes().header
	}
	if start != o.base {
		return nil
	}
	return (*T)(unsafe.Add(p, -int(offset)))
}

// HolderOf is [Holder] for a slice of an array of most elements, offset bytes from the start of a T. A slice
// of a larger capacity has a separate array.
func HolderOf[T, E any](s []E, most int, offset uintptr, pointers bool) *T {
	if cap(s) == 0 || cap(s) > most {
		return nil
	}
	offset += uintptr(most-cap(s)) * unsafe.Sizeof(*new(E)) // s may start after the first element
	return Holder[T](unsafe.Pointer(unsafe.SliceData(s)), offset, pointers)
}

// Siblings returns the array of the object that p points into: all Ts that are allocated together with *p. It
// returns nil if *p is a separate object.
func Siblings[T any](p *T, pointers bool) []T {
	o, size := objectAt(unsafe.Pointer(p)), unsafe.Sizeof(*p)
	if o.size == 0 || size == 0 || o.size == Object(size, pointers) {
		return nil
	}
	before := uintptr(unsafe.Pointer(p)) - o.base
	if pointers && o.size > classes().headerPast && o.size <= largestSmall {
		before -= classes().header
		o.size -= classes().header
	}
	if before%size != 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(p), -int(before))), o.size/size)
}

// partError describes a part of an object.
func partError(s span) string {
	return fmt.Sprintf("it points to %d bytes, %d bytes into an object of %d bytes, of which the walk does not see the rest: "+
		"name the field that it points into by //sizegen:inside path.Type.Field, or [] for an array", s.size, s.before, uint64(s.units)*8)
}
