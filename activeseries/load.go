//go:build !invariants && (amd64 || arm64)

package activeseries

import "unsafe"

// load64 is the word at b[i:], in little-endian order. What was read ends before a slack, which is
// longer than a word and in which each search stops, so that i+8 is within b: under the tag invariants,
// with which the fuzz tests run too, it is checked. Two checks and the arithmetic of a slice for
// each load were a third of a scan.
func load64(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load32 is load64 of half a word.
func load32(b []byte, i int) uint32 {
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load16 is load64 of a quarter of a word.
func load16(b []byte, i int) uint16 {
	return *(*uint16)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}
