package heapsize

import "unsafe"

const (
	groupSlots = 8   // slots in a group of a Swiss map
	maxDirect  = 128 // larger keys and elements are allocated separately
)

// MapShape is the memory layout of a map type. Create it by [ShapeOf] or [ShapeWith] and reuse it: a map's
// bytes are then computed without reflection.
type MapShape struct {
	group         uintptr // bytes of one group: control word and eight slots
	groupPointers bool

	// Heap bytes of one indirect key and element, 0 if they are in the slot.
	key, elem uintptr
}

// ShapeOf returns the shape of map[K]V. It inspects both types by reflection.
func ShapeOf[K comparable, V any]() MapShape {
	return ShapeWith[K, V](HasPointers[K](), HasPointers[V]())
}

// ShapeWith returns the shape of map[K]V for a caller that knows which of the two types have pointers. It
// does not allocate.
func ShapeWith[K comparable, V any](keyPointers, elemPointers bool) MapShape {
	var s MapShape
	keySize, elemSize := unsafe.Sizeof(*new(K)), unsafe.Sizeof(*new(V))
	indirectKey, indirectElem := keySize > maxDirect, elemSize > maxDirect
	switch {
	case indirectKey && indirectElem:
		s.group = groupSize[*K, *V]()
	case indirectKey:
		s.group = groupSize[*K, V]()
	case indirectElem:
		s.group = groupSize[K, *V]()
	default:
		s.group = groupSize[K, V]()
	}
	s.groupPointers = keyPointers || elemPointers || indirectKey || indirectElem
	if indirectKey {
		s.key = Object(keySize, keyPointers)
	}
	if indirectElem {
		s.elem = Object(elemSize, elemPointers)
	}
	return s
}

// Map returns the heap bytes of m: header, directory, tables, groups, and keys and elements that are too
// large for their slots; the objects that keys and elements point to are not included. It must not run while
// m is written. [MapOf] avoids the reflection.
func Map[K comparable, V any](m map[K]V) uintptr { return MapOf(ShapeOf[K, V](), m) }

// MapOf is [Map] with a known shape. It does not allocate; its cost grows with the number of tables, about
// one per thousand entries.
func MapOf[K comparable, V any](s MapShape, m map[K]V) uintptr {
	if m == nil {
		return 0
	}
	n := uintptr(len(m)) * (s.key + s.elem)
	if !mapsExact() {
		return n + s.estimate(len(m))
	}
	return n + s.measure(*(*unsafe.Pointer)(unsafe.Pointer(&m)))
}

// MapsExact reports whether [Map] reads the actual tables of a map. It is false on a Go release whose map
// layout this package does not know; maps are then charged a bound that is valid for maps that were never
// larger than they are.
func MapsExact() bool { return mapsExact() }

// estimate bounds the memory of a map of n entries that was never larger.
func (s MapShape) estimate(n int) uintptr {
	const header, table, maxTable = 16 + 4*wordSize, 16 + 2*wordSize, 1024
	total := Object(header, true)
	if n == 0 {
		return total
	}
	if n <= groupSlots {
		return total + Object(s.group, s.groupPointers)
	}
	// A table is full at 7/8. One that just split or doubled uses half of that.
	slots := 2 * groupSlots
	for slots*7/8 < n {
		slots *= 2
	}
	if slots <= maxTable {
		return total + Object(wordSize, true) + Object(table, true) +
			Object(uintptr(slots/groupSlots)*s.group, s.groupPointers)
	}
	tables := uintptr((n*16/7 + maxTable - 1) / maxTable)
	return total + Object(4*tables*wordSize, true) +
		tables*(Object(table, true)+Object(maxTable/groupSlots*s.group, s.groupPointers))
}
