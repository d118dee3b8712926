package heapsize

import (
	"slices"
	"sync"
	"unsafe"
)

const (
	wordSize = unsafe.Sizeof(uintptr(0))

	// tinyBlock is the block of the runtime's tiny allocator, which packs pointer-free
	// objects smaller than it; see the package documentation.
	tinyBlock = 16

	// largestSmall is the largest size class. Larger objects occupy whole pages.
	largestSmall = 32 << 10
)

// classTable is the running allocator's behavior. It is immutable once learned.
type classTable struct {
	// rounded is the size class of each count of 8-byte units, in such units.
	rounded [largestSmall/8 + 1]uint16

	// headerPast is the largest object with pointers but without a malloc header; header is the size of that
	// header.
	headerPast, header uintptr

	page uintptr
}

// classes queries the runtime once, by growing slices: append rounds the capacity up to the size that the
// allocator charges. This costs about a millisecond and 0.7 MB of garbage.
var classes = sync.OnceValue(learnClasses) //nolint:gochecknoglobals // of the running program, learned once

func learnClasses() *classTable {
	t := new(classTable)
	for n := 1; n <= largestSmall; {
		class := cap(slices.Grow([]byte(nil), n))
		for u := (n + 7) / 8; u <= min(class, largestSmall)/8; u++ {
			t.rounded[u] = uint16(class / 8)
		}
		n = class + 1
	}
	// An object with pointers above some size has a header: its slice gets the class minus the header.
	for words := 1; words <= largestSmall/int(wordSize); {
		size := uintptr(words) * wordSize
		got := uintptr(cap(slices.Grow([]*byte(nil), words))) * wordSize
		if plain := uintptr(t.rounded[(size+7)/8]) * 8; got%8 != 0 || got != plain {
			t.headerPast = size - wordSize
			t.header = uintptr(t.rounded[(got+7)/8])*8 - got
			break
		}
		words = int(got/wordSize) + 1
	}
	const pages = 2 * largestSmall
	t.page = uintptr(cap(slices.Grow([]byte(nil), pages+1))) - pages
	return t
}

// Object returns the heap bytes of one allocation of size bytes, whose type has pointers or not: its size
// class, with the malloc header of larger objects with pointers, or whole pages for large ones. A size of
// zero costs nothing. A pointer-free object smaller than 16 bytes is charged the 16-byte block that it keeps
// alive.
//
// Object does not allocate and takes a few nanoseconds; only the first call learns the size classes.
func Object(size uintptr, pointers bool) uintptr {
	switch {
	case size == 0:
		return 0
	case size < tinyBlock && !pointers:
		return tinyBlock
	}
	t := classes()
	if pointers && size > t.headerPast && size <= largestSmall-t.header {
		size += t.header
	}
	if size <= largestSmall {
		return uintptr(t.rounded[(size+7)/8]) * 8
	}
	return (size + t.page - 1) / t.page * t.page
}
