package binlog

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Types of values in MySQL's binary JSON.
const (
	jsonSmallObject = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonString
	jsonOpaque = 15
)

const (
	// maxJSONDepth is the maximum nesting of documents in MySQL.
	maxJSONDepth = 100

	// jsonGrowth bounds the ratio of a document's text to its bytes: no document of a server has a longer
	// text, but values that share their bytes would.
	jsonGrowth, jsonLeast = 8, 256
)

// A jsonText formats a document as text.
type jsonText struct {
	dst   []byte
	limit int // maximum length of dst
}

// appendJSON appends a document of MySQL's binary JSON as the text that a SELECT returns. ok is false if the
// document is invalid. An empty document, which UPDATE IGNORE may leave, is null.
//
// Specification: MySQL's sql-common/json_binary.h.
func appendJSON(dst, doc []byte) (_ []byte, ok bool) {
	if len(doc) == 0 {
		return append(dst, "null"...), true
	}
	t := jsonText{dst: dst, limit: len(dst) + jsonLeast + jsonGrowth*len(doc)}
	ok = t.value(doc[0], doc[1:], 0)
	return t.dst, ok
}

// value appends a value of a type that starts at b; lengths and offsets in it are relative to b.
func (t *jsonText) value(kind byte, b []byte, depth int) bool {
	if depth > maxJSONDepth || len(t.dst) > t.limit {
		return false
	}
	need := 0
	switch kind {
	case jsonLiteral:
		need = 1
	case jsonInt16, jsonUint16:
		need = 2
	case jsonInt32, jsonUint32:
		need = 4
	case jsonInt64, jsonUint64, jsonDouble:
		need = 8
	}
	if len(b) < need {
		return false
	}
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return t.container(kind, b, depth)
	case jsonLiteral:
		if b[0] > 2 {
			return false
		}
		t.dst = append(t.dst, [...]string{"null", "true", "false"}[b[0]]...)
	case jsonInt16:
		t.dst = strconv.AppendInt(t.dst, int64(int16(binary.LittleEndian.Uint16(b))), 10)
	case jsonUint16:
		t.dst = strconv.AppendUint(t.dst, uint64(binary.LittleEndian.Uint16(b)), 10)
	case jsonInt32:
		t.dst = strconv.AppendInt(t.dst, int64(int32(binary.LittleEndian.Uint32(b))), 10)
	case jsonUint32:
		t.dst = strconv.AppendUint(t.dst, uint64(binary.LittleEndian.Uint32(b)), 10)
	case jsonInt64:
		t.dst = strconv.AppendInt(t.dst, int64(binary.LittleEndian.Uint64(b)), 10)
	case jsonUint64:
		t.dst = strconv.AppendUint(t.dst, binary.LittleEndian.Uint64(b), 10)
	case jsonDouble:
		return t.double(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case jsonString:
		s, ok := jsonBytes(b)
		t.quote(s)
		return ok
	case jsonOpaque:
		return t.opaque(b)
	default:
		return false
	}
	return true
}

// double appends a double with a decimal point, which distinguishes it from an integer.
func (t *jsonText) double(v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	at := len(t.dst)
	t.dst = rowstream.AppendDouble(t.dst, v, -1)
	for _, c := range t.dst[at:] {
		if c == '.' || c == 'e' {
			return true
		}
	}
	t.dst = append(t.dst, ".0"...)
	return true
}

// container appends an object or array: its count and size, its keys, its values.
func (t *jsonText) container(kind byte, b []byte, depth int) bool {
	word := 2 // bytes of a count or offset
	if kind == jsonLargeObject || kind == jsonLargeArray {
		word = 4
	}
	object := kind == jsonSmallObject || kind == jsonLargeObject
	if len(b) < 2*word {
		return false
	}
	count, size := littleEndian(b[:word]), littleEndian(b[word:2*word])
	if size > uint64(len(b)) {
		return false
	}
	b = b[:size]
	keyEntry, valueEntry := 0, 1+word
	if object {
		keyEntry = word + 2
	}
	if size < uint64(2*word) || count > (size-uint64(2*word))/uint64(keyEntry+valueEntry) {
		return false
	}
	keys := b[2*word:]
	entries := keys[int(count)*keyEntry:]
	ends := "[]"
	if object {
		ends = "{}"
	}
	t.dst = append(t.dst, ends[0])
	for i := range int(count) {
		if i > 0 {
			t.dst = append(t.dst, ", "...)
		}
		if object {
			k := keys[i*keyEntry:]
			from, n := littleEndian(k[:word]), littleEndian(k[word:word+2])
			if from+n > size {
				return false
			}
			t.quote(b[from : from+n])
			t.dst = append(t.dst, ": "...)
		}
		if !t.entry(entries[i*valueEntry:][:valueEntry], b, word, depth) {
			return false
		}
	}
	t.dst = append(t.dst, ends[1])
	return true
}

// entry appends a value of a container, which is inlined in its entry if it fits.
func (t *jsonText) entry(e, container []byte, word, depth int) bool {
	switch kind := e[0]; kind {
	case jsonLiteral, jsonInt16, jsonUint16:
		return t.value(kind, e[1:], depth+1)
	case jsonInt32, jsonUint32:
		if word == 4 {
			return t.value(kind, e[1:], depth+1)
		}
	}
	from := littleEndian(e[1:])
	if from >= uint64(len(container)) {
		return false
	}
	return t.value(e[0], container[from:], depth+1)
}

// jsonBytes reads length-prefixed bytes. The length has seven bits per byte, the lowest first.
func jsonBytes(b []byte) (s []byte, ok bool) {
	n := uint64(0)
	for i := range min(len(b), 5) {
		n |= uint64(b[i]&0x7F) << (7 * i)
		if b[i]&0x80 == 0 {
			if n > uint64(len(b)-i-1) {
				return nil, false
			}
			return b[i+1 : i+1+int(n)], true
		}
	}
	return nil, false
}

// quote appends a string.
func (t *jsonText) quote(s []byte) {
	t.dst = append(t.dst, '"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			t.dst = append(t.dst, '\\', c)
		case '\b':
			t.dst = append(t.dst, `\b`...)
		case '\f':
			t.dst = append(t.dst, `\f`...)
		case '\n':
			t.dst = append(t.dst, `\n`...)
		case '\r':
			t.dst = append(t.dst, `\r`...)
		case '\t':
			t.dst = append(t.dst, `\t`...)
		default:
			if c < ' ' {
				t.dst = appendHex(append(t.dst, `\u00`...), []byte{c})
				continue
			}
			t.dst = append(t.dst, c)
		}
	}
	t.dst = append(t.dst, '"')
}

// opaque appends a value of a type of the server.
func (t *jsonText) opaque(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	kind := mysqlwire.ColumnType(b[0])
	v, ok := jsonBytes(b[1:])
	if !ok {
		return false
	}
	switch kind {
	case mysqlwire.TypeNewDecimal:
		if len(v) < 2 {
			return false
		}
		digits, scale := int(v[0]), int(v[1])
		if digits > 65 || scale > digits || digits == 0 || len(v) != 2+decimalSize(digits, scale) {
			return false
		}
		t.dst = appendDecimal(t.dst, v[2:], digits, scale)
		return true
	case mysqlwire.TypeDate, mysqlwire.TypeDatetime, mysqlwire.TypeTimestamp, mysqlwire.TypeTime:
		if len(v) != 8 {
			return false
		}
		t.dst = append(t.dst, '"')
		t.packedTime(kind, int64(binary.LittleEndian.Uint64(v)))
		t.dst = append(t.dst, '"')
		return true
	}
	t.dst = append(t.dst, `"base64:type`...)
	t.dst = append(strconv.AppendUint(t.dst, uint64(kind), 10), ':')
	t.dst = append(base64.StdEncoding.AppendEncode(t.dst, v), '"')
	return true
}

// packedTime appends a date or time in one number: the fields of DATETIME, and microseconds in the last three
// bytes.
func (t *jsonText) packedTime(kind mysqlwire.ColumnType, v int64) {
	c := logColumn{fraction: 6}
	if v < 0 {
		t.dst, v = append(t.dst, '-'), -v
	}
	seconds, micros := uint64(v)>>24, uint64(v)&(1<<24-1)
	if kind == mysqlwire.TypeTime {
		t.dst = appendClock(t.dst, seconds>>12&1023, seconds>>6&63, seconds&63)
		t.dst = c.appendFraction(t.dst, micros)
		return
	}
	months := seconds >> 22
	t.dst = appendDate(t.dst, months/13, months%13, seconds>>17&31)
	if kind == mysqlwire.TypeDate {
		return
	}
	t.dst = appendClock(append(t.dst, ' '), seconds>>12&31, seconds>>6&63, seconds&63)
	t.dst = c.appendFraction(t.dst, micros)
}
