package heapsize

import "unsafe"

// Inside tells of size bytes at p that lie within an object of whole bytes, whose start is not
// known: a slice of an array field, a pointer to a field. It reports whether this is the first
// visit. Where the object is not reached as a whole, it is charged whole; what its other fields hold
// is not seen.
func (w *Walk) Inside(p unsafe.Pointer, size, whole uintptr, pointers bool) bool {
	if p == nil || size == 0 {
		return false
	}
	return w.visit(span{addr: uintptr(p), size: size, whole: uint32(min(whole, 1<<32-1)), pointers: pointers})
}

// InsideSlice is [Walk.Inside] for the array behind s, if s has room for at most most elements.
// A slice with more room lies in an array of its own.
func InsideSlice[T any](w *Walk, s []T, most int, whole uintptr, pointers bool) bool {
	if cap(s) > most {
		whole = 0
	}
	return w.Inside(unsafe.Pointer(unsafe.SliceData(s)), uintptr(cap(s))*unsafe.Sizeof(*new(T)), whole, pointers)
}
