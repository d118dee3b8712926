package binlog

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A valueForm is how a value of a row event is laid out.
type valueForm uint8

const (
	formInteger valueForm = iota // size bytes
	formFloat
	formDouble
	formDecimal
	formYear
	formDate
	formTime       // as digits, before fractions of seconds
	formTime2      // the present form, with fractions
	formDatetime   // as digits
	formDatetime2  //
	formTimestamp  // seconds
	formTimestamp2 //
	formBit
	formOrdinal // ENUM, SET: size bytes
	formString  // a length of size bytes, trailing pad bytes left out
	formBytes   // a length of size bytes, and these
	formJSON    // MySQL's binary form
	formUUID
	formInet4
	formInet6
)

// A logColumn is how the values of one column are read out of row events.
type logColumn struct {
	form     valueForm
	wanted   bool // by the rows; generated columns are not
	before   bool // and by images before a change, which are NULL there otherwise
	unsigned bool
	size     uint8 // of a fixed value, or of the length before it, in bytes
	fraction uint8 // digits after the seconds
	scale    int16 // digits after the point; -1: as many as there are
	digits   int16 // before the point too, of a DECIMAL
	fill     int16 // zeros up to this width (ZEROFILL); 0: none
	pad      int   // bytes that a BINARY is filled up to with NULs
}

// appendValue appends the value at the start of b as a length-encoded text, and answers how
// many bytes of b it took: 0 when b is too short or holds what no server writes. It does not
// allocate when dst has room, but for MySQL's JSON.
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
		return dst, 0 // its sign says that it is below zero, which no date is
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
		dst = strconv.AppendInt(dst, int64(littleEndian(b)), 10) // a SET of 64 as servers write it
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

// length is how many bytes of b the value at its start takes, 0 when b is too short.
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

// appendBytes appends a value that has its length before it.
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
		var full [16]byte // NULs at the end are left out
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

// closeText writes the length of the text that begins after the byte at dst[at].
func closeText(dst []byte, at int) []byte {
	n := len(dst) - at - 1
	if n <= 250 {
		dst[at] = byte(n)
		return dst
	}
	var length [9]byte
	head := mysqlwire.AppendLenencInt(length[:0], uint64(n))
	dst = append(dst, head[1:]...) // room
	copy(dst[at+len(head):], dst[at+1:at+1+n])
	copy(dst[at:], head)
	return dst
}

// zeroFill puts zeros before the text at dst[at:], after its sign, up to a width.
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

// appendYear appends a YEAR, of four digits or two.
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

// Digits of a DECIMAL are kept nine to four bytes, and what is left over in fewer.
const digitsPerWord = 9

var bytesOfDigits = [digitsPerWord + 1]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// decimalSize is how many bytes a DECIMAL takes.
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
	// word reads the next digits. The sign's bit is turned, and a negative number is kept as
	// its complement.
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
