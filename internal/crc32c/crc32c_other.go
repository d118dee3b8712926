//go:build !amd64

package crc32c

// hash/crc32 divides the data, or the CPU has no instruction.
const divides = false

func divided(*byte, uintptr, uintptr, uint64, uint64) uint32 { panic("BUG: not on this architecture") }
