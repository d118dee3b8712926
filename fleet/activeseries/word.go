package activeseries

import (
	"math/bits"
)

// slack is the number of zero bytes after the data in a buffer. Zero is a control character, which no token
// of JSON contains: every search for the end of a token stops there, so words can be read without a check of
// the bytes that are left.
const slack = 16

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by the highest bit of each byte, the bytes of x that have a special meaning in a string:
// quotes, backslashes, control characters and bytes that are not ASCII. The lowest mark is exact; borrows may
// set marks above it.
//
// For a byte below 0x80, c^2 is below 0x21 exactly for the controls (0x00…0x1f) and the quote (0x22); c^'\\'
// is below 1 exactly for the backslash. In these cases the subtraction borrows into the highest bit.
func special(x uint64) uint64 {
	return (((x ^ 2*ones) - 0x21*ones) | ((x ^ '\\'*ones) - ones) | x) & highs
}

// plainRun returns the index of the first special byte of b at or after i. The slack contains one.
func plainRun(b []byte, i int) int {
	for {
		if m := special(load64(b, i)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipSpace returns the index of the first byte of b at or after i that is not white space.
func skipSpace(b []byte, i int) int {
	for isSpace(b[i]) {
		i++
	}
	return i
}
