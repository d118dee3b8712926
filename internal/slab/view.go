package slab

import (
	"fmt"
	"reflect"
	"unsafe"
)

// View returns the first n values of type T in the bytes of s, with capped capacity. T must have no pointers
// and be aligned to at most 8 bytes; the slab must be large enough. The values are those of the slab's
// current bytes, and valid until the slab's Release. It does not allocate.
func View[T any](s Slab, n int) []T {
	var t T
	b := s.Bytes()
	if n < 0 || int64(n)*int64(unsafe.Sizeof(t)) > int64(len(b)) {
		panic(fmt.Sprintf("BUG: slab: %d values of %d bytes in a slab of %d", n, unsafe.Sizeof(t), len(b)))
	}
	if n == 0 {
		return nil
	}
	if invariants && (unsafe.Alignof(t) > 8 || s.piece.depot.viewPointers(reflect.TypeFor[T]())) {
		panic(fmt.Sprintf("BUG: slab: values of %T in a slab of bytes", t))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// viewPointers caches hasPointers for a type of views; the first call per type allocates.
func (d *depot[T]) viewPointers(t reflect.Type) bool {
	if known, ok := d.views.Load(t); ok {
		return known.(bool)
	}
	has := pointersIn(t)
	d.views.Store(t, has)
	return has
}
