package binlog

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// Fields of an event that gives a transaction a GTID with a tag, in their order.
const (
	taggedFlags = iota
	taggedUUID
	taggedNumber
	taggedTag
)

const (
	// taggedVersion is the one version of how these events are written.
	taggedVersion = 1

	// maxTag is how many characters a tag has at most.
	maxTag = 32
)

// taggedGTID reads the GTID out of the body of an event that gives one with a tag. It
// allocates for the tag.
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
	next() // bytes in all
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
			number = next() >> 1 // the sign is the lowest bit
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

// serialInt reads a number and answers how many bytes it took, 0 when b is too short: the ones at
// the low end of the first byte count the bytes behind it, the rest are the number's bits.
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
