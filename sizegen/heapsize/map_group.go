//go:build !goexperiment.mapsplitgroup

package heapsize

import "unsafe"

// groupSize returns the bytes of a group: each key beside its element.
func groupSize[K, V any]() uintptr {
	return unsafe.Sizeof(struct {
		ctrl  uint64
		slots [groupSlots]struct {
			key  K
			elem V
		}
	}{})
}
