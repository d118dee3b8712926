//go:build !go1.25 || go1.28

package heapsize

import "unsafe"

const runtimeFindsObjects = false

func findObject(uintptr, uintptr, uintptr) (base uintptr, s unsafe.Pointer, objIndex uintptr) {
	return 0, nil, 0
}
