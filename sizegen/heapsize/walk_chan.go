package heapsize

import "unsafe"

// WalkChan records c, whose elements have no pointers, and reports whether this is its first
// visit. Goroutines that wait on c are not included.
func WalkChan[T any](w *Walk, c <-chan T) bool {
	return w.channel(*(*unsafe.Pointer)(unsafe.Pointer(&c)), cap(c), unsafe.Sizeof(*new(T)))
}

// WalkSendChan is [WalkChan] for a send-only channel.
func WalkSendChan[T any](w *Walk, c chan<- T) bool {
	return w.channel(*(*unsafe.Pointer)(unsafe.Pointer(&c)), cap(c), unsafe.Sizeof(*new(T)))
}

func (w *Walk) channel(p unsafe.Pointer, n int, elem uintptr) bool {
	if p == nil || !w.visit(span{addr: uintptr(p), size: 1, kind: counted}) {
		return false
	}
	w.added += Chan(n, elem, false)
	return true
}
