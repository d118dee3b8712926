package heapsize

import (
	"reflect"
	"unsafe"
)

// hchan is the size of a channel's structure, without its buffer. It is the one size that the runtime does
// not reveal; the tests compare it with the heap.
const hchan = (13*wordSize + 8 + 7) &^ 7

// String returns the heap bytes of s as if s owned its whole backing array: a substring keeps its whole
// parent alive, which s does not show. It does not allocate.
func String(s string) uintptr { return Object(uintptr(len(s)), false) }

// Pinned returns the heap bytes that s keeps alive: of the object that it is cut from, 0 for a constant. Where objects are
// not known, it is that of [String]. It does not allocate.
func Pinned(s string) uintptr {
	if !ObjectsKnown() {
		return String(s)
	}
	return objectAt(unsafe.Pointer(unsafe.StringData(s))).size
}

// Bytes returns the heap bytes of the array of b, by capacity. It does not allocate.
func Bytes(b []byte) uintptr { return Object(uintptr(cap(b)), false) }

// Slice returns the heap bytes of the array of s, by capacity; objects that its elements point to are not
// included. Element types with structs are inspected by reflection on each call: callers that know the result
// call [Array].
func Slice[T any](s []T) uintptr {
	return Array(uintptr(cap(s)), unsafe.Sizeof(*new(T)), HasPointers[T]())
}

// Array returns the heap bytes of one allocation of n elements of elem bytes each. It does
// not allocate.
func Array(n, elem uintptr, pointers bool) uintptr { return Object(n*elem, pointers) }

// Boxed returns the heap bytes that the interface value any(v) occupies for v itself. Values of pointer shape
// are in the interface word, and zero-size, single-byte, empty and small values come from the runtime's
// static tables: they cost nothing.
func Boxed[T any](v T) uintptr {
	size, pointers := unsafe.Sizeof(v), HasPointers[T]()
	if size <= 1 || pointers && size == wordSize {
		return 0
	}
	if !pointers {
		number := uint64(1 << 63)
		switch align := unsafe.Alignof(v); {
		case size == 2 && align == unsafe.Alignof(uint16(0)):
			number = uint64(*(*uint16)(unsafe.Pointer(&v)))
		case size == 4 && align == unsafe.Alignof(uint32(0)):
			number = uint64(*(*uint32)(unsafe.Pointer(&v)))
		case size == 8 && align == unsafe.Alignof(uint64(0)):
			number = *(*uint64)(unsafe.Pointer(&v))
		}
		if number < 256 {
			return 0
		}
	}
	switch t := reflect.TypeFor[T](); {
	case t.Kind() == reflect.String && *(*string)(unsafe.Pointer(&v)) == "":
		return 0
	case t.Kind() == reflect.Slice && *(*unsafe.Pointer)(unsafe.Pointer(&v)) == nil:
		return 0
	}
	return Object(size, pointers)
}

// Chan returns the heap bytes of a channel with room for n elements of elem bytes each; objects that the
// elements point to, and the goroutines waiting on it, are not included.
func Chan(n int, elem uintptr, pointers bool) uintptr {
	buffer := uintptr(n) * elem
	if !pointers {
		return Object(hchan+buffer, buffer == 0)
	}
	return Object(hchan, true) + Object(buffer, true)
}

// HasPointers reports whether the garbage collector scans a T. It inspects T by reflection: generated code
// and constructors call it once and keep the result.
func HasPointers[T any]() bool { return hasPointers(reflect.TypeFor[T]()) }

func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() { //nolint:modernize // the iterator of Fields allocates
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return k < reflect.Bool || k > reflect.Complex128
	}
}
