package querylog

import "github.com/taredb/tare/mysql/sqldigest"

//go:generate go run gen_errorshapes.go

// An errorShape is a server's message template, reduced for redaction: the length and checksum of the text
// before, between and after the holes, and the kind of each hole. One byte is a bit set of the servers with
// this template, one the number of holes; then follow a segment, and each hole's kind and next segment.
//
// A hole of kind i is a name, which is kept. Kind d is a number, kind v anything; both are masked. Only at
// the first hole may a name be followed by a hole of kind v, because a value there could contain the
// template's words around a forged name.
type errorShape string

const (
	segmentSize = 6 // length and sum
	holeSize    = 1 + segmentSize
	indexSize   = 6 // number and offset
)

// errorShapesOf returns the concatenated shapes of an error's templates, of all servers.
func errorShapesOf(number uint16) string {
	from, to := 0, len(errorIndex)/indexSize-1
	for from < to {
		middle := (from + to) / 2
		if n, _ := indexed(middle); n < number {
			from = middle + 1
		} else {
			to = middle
		}
	}
	n, start := indexed(from)
	if n != number || from == len(errorIndex)/indexSize-1 {
		return ""
	}
	_, end := indexed(from + 1)
	return errorShapes[start:end]
}

// indexed returns the number and the offset of an entry of errorIndex. The last entry is the end of the last
// shape.
func indexed(i int) (number uint16, offset uint32) {
	b := errorIndex[i*indexSize:]
	return little16(b), little32(b[2:])
}

// appendShaped appends a text with its values masked. It reports whether the text matches one of the number's
// templates on this server.
func appendShaped(dst []byte, server sqldigest.ServerKind, number uint16, text []byte) ([]byte, bool) {
	var holes [maxHoles]hole
	for all := errorShapesOf(number); all != ""; {
		shape := errorShape(all[:2+segmentSize+int(all[1])*holeSize])
		all = all[len(shape):]
		if shape[0]&(1<<server) != 0 && shape.match(text, &holes) {
			return shape.append(dst, text, &holes), true
		}
	}
	return dst, false
}

func (s errorShape) holes() int { return int(s[1]) }

// kind returns the kind of the hole before segment n.
func (s errorShape) kind(n int) byte { return s[1+n*holeSize] }

// segment returns the length and the checksum of segment n.
func (s errorShape) segment(n int) (length int, sum uint32) {
	b := string(s[2+n*holeSize:])
	return int(little16(b)), little32(b[2:])
}

// match reports whether a text matches the template, and sets its holes. Like matchTemplate it matches from
// the end.
func (s errorShape) match(text []byte, holes *[maxHoles]hole) bool {
	length, sum := s.segment(0)
	n, end := s.holes(), len(text)
	if n == 0 {
		return len(text) == length && segmentSum(text) == sum
	}
	if n > maxHoles || len(text) < length || segmentSum(text[:length]) != sum {
		return false
	}
	first := length
	if length, sum = s.segment(n); end-length < first || segmentSum(text[end-length:]) != sum {
		return false
	}
	end -= length
	for ; n > 0; n-- {
		h := hole{first, end}
		if n > 1 {
			length, sum = s.segment(n - 1)
			end = lastSegment(text[first:end], length, sum) + first
			if end < first {
				return false
			}
			h.from = end + length
		}
		if s.kind(n) == 'd' && !printedNumber(text[h.from:h.to]) {
			return false
		}
		holes[n-1] = h
	}
	return true
}

// append appends a matching text with question marks for its values.
func (s errorShape) append(dst, text []byte, holes *[maxHoles]hole) []byte {
	shown := 0
	for n, h := range holes[:s.holes()] {
		if s.kind(n+1) == 'i' && plainName(text[h.from:h.to], "") {
			continue
		}
		dst = append(append(dst, text[shown:h.from]...), '?')
		shown = h.to
	}
	return append(dst, text[shown:]...)
}

// A segment's sum is the upper half of a polynomial times a factor. Without the factor the upper half would
// not depend on the first bytes.
const (
	sumBase   = 0x9E3779B97F4A7C15
	sumFactor = 0xD6E8FEB86659FD93
)

// segmentSum returns the checksum of a text.
func segmentSum(text []byte) uint32 {
	var sum uint64
	for i := len(text) - 1; i >= 0; i-- {
		sum = sum*sumBase + uint64(text[i]) + 1
	}
	return uint32(sum * sumFactor >> 32)
}

// lastSegment returns the offset of the last segment with a length and sum in a text, or a negative number.
func lastSegment(text []byte, length int, want uint32) int {
	at := len(text) - length
	if at < 0 {
		return -1
	}
	var sum uint64
	top := uint64(1) // the factor of the last byte
	for i := len(text) - 1; i >= at; i-- {
		sum = sum*sumBase + uint64(text[i]) + 1
		if i > at {
			top *= sumBase
		}
	}
	for uint32(sum*sumFactor>>32) != want {
		at--
		if at < 0 {
			return -1
		}
		sum = (sum-(uint64(text[at+length])+1)*top)*sumBase + uint64(text[at]) + 1
	}
	return at
}

// printedNumber reports whether b is a number as servers print it.
func printedNumber(b []byte) bool {
	for i, c := range b {
		if (c < '0' || c > '9') && (i > 0 || c != '-') {
			return false
		}
	}
	return len(b) > 0
}

func little16(b string) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }

func little32(b string) uint32 { return uint32(little16(b)) | uint32(little16(b[2:]))<<16 }
