//go:build !invariants && (amd64 || arm64)

package activeseries

import "unsafe"

// load64 returns the word at b[i:], in little-endian order. The bytes read are followed by a slack, which is
// longer than a word and stops every search, so i+8 is within b: this is checked under the tag invariants,
// which the fuzz tests use too. The two checks and the arithmetic of a slice for each load would take a third
// of a scan.
func load64(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load32 is like load64 for half a word.
func load32(b []byte, i int) uint32 {
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load16 is like load64 for a quarter of a word.
func load16(b []byte, i int) uint16 {
	return *(*uint16)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}
