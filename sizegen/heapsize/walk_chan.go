package heapsize

import "unsafe"

// WalkChan tells of c, whose elements have no pointers, and reports whether this is its first
// visit. Goroutines that wait on c are not included.
func WalkChan[T any](w *Walk, c chan T) bool {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&c))
	if p == nil || !w.visit(span{uintptr(p), 1, true}) {
		return false
	}
	// The byte marked above is settled as one: taken off here.
	w.added += Chan(cap(c), unsafe.Sizeof(*new(T)), false) - Object(1, true)
	return true
}
