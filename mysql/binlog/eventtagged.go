package binlog

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// Fields of an event with a tagged GTID, in order.
const (
	taggedFlags = iota
	taggedUUID
	taggedNumber
	taggedTag
)

const (
	// taggedVersion is the only version of the format of these events.
	taggedVersion = 1

	// maxTag is the maximum number of characters of a tag.
	maxTag = 32
)

// taggedGTID parses the GTID from the body of an event with a tagged GTID. It allocates for the tag.
//
// Specification: MySQL's libs/mysql/serialization and Gtid_event (8.3).
func taggedGTID(b []byte) (s gtidSource, number uint64, ok bool) {
	ok = true
	next := func() (v uint64) {
		v, n := serialInt(b)
		if n == 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	if next() != taggedVersion {
		return s, 0, false
	}
	next() // total bytes
	next() // the last field that may not be ignored
	for field := range uint64(taggedTag + 1) {
		if next() != field {
			return s, 0, false
		}
		switch field {
		case taggedFlags:
			next()
		case taggedUUID:
			for i := range s.uuid {
				s.uuid[i] = byte(next())
			}
		case taggedNumber:
			number = next() >> 1 // the lowest bit is the sign
		case taggedTag:
			n := next()
			if !ok || n == 0 || n > maxTag || n > uint64(len(b)) {
				return s, 0, false
			}
			s.tag = strings.ToLower(string(b[:n]))
		}
	}
	return s, number, ok && number != 0
}

// serialInt parses a number and returns the number of its bytes, 0 if b is too short: the number of trailing
// one bits of the first byte is the number of bytes after it; the remaining bits are the number.
func serialInt(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	n = bits.TrailingZeros8(^b[0]) + 1 // 9 for 0xFF, whose complement has no ones
	if len(b) < n {
		return 0, 0
	}
	if n == 9 {
		return binary.LittleEndian.Uint64(b[1:]), n
	}
	return littleEndian(b[:n]) >> n, n
}
