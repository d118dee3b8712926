//go:build invariants || !(amd64 || arm64)

package activeseries

import "encoding/binary"

func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
func load16(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[i:]) }
