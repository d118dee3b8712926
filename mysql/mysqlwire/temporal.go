package mysqlwire

import (
	"encoding/binary"
	"strconv"
)

// A DateTime is a DATE, DATETIME or TIMESTAMP as sent by the server, including zero dates and other values
// that time.Time cannot represent.
type DateTime struct {
	Year                 uint16
	Month, Day           uint8
	Hour, Minute, Second uint8
	Micro                uint32 // microseconds
}

// A TimeOfDay is a TIME: a positive or negative duration, of up to 838 hours and more.
type TimeOfDay struct {
	Negative             bool
	Days                 uint32
	Hour, Minute, Second uint8
	Micro                uint32 // microseconds
}

// DateTime returns the value of a DATE, DATETIME or TIMESTAMP. ok is false for NULL and for other types. It
// does not allocate.
func (v BinaryValue) DateTime() (d DateTime, ok bool) {
	if v.Data == nil || valueForms[v.Type] != formDate {
		return DateTime{}, false
	}
	b := v.Data
	if len(b) >= 4 {
		d.Year, d.Month, d.Day = binary.LittleEndian.Uint16(b), b[2], b[3]
	}
	if len(b) >= 7 {
		d.Hour, d.Minute, d.Second = b[4], b[5], b[6]
	}
	if len(b) >= 11 {
		d.Micro = binary.LittleEndian.Uint32(b[7:])
	}
	return d, true
}

// Time returns the value of a TIME. ok is false for NULL and for other types. It does not allocate.
func (v BinaryValue) Time() (t TimeOfDay, ok bool) {
	if v.Data == nil || valueForms[v.Type] != formTime {
		return TimeOfDay{}, false
	}
	b := v.Data
	if len(b) >= 8 {
		t.Negative = b[0] == 1
		t.Days = binary.LittleEndian.Uint32(b[1:])
		t.Hour, t.Minute, t.Second = b[5], b[6], b[7]
	}
	if len(b) >= 12 {
		t.Micro = binary.LittleEndian.Uint32(b[8:])
	}
	return t, true
}

// append writes d in SQL syntax: a DATE without the time, microseconds if the value, of size bytes on the
// wire, includes them.
func (d DateTime) append(dst []byte, t ColumnType, size int) []byte {
	dst = appendDigits(dst, uint64(d.Year), 4)
	dst = appendDigits(append(dst, '-'), uint64(d.Month), 2)
	dst = appendDigits(append(dst, '-'), uint64(d.Day), 2)
	if t == TypeDate || t == TypeNewDate {
		return dst
	}
	return appendClock(append(dst, ' '), uint64(d.Hour), d.Minute, d.Second, d.Micro, size >= 11)
}

func (t TimeOfDay) append(dst []byte, size int) []byte {
	if t.Negative {
		dst = append(dst, '-')
	}
	return appendClock(dst, uint64(t.Days)*24+uint64(t.Hour), t.Minute, t.Second, t.Micro, size >= 12)
}

func appendClock(dst []byte, hours uint64, minute, second uint8, micro uint32, fraction bool) []byte {
	dst = appendDigits(dst, hours, 2)
	dst = appendDigits(append(dst, ':'), uint64(minute), 2)
	dst = appendDigits(append(dst, ':'), uint64(second), 2)
	if fraction {
		dst = appendDigits(append(dst, '.'), uint64(micro), 6)
	}
	return dst
}

// appendDigits appends v, padded with zeros to the given width.
func appendDigits(dst []byte, v uint64, width int) []byte {
	for limit := pow10(width - 1); v < limit && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, v, 10)
}

func pow10(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}
