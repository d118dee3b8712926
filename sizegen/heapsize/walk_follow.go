package heapsize

import "unsafe"

// maxDepth is how many calls of Follow may be nested. Frames of generated functions with many cases
// take some kilobytes each.
const maxDepth = 256

// A pending is a value to be walked once the recursion has returned.
type pending struct {
	p    unsafe.Pointer
	walk func(*Walk, unsafe.Pointer)
}

// Follow calls walk(w, p). Generated code follows with it what may lead back to where it comes
// from: past a depth of some hundred calls p is kept, and walked after the outermost Follow's own
// walk has returned. So the stack that a walk takes does not depend on how long a list or how deep
// a tree is.
//
// p must point into the heap, not to a variable of the caller. Follow allocates only where the list
// of what is kept grows; [Walk.Reset] keeps its room.
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
