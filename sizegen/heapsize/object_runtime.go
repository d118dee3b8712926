//go:build go1.25 && !go1.28

package heapsize

import "unsafe"

const runtimeFindsObjects = true

// findObject returns the start of the object that p is in, its span and its number there, or zeros if p is not in an
// object of the heap. The runtime keeps it for other packages: go.dev/issue/67401.
//
//go:linkname findObject runtime.findObject
//go:noescape
func findObject(p, refBase, refOff uintptr) (base uintptr, s unsafe.Pointer, objIndex uintptr)
