package activeseries

import (
	"math/bits"
)

// slack is how many zero bytes follow what was read in a buffer. A zero is a control character,
// which no token of JSON contains: every search for the end of a token stops there, so that
// words can be read without asking first how many bytes are left.
const slack = 16

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by the highest bit of a byte, which bytes of x do not stand for themselves in
// a string: quotes, backslashes, control characters and what is not ASCII. The lowest mark is
// exact; borrows may set marks above it.
//
// For a byte below 0x80: c^2 is below 0x21 for the controls (0x00…0x1f) and the quote (0x22), and
// for nothing else; c^'\\' is below 1 for the backslash alone. Subtracting borrows into the
// highest bit exactly then.
func special(x uint64) uint64 {
	return (((x ^ 2*ones) - 0x21*ones) | ((x ^ '\\'*ones) - ones) | x) & highs
}

// plainRun is the index of the first special byte of b at or after i. There is one at the latest
// in the slack.
func plainRun(b []byte, i int) int {
	for {
		if m := special(load64(b, i)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipSpace is the index of the first byte of b at or after i that is not white space.
func skipSpace(b []byte, i int) int {
	for isSpace(b[i]) {
		i++
	}
	return i
}
