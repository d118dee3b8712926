package binlog

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A valueForm is the layout of a value in a row event.
type valueForm uint8

const (
	formInteger valueForm = iota // size bytes
	formFloat
	formDouble
	formDecimal
	formYear
	formDate
	formTime       // as digits, the format before fractional seconds
	formTime2      // the current format, with fractions
	formDatetime   // as digits
	formDatetime2  //
	formTimestamp  // seconds
	formTimestamp2 //
	formBit
	formOrdinal // ENUM, SET: size bytes
	formString  // a length of size bytes; trailing pad bytes are omitted
	formBytes   // a length of size bytes, and the bytes
	formJSON    // MySQL's binary format
	formUUID
	formInet4
	formInet6
)

// A logColumn specifies how values of one column are decoded from row events.
type logColumn struct {
	form     valueForm
	wanted   bool // in the rows; generated columns are not
	before   bool // in before images, which otherwise have NULL
	unsigned bool
	size     uint8 // of a fixed-size value, or of the length prefix, in bytes
	fraction uint8 // digits after the seconds
	scale    int16 // digits after the decimal point; -1: as many as needed
	digits   int16 // including those before the point, of a DECIMAL
	fill     int16 // zero-padded to this width (ZEROFILL); 0: not padded
	pad      int   // length to which a BINARY is padded with NULs
}

// appendValue appends the value at the start of b as a length-encoded text, and returns the number of bytes
// read: 0 if b is too short or has a value that no server writes. It does not allocate if dst has enough
// capacity, except for MySQL's JSON.
func (c *logColumn) appendValue(dst, b []byte) (_ []byte, n int) {
	switch c.form {
	case formString, formBytes, formJSON, formUUID, formInet4, formInet6:
		return c.appendBytes(dst, b)
	}
	if n = int(c.size); len(b) < n {
		return dst, 0
	}
	b = b[:n]
	if c.form == formDatetime2 && b[0]&0x80 == 0 {
		return dst, 0 // its sign marks it as negative, which is invalid for dates
	}
	at := len(dst)
	dst = append(dst, 0) // the length
	switch c.form {
	case formInteger:
		dst = c.appendInteger(dst, b)
	case formFloat:
		dst = rowstream.AppendDouble(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), -1)
	case formDouble:
		dst = rowstream.AppendDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), int(c.scale))
	case formDecimal:
		dst = appendDecimal(dst, b, int(c.digits), int(c.scale))
	case formYear:
		dst = c.appendYear(dst, b[0])
	case formOrdinal:
		dst = strconv.AppendInt(dst, int64(littleEndian(b)), 10) // servers format a SET with 64 members as a signed number
	case formBit:
		dst = append(dst, b...)
	default:
		dst = c.appendTemporal(dst, b)
	}
	if c.fill > 0 {
		dst = zeroFill(dst, at+1, int(c.fill))
	}
	return closeText(dst, at), n
}

// length returns the number of bytes of the value at the start of b, 0 if b is too short.
func (c *logColumn) length(b []byte) int {
	n := int(c.size)
	if len(b) < n {
		return 0
	}
	switch c.form {
	case formString, formBytes, formJSON, formUUID, formInet4, formInet6:
		length := littleEndian(b[:n])
		if length > uint64(len(b)-n) {
			return 0
		}
		n += int(length)
	}
	return n
}

// appendBytes appends a length-prefixed value.
func (c *logColumn) appendBytes(dst, b []byte) (_ []byte, n int) {
	size := int(c.size)
	if len(b) < size {
		return dst, 0
	}
	length := littleEndian(b[:size])
	if length > uint64(len(b)-size) {
		return dst, 0
	}
	v := b[size : size+int(length)]
	n = size + len(v)
	at := len(dst)
	switch c.form {
	case formJSON:
		dst, ok := appendJSON(append(dst, 0), v)
		if !ok {
			return dst[:at], 0
		}
		return closeText(dst, at), n
	case formUUID, formInet4, formInet6:
		if len(v) > c.pad {
			return dst, 0
		}
		var full [16]byte // trailing NULs are omitted
		copy(full[:], v)
		dst = append(dst, 0)
		if c.form == formUUID {
			return closeText(appendUUID(dst, full[:], turnedUUID(full[:])), at), n
		}
		return closeText(appendInet(dst, full[:c.pad]), at), n
	}
	if fill := c.pad - len(v); fill > 0 {
		dst = append(mysqlwire.AppendLenencInt(dst, uint64(c.pad)), v...)
		for range fill {
			dst = append(dst, 0)
		}
		return dst, n
	}
	return mysqlwire.AppendLenencString(dst, v), n
}

// closeText writes the length of the text that starts after the byte at dst[at].
func closeText(dst []byte, at int) []byte {
	n := len(dst) - at - 1
	if n <= 250 {
		dst[at] = byte(n)
		return dst
	}
	var length [9]byte
	head := mysqlwire.AppendLenencInt(length[:0], uint64(n))
	dst = append(dst, head[1:]...) // space
	copy(dst[at+len(head):], dst[at+1:at+1+n])
	copy(dst[at:], head)
	return dst
}

// zeroFill inserts zeros before the text at dst[at:], after its sign, up to a width.
func zeroFill(dst []byte, at, width int) []byte {
	if at < len(dst) && dst[at] == '-' {
		return dst
	}
	n := width - (len(dst) - at)
	if n <= 0 {
		return dst
	}
	for range n {
		dst = append(dst, '0')
	}
	copy(dst[at+n:], dst[at:])
	for i := range n {
		dst[at+i] = '0'
	}
	return dst
}

func littleEndian(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

func bigEndian(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

func (c *logColumn) appendInteger(dst, b []byte) []byte {
	v := littleEndian(b)
	if c.unsigned {
		return strconv.AppendUint(dst, v, 10)
	}
	shift := 64 - 8*uint(len(b))
	return strconv.AppendInt(dst, int64(v<<shift)>>shift, 10)
}

// appendYear appends a YEAR, with four digits or two.
func (c *logColumn) appendYear(dst []byte, v byte) []byte {
	year := uint64(0)
	if v != 0 {
		year = 1900 + uint64(v)
	}
	if c.digits == 2 {
		return appendDigits(dst, year%100, 2)
	}
	return appendDigits(dst, year, 4)
}

// appendDigits appends v with at least n digits.
func appendDigits(dst []byte, v uint64, n int) []byte {
	at := len(dst)
	return zeroFill(strconv.AppendUint(dst, v, 10), at, n)
}

// A DECIMAL has four bytes per nine digits, and fewer for the remaining digits.
const digitsPerWord = 9

var bytesOfDigits = [digitsPerWord + 1]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// decimalSize returns the number of bytes of a DECIMAL.
func decimalSize(digits, scale int) int {
	whole := digits - scale
	return whole/digitsPerWord*4 + bytesOfDigits[whole%digitsPerWord] +
		scale/digitsPerWord*4 + bytesOfDigits[scale%digitsPerWord]
}

// appendDecimal appends a DECIMAL.
//
// Specification: MySQL's strings/decimal.c, decimal2bin.
func appendDecimal(dst, b []byte, digits, scale int) []byte {
	negative := b[0]&0x80 == 0
	if negative {
		dst = append(dst, '-')
	}
	first := true
	// word reads the next digits. The sign bit is inverted, and a negative number is stored as its
	// complement.
	word := func(digits int) uint64 {
		n := bytesOfDigits[digits]
		v := bigEndian(b[:n])
		if first && n > 0 {
			v ^= 0x80 << (8 * uint(n-1))
			first = false
		}
		if negative {
			v = ^v & (1<<(8*uint(n)) - 1)
		}
		b = b[n:]
		return v
	}
	whole := digits - scale
	at := len(dst)
	if left := whole % digitsPerWord; left > 0 {
		if v := word(left); v > 0 {
			dst = strconv.AppendUint(dst, v, 10)
		}
	}
	for range whole / digitsPerWord {
		v := word(digitsPerWord)
		switch {
		case len(dst) > at:
			dst = appendDigits(dst, v, digitsPerWord)
		case v > 0:
			dst = strconv.AppendUint(dst, v, 10)
		}
	}
	if len(dst) == at {
		dst = append(dst, '0')
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for range scale / digitsPerWord {
		dst = appendDigits(dst, word(digitsPerWord), digitsPerWord)
	}
	if left := scale % digitsPerWord; left > 0 {
		dst = appendDigits(dst, word(left), left)
	}
	return dst
}
