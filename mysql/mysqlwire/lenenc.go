package mysqlwire

// Bytes that cannot start a length-encoded integer.
const (
	lenencNull = 0xFB // NULL in a text row
	lenencBad  = 0xFF // the first byte of an ERR packet
)

// LenencInt reads a length-encoded integer at the start of b and returns it with the number of bytes it
// occupies: 1, 3, 4 or 9. n is 0 if b is too short or starts with 0xFB (NULL) or 0xFF, which are not
// integers. It does not allocate.
func LenencInt(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch c := b[0]; {
	case c < lenencNull:
		return uint64(c), 1
	case c == 0xFC && len(b) >= 3:
		return uint64(b[1]) | uint64(b[2])<<8, 3
	case c == 0xFD && len(b) >= 4:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, 4
	case c == 0xFE && len(b) >= 9:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16 | uint64(b[4])<<24 |
			uint64(b[5])<<32 | uint64(b[6])<<40 | uint64(b[7])<<48 | uint64(b[8])<<56, 9
	}
	return 0, 0
}

// AppendLenencInt appends v in its shortest length-encoded form.
// It does not allocate when dst has room.
func AppendLenencInt(dst []byte, v uint64) []byte {
	switch {
	case v < lenencNull:
		return append(dst, byte(v))
	case v < 1<<16:
		return append(dst, 0xFC, byte(v), byte(v>>8))
	case v < 1<<24:
		return append(dst, 0xFD, byte(v), byte(v>>8), byte(v>>16))
	}
	return append(dst, 0xFE, byte(v), byte(v>>8), byte(v>>16), byte(v>>24),
		byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
}

// LenencString returns the length-encoded string at the start of b, a view of b with capped capacity, and the
// number of bytes it occupies including its length. n is 0 if b is too short. It does not allocate.
func LenencString(b []byte) (s []byte, n int) {
	v, n := LenencInt(b)
	if n == 0 || v > uint64(len(b)-n) {
		return nil, 0
	}
	end := n + int(v)
	return b[n:end:end], end
}

// AppendLenencString appends s with its length before it.
// It does not allocate when dst has room.
func AppendLenencString(dst, s []byte) []byte {
	return append(AppendLenencInt(dst, uint64(len(s))), s...)
}
