package slab

import (
	"reflect"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapBytes returns n bytes in a separate mapping, or nil if the system refuses.
func mapBytes(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

// protectBytes makes every access to a mapping fault.
func protectBytes(b []byte) {
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		panic("BUG: slab: protect a mapping of its own: " + err.Error())
	}
}

func unmapBytes(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic("BUG: slab: unmap a mapping of its own: " + err.Error())
	}
}

// rawBytes returns the memory of items without pointers.
func rawBytes[T any](items []T) []byte {
	n := int(bytesOf[T](cap(items)))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), n)
}

// stale is the byte that overwrites released memory.
const stale = 0xDB

func overwrite[T any](items []T) {
	b := rawBytes(items)
	for i := range b {
		b[i] = stale
	}
}

// hasPointers reports whether the collector scans values of T.
func hasPointers[T any]() bool { return pointersIn(reflect.TypeFor[T]()) }

func pointersIn(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return t.Len() > 0 && pointersIn(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if pointersIn(f.Type) {
				return true
			}
		}
		return false
	default:
		return true
	}
}
