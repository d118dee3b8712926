package heapsize

import "unsafe"

// maxDepth bounds the nested calls of Follow. Frames of generated functions with many cases are some
// kilobytes each.
const maxDepth = 256

// A pending is a value to walk after the recursion has returned.
type pending struct {
	p    unsafe.Pointer
	walk func(*Walk, unsafe.Pointer)
}

// Follow calls walk(w, p). Generated code uses it for pointers that may lead back to the type they
// come from: past a depth of some hundred calls, p is deferred until the walk of the outermost
// Follow has returned. So the stack of a walk does not grow with the length of a list or the depth
// of a tree.
//
// p must point into the heap, not to a variable of the caller. Follow allocates only to grow the
// list of deferred pointers; [Walk.Reset] keeps its capacity.
func Follow[T any](w *Walk, walk func(*Walk, *T), p *T) {
	if w.depth >= maxDepth {
		w.pending = append(w.pending, pending{unsafe.Pointer(p), *(*func(*Walk, unsafe.Pointer))(unsafe.Pointer(&walk))})
		return
	}
	w.depth++
	walk(w, p)
	w.depth--
	if w.depth == 0 && len(w.pending) > 0 {
		w.walkPending()
	}
}

func (w *Walk) walkPending() {
	w.depth = 1
	for n := len(w.pending); n > 0; n = len(w.pending) {
		next := w.pending[n-1]
		w.pending[n-1] = pending{}
		w.pending = w.pending[:n-1]
		next.walk(w, next.p)
	}
	w.depth = 0
}
