//go:build !go1.25 || go1.28 || (!go1.26 && !goexperiment.swissmap)

package heapsize

import "unsafe"

// mapsExact reports false: the map layout of this Go release is unknown; see [MapsExact].
func mapsExact() bool { return false }

func (s MapShape) measure(unsafe.Pointer) uintptr {
	panic("BUG: map measured without a known layout")
}
