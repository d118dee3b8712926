package heapsize

import "unsafe"

// Unbox tells of the non-pointer value v in the interface variable that x points to, as
// [Walk.Box] does, for types that hold strings or interfaces themselves. It returns where to
// walk the value, or nil when this variable, or this box, was visited before:
//
//	switch v := x.(type) {
//	case Name:
//		if c := heapsize.Unbox(w, unsafe.Pointer(&x), v, true); c != nil {
//			w.String(&c.Text)
//		}
//	}
//
// Boxes are immutable, may be shared, and may lie in read-only memory. So where strings are to
// be detached, the variable gets a new box with an equal value at once, and that is walked:
// variables that shared a box have one each then, and each is charged. What lies in the runtime's
// static tables, as nil slices do, stays there. An empty string needs no box and must not come
// here.
//
// Unbox allocates a new box at most, and nothing when it only counts.
func Unbox[T any](w *Walk, x unsafe.Pointer, v T, pointers bool) *T {
	data := &(*[2]unsafe.Pointer)(x)[1]
	if !w.Detach {
		if !w.Box(x, unsafe.Sizeof(v), pointers) {
			return nil
		}
		return (*T)(*data)
	}
	if static(*data) || !w.visit(span{addr: uintptr(x), pointers: true}) { // of size 0: marks the variable, costs nothing
		return nil
	}
	c := new(T)
	*c = v
	*data = unsafe.Pointer(c)
	w.Enter(*data, unsafe.Sizeof(v), pointers)
	return c
}
