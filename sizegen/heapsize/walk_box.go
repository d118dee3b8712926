package heapsize

import "unsafe"

// Unbox records the non-pointer value v in the interface variable that x points to, like [Walk.Box], for
// types that contain strings or interfaces themselves. It returns the value to walk, or nil if this variable,
// or this box, was visited before:
//
//	switch v := x.(type) {
//	case Name:
//		if c := heapsize.Unbox(w, unsafe.Pointer(&x), v, true); c != nil {
//			w.String(&c.Text)
//		}
//	}
//
// Boxes are immutable, may be shared, and may be in read-only memory. If strings are to be detached, Unbox
// immediately gives the variable a new box with an equal value, which is then walked: variables that shared a
// box have one each then, and each is charged. Values in the runtime's static tables, such as nil slices,
// stay there. An empty string needs no box and must not be passed to Unbox.
//
// Unbox allocates at most a new box, and nothing if it only counts.
func Unbox[T any](w *Walk, x unsafe.Pointer, v T, pointers bool) *T {
	data := &(*[2]unsafe.Pointer)(x)[1]
	if !w.Detach {
		if !w.Box(x, unsafe.Sizeof(v), pointers) {
			return nil
		}
		return (*T)(*data)
	}
	if static(*data) || !w.visit(span{addr: uintptr(x), kind: counted}) { // of size 0: marks the variable, costs nothing
		return nil
	}
	c := new(T)
	*c = v
	*data = unsafe.Pointer(c)
	w.Enter(*data, unsafe.Sizeof(v), pointers)
	return c
}
