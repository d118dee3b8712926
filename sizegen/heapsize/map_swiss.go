//go:build go1.25 && !go1.28 && (go1.26 || goexperiment.swissmap)

package heapsize

import (
	"sync"
	"unsafe"
)

// mapHeader and mapTable have the layout of internal/runtime/maps.Map and .table in Go 1.25 to 1.27. The
// build constraint above lists the releases it was verified with, and verifyMaps checks it at first use.
type mapHeader struct {
	used   uint64
	_      uintptr        // seed
	dir    unsafe.Pointer // dirLen table pointers, or one group if dirLen is 0
	dirLen int
	_      [4]uint8 // depth, shift, writing, tombstones
	_      uint64   // clears
}

type mapTable struct {
	used, capacity, _ uint16
	_                 uint8 // local depth
	index             int
	groups            unsafe.Pointer
	lengthMask        uint64
}

var mapsExact = sync.OnceValue(verifyMaps) //nolint:gochecknoglobals // of the running program, checked once

// tableAt returns the i-th table of the directory.
func (h *mapHeader) tableAt(i int) *mapTable {
	return *(**mapTable)(unsafe.Add(h.dir, uintptr(i)*wordSize))
}

// measure sums the actual memory of the map at p.
func (s MapShape) measure(p unsafe.Pointer) uintptr {
	h := (*mapHeader)(p)
	total := Object(unsafe.Sizeof(*h), true)
	if h.dir == nil {
		return total
	}
	if h.dirLen == 0 {
		return total + Object(s.group, s.groupPointers)
	}
	total += Object(uintptr(h.dirLen)*wordSize, true)
	var last *mapTable
	for i := range h.dirLen {
		t := h.tableAt(i)
		if t == last { // a table that is split less deeply than others fills a run of entries
			continue
		}
		last = t
		total += Object(unsafe.Sizeof(*t), true) +
			Object(uintptr(t.lengthMask+1)*s.group, s.groupPointers)
	}
	return total
}

// verifyMaps builds maps of known shapes and reports whether their headers have the expected values: counts
// first, pointers only if the counts were right.
func verifyMaps() bool {
	for _, n := range []int{0, 1, groupSlots, groupSlots + 1, 500, 5000} {
		m := make(map[uint64]uint64)
		for i := range n {
			m[uint64(i)] = uint64(i)
		}
		h := *(**mapHeader)(unsafe.Pointer(&m))
		switch {
		case h.used != uint64(n) || h.dirLen < 0:
			return false
		case n <= groupSlots:
			if h.dirLen != 0 || n > 0 && h.dir == nil {
				return false
			}
			continue
		case h.dirLen == 0 || h.dirLen&(h.dirLen-1) != 0 || h.dirLen > n || h.dir == nil:
			return false
		}
		var used, tables int
		for i := 0; i < h.dirLen; {
			t := h.tableAt(i)
			if t == nil || t.index != i || t.groups == nil ||
				uint64(t.capacity) != (t.lengthMask+1)*groupSlots || t.used > t.capacity {
				return false
			}
			used += int(t.used)
			tables++
			for i++; i < h.dirLen && h.tableAt(i) == t; i++ {
			}
		}
		if used != n || tables*1024 < n {
			return false
		}
	}
	return true
}
