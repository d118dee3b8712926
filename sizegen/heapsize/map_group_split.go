//go:build goexperiment.mapsplitgroup

package heapsize

import "unsafe"

// groupSize returns the bytes of a group: its keys, then its elements.
func groupSize[K, V any]() uintptr {
	return unsafe.Sizeof(struct {
		ctrl  uint64
		keys  [groupSlots]K
		elems [groupSlots]V
	}{})
}
