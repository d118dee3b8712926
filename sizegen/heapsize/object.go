package heapsize

import (
	"sync"
	"unsafe"
)

// An object is the allocation that an address is in, as the runtime knows it.
type object struct {
	base, size uintptr // size 0: the address is not in an object of the heap
	pointers   bool    // the collector scans it
}

// spanFields are the offsets of the fields of the runtime's span that objectAt reads.
type spanFields struct {
	elemSize  uintptr
	spanClass uintptr // its lowest bit is set for objects without pointers
}

// spanWords is the number of words of a span that are searched for the fields, 19 or, on 32-bit processors, 24; it has
// more.
const spanWords = 24 - 5*(wordSize/8)

// spans is learned from objects of known size classes; nil on a release that does not have the fields.
var spans = sync.OnceValue(learnSpans) //nolint:gochecknoglobals // of the running program, learned once

func learnSpans() *spanFields {
	if !runtimeFindsObjects {
		return nil
	}
	var f spanFields
	var words [spanWords]bool // that differ from the size of an object
	var bytes [spanWords * wordSize]bool
	for _, n := range []int{3, 6, 14, 40, 64} { // words: classes from 24 bytes to 512
		scanned, plain := newWords[*byte](n), newWords[uintptr](n)
		a, b := spanOf(unsafe.Pointer(&scanned[0])), spanOf(unsafe.Pointer(&plain[0]))
		if a == nil || b == nil {
			return nil
		}
		want := uintptr(n) * wordSize
		for i := range words {
			at := uintptr(i) * wordSize
			words[i] = words[i] || wordAt(a, at) != Object(want, true) || wordAt(b, at) != Object(want, false)
		}
		for i := range bytes {
			x, y := *(*byte)(unsafe.Add(a, i)), *(*byte)(unsafe.Add(b, i))
			sameClass := Object(want, true) == Object(want, false) // larger objects with pointers have a header
			bytes[i] = bytes[i] || x < 4 || x&1 != 0 || sameClass && y != x|1 || y&1 == 0
		}
		clear(scanned)
		clear(plain)
	}
	for i := len(words) - 1; i >= 0; i-- {
		if !words[i] {
			f.elemSize = uintptr(i) * wordSize
		}
	}
	for i := len(bytes) - 1; i >= 0; i-- {
		if !bytes[i] {
			f.spanClass = uintptr(i)
		}
	}
	if f.elemSize == 0 || f.spanClass == 0 {
		return nil
	}
	return &f
}

// newWords returns a slice on the heap.
//
//go:noinline
func newWords[T any](n int) []T { return make([]T, n) }

// spanOf returns the runtime's span of p, nil if p is not in an object of the heap.
func spanOf(p unsafe.Pointer) unsafe.Pointer {
	base, s, _ := findObject(uintptr(p), 0, 0)
	if base == 0 {
		return nil // a span of stacks
	}
	return s
}

func wordAt(p unsafe.Pointer, offset uintptr) uintptr { return *(*uintptr)(unsafe.Add(p, offset)) }

// ObjectsKnown reports whether a Walk knows the objects that addresses are in. It does on the Go releases that
// it was verified with (1.25 to 1.27); on others it takes each address for the start of an object.
func ObjectsKnown() bool { return spans() != nil }

// objectAt returns the object that p is in. It must not be called with an address that may be free.
func objectAt(p unsafe.Pointer) object {
	f := spans()
	if f == nil {
		return object{}
	}
	base, s, _ := findObject(uintptr(p), 0, 0)
	if base == 0 {
		return object{} // not on the heap, or on a stack
	}
	return object{base, wordAt(s, f.elemSize), *(*byte)(unsafe.Add(s, f.spanClass))&1 == 0}
}

// onStack reports whether p is probably in the frames of the current goroutine's callers. Objects there are charged
// as if they were on the heap.
//
//go:noinline
func onStack(p unsafe.Pointer) bool {
	const frames = 256 << 10
	var here byte
	return uintptr(p)-uintptr(unsafe.Pointer(&here)) < frames
}
