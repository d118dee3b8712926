package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

const (
	word = 8        // bytes
	part = 3 * word // the data of a round: one word of each of the three parts

	// least is the length from which the division is faster.
	least = 4 * part

	// maxRounds are the rounds of a page of 16 KiB, the largest unit with a checksum.
	maxRounds = 16 << 10 / part
)

// Checksum returns the checksum of b. It does not allocate.
func Checksum(b []byte) uint32 {
	if len(b) < least || len(b) >= (maxRounds+1)*part || !divides {
		return crc32.Checksum(b, table)
	}
	n := len(b) / part
	return ^divided(&b[0], uintptr(n), uintptr(len(b)-n*part), uint64(shifts[n]), uint64(shifts[2*n]))
}

// shifts[n] is x to the power of 64n-33, modulo the polynomial, with its bits in the order of the checksum's. The product
// of a part's checksum and it, combined with the last word of n, has the same effect as the part followed by n words.
var shifts = shiftsOf(2*maxRounds + 1) //nolint:gochecknoglobals // a table

func shiftsOf(n int) []uint32 {
	shifts := make([]uint32, n)
	if !divides {
		return nil
	}
	var zeros [word]byte
	shifts[1] = 1 // x to the power of 31
	for i := 2; i < n; i++ {
		shifts[i] = ^crc32.Update(^shifts[i-1], table, zeros[:]) // 64 zero bits: times x to the power of 64
	}
	return shifts
}
