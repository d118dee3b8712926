package heapsize

import "unsafe"

// Unbox tells of the non-pointer value v in the interface variable that x points to, as
// [Walk.Box] does, for types that hold strings or interfaces themselves. It returns a copy to
// walk instead of the value, or nil when this variable, or this box, was visited before.
//
// Boxes are immutable and may lie in read-only memory. To detach, the copy is boxed anew:
//
//	if c := heapsize.Unbox(w, unsafe.Pointer(&x), v); c != nil {
//		w.String(&c.Name)
//		if w.Detach {
//			w.After(func() { x = *c })
//		}
//	}
//
// Interface variables that shared a box have one each then, and each is charged. An empty
// string needs no box and must not come here. Unbox allocates the copy.
func Unbox[T any](w *Walk, x unsafe.Pointer, v T, pointers bool) *T {
	switch {
	case !w.Detach:
		if !w.Box(x, unsafe.Sizeof(v), pointers) {
			return nil
		}
	case !w.visit(span{uintptr(x), 0, true}): // of size 0: marks the variable, costs nothing
		return nil
	default:
		w.Add(Object(unsafe.Sizeof(v), pointers))
	}
	c := new(T)
	*c = v
	return c
}
