package binlog

import (
	"encoding/binary"
	"strconv"
	"time"
)

// appendTemporal appends a date or a time. Times are in UTC, as in rowstream.Session.
//
// Specification: MySQL "Date and Time Data Type Representation"; sql-common/my_time.c.
func (c *logColumn) appendTemporal(dst, b []byte) []byte {
	switch c.form {
	case formDate:
		v := littleEndian(b)
		return appendDate(dst, v>>9, v>>5&15, v&31)
	case formTime:
		v := int64(littleEndian(b)<<40) >> 40
		if v < 0 {
			dst, v = append(dst, '-'), -v
		}
		return appendClock(dst, uint64(v/10_000), uint64(v/100%100), uint64(v%100))
	case formDatetime:
		v := littleEndian(b)
		date, clock := v/1_000_000, v%1_000_000
		dst = append(appendDate(dst, date/10_000, date/100%100, date%100), ' ')
		return appendClock(dst, clock/10_000, clock/100%100, clock%100)
	case formTimestamp:
		return appendSeconds(dst, binary.LittleEndian.Uint32(b))
	case formTimestamp2:
		dst = appendSeconds(dst, binary.BigEndian.Uint32(b))
		return c.appendFraction(dst, micros(b[4:]))
	case formDatetime2:
		v := bigEndian(b[:5]) & (1<<39 - 1) // without the sign, which is set
		months := v >> 22
		dst = append(appendDate(dst, months/13, months%13, v>>17&31), ' ')
		dst = appendClock(dst, v>>12&31, v>>6&63, v&63)
		return c.appendFraction(dst, micros(b[5:]))
	}
	return c.appendTime2(dst, b)
}

// appendTime2 appends a TIME: hours, minutes, seconds and their fraction, packed in a signed number.
func (c *logColumn) appendTime2(dst, b []byte) []byte {
	bits := 8 * uint(len(b))
	v := int64(bigEndian(b)) - 1<<(bits-1)
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	fraction := bits - 24
	clock := uint64(v) >> fraction
	units := uint64(v) & (1<<fraction - 1)
	dst = appendClock(dst, clock>>12&1023, clock>>6&63, clock&63)
	return c.appendFraction(dst, units*microsPer[fraction/8])
}

// microsPer is the number of microseconds per unit of a fraction with this many bytes.
var microsPer = [4]uint64{0, 10_000, 100, 1}

// micros returns the microseconds of a fraction.
func micros(b []byte) uint64 { return bigEndian(b) * microsPer[len(b)] }

// fractionSize returns the number of bytes of a fraction with this many digits.
func fractionSize(digits int) int { return (digits + 1) / 2 }

var powersOfTen = [7]uint64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}

// appendFraction appends the fraction of a second with the column's digits.
func (c *logColumn) appendFraction(dst []byte, micros uint64) []byte {
	if c.fraction == 0 {
		return dst
	}
	return appendDigits(append(dst, '.'), micros/powersOfTen[6-c.fraction], int(c.fraction))
}

func appendDate(dst []byte, year, month, day uint64) []byte {
	dst = append(appendDigits(dst, year, 4), '-')
	dst = append(appendDigits(dst, month, 2), '-')
	return appendDigits(dst, day, 2)
}

func appendClock(dst []byte, hours, minutes, seconds uint64) []byte {
	dst = append(appendDigits(dst, hours, 2), ':')
	dst = append(appendDigits(dst, minutes, 2), ':')
	return appendDigits(dst, seconds, 2)
}

// appendSeconds appends seconds since 1970 as date and time; 0 is the zero date.
func appendSeconds(dst []byte, seconds uint32) []byte {
	if seconds == 0 {
		return append(dst, "0000-00-00 00:00:00"...)
	}
	return time.Unix(int64(seconds), 0).UTC().AppendFormat(dst, time.DateTime)
}

// turnedUUID reports whether MariaDB stores a UUID with its parts in reverse order, so that UUIDs created
// consecutively are adjacent. Since 10.11.5 this does not apply to version 6 and above, which are ordered
// already.
func turnedUUID(b []byte) bool { return b[6]&0x80 != 0 && b[8] > 0 && b[8] < 0x60 }

// appendUUID appends a UUID as text.
func appendUUID(dst, b []byte, turned bool) []byte {
	parts := [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}}
	if turned {
		parts = [...][2]int{{12, 16}, {10, 12}, {8, 10}, {6, 8}, {0, 6}}
	}
	for _, part := range parts {
		dst = append(appendHex(dst, b[part[0]:part[1]]), '-')
	}
	return dst[:len(dst)-1]
}

func appendHex(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range b {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// appendInet appends an address of 4 or 16 bytes as MariaDB formats it.
func appendInet(dst, b []byte) []byte {
	if len(b) == 4 {
		for i, c := range b {
			if i > 0 {
				dst = append(dst, '.')
			}
			dst = strconv.AppendUint(dst, uint64(c), 10)
		}
		return dst
	}
	// The longest run of zero words, the first of equal ones, is abbreviated.
	from, length := 0, 0
	for i := 0; i < 16; {
		n := 0
		for i+n < 16 && b[i+n] == 0 && b[i+n+1] == 0 {
			n += 2
		}
		if n > length {
			from, length = i, n
		}
		i += n + 2
	}
	for i := 0; i < 16; i += 2 {
		switch {
		case length > 0 && i == from:
			dst = append(dst, ':')
			if i == 0 {
				dst = append(dst, ':')
			}
			i += length - 2
			continue
		case i == 12 && from == 0 && (length == 12 || length == 10 && b[10] == 0xFF && b[11] == 0xFF):
			return appendInet(dst, b[12:])
		}
		dst = strconv.AppendUint(dst, bigEndian(b[i:i+2]), 16)
		if i < 14 {
			dst = append(dst, ':')
		}
	}
	return dst
}
