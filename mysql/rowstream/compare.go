package rowstream

import (
	"bytes"
	"cmp"
	"strconv"
	"unsafe"
)

// A Comparison defines when two values are equal.
type Comparison uint8

// The comparisons. Text under a collation is not among them: equality of letters is decided by the server, so
// such a condition is pushed down into SQL.
const (
	Bytes    Comparison = iota // equal bytes: binary strings, and text under a _bin collation without padding
	Number                     // equal decimal numbers, in any notation: 1, 01, 1.0, +1, 1e0 for floats
	Padded                     // equal bytes except for trailing spaces: text under a _bin collation with padding
	Double                     // equal as doubles: FLOAT and DOUBLE columns, and constants with an exponent
	Temporal                   // equal times: DATE, DATETIME, TIMESTAMP, TIME; a date is its midnight
)

// Equal reports whether two values of a column in text form are equal.
func (c Comparison) Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	switch c {
	case Number:
		return equalNumbers(a, b)
	case Padded:
		return bytes.Equal(bytes.TrimRight(a, " "), bytes.TrimRight(b, " "))
	case Double, Temporal:
		order, ok := c.order(a, b)
		return ok && order == 0
	}
	return false
}

// equalNumbers compares decimal numbers by digits, without loss of precision, and numbers with an exponent,
// which only floats have, as floats.
func equalNumbers(a, b []byte) bool {
	x, okX := parseDecimal(a)
	y, okY := parseDecimal(b)
	if okX && okY {
		return x.equal(y)
	}
	order, ok := orderDoubles(a, b)
	return ok && order == 0
}

// orderDoubles compares numbers as doubles. It does not allocate.
func orderDoubles(a, b []byte) (order int, ok bool) {
	f, okF := parseDouble(a)
	g, okG := parseDouble(b)
	return cmp.Compare(f, g), okF && okG
}

// parseDouble parses a decimal number, with or without an exponent.
func parseDouble(v []byte) (f float64, ok bool) {
	for _, c := range v {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return 0, false // ParseFloat accepts more forms
		}
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(v), len(v)), 64)
	if f == 0 {
		f = 0 // -0 equals 0
	}
	return f, err == nil
}

// comparePadded compares as if the shorter value were padded with spaces.
func comparePadded(a, b []byte) int {
	n := min(len(a), len(b))
	if order := bytes.Compare(a[:n], b[:n]); order != 0 {
		return order
	}
	for _, c := range a[n:] {
		if c != ' ' {
			return cmp.Compare(c, ' ')
		}
	}
	for _, c := range b[n:] {
		if c != ' ' {
			return cmp.Compare(' ', c)
		}
	}
	return 0
}

// parseTemporal parses a date, a date and time or a time of day as a number of the same order, of
// microseconds in years of twelve and one months of 32 days, which includes zero dates.
func parseTemporal(v []byte) (n int64, ok bool) {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	dated := len(v) >= len("2006-01-02") && v[4] == '-' && v[7] == '-'
	if dated {
		century, okC := twoDigits(v)
		year, okY := twoDigits(v[2:])
		month, okM := twoDigits(v[5:])
		day, okD := twoDigits(v[8:])
		if !okC || !okY || !okM || !okD || month > 12 || day > 31 || negative {
			return 0, false
		}
		n = (((century*100+year)*13+month)*32 + day) * 24
		v = v[len("2006-01-02"):]
		if len(v) == 0 {
			return n * 3600e6, true
		}
		if v[0] != ' ' {
			return 0, false
		}
		v = v[1:]
	}
	hours := bytes.IndexByte(v, ':')
	if hours < 2 || hours > 3 || dated && hours > 2 || len(v) < hours+len(":04:05") || v[hours+3] != ':' || !digits(v[:hours]) {
		return 0, false
	}
	hour := int64(0)
	for _, c := range v[:hours] {
		hour = hour*10 + int64(c-'0')
	}
	minute, okM := twoDigits(v[hours+1:])
	second, okS := twoDigits(v[hours+4:])
	micro, okF := microseconds(v[hours+6:])
	n = (((n+hour)*60+minute)*60+second)*1e6 + micro
	if negative {
		n = -n
	}
	return n, okM && okS && okF && hour <= 838 && (!dated || hour <= 23) && minute <= 59 && second <= 59
}

func twoDigits(v []byte) (n int64, ok bool) {
	if v[0] < '0' || v[0] > '9' || v[1] < '0' || v[1] > '9' {
		return 0, false
	}
	return int64(v[0]-'0')*10 + int64(v[1]-'0'), true
}

// microseconds parses ".5" or an empty text.
func microseconds(v []byte) (n int64, ok bool) {
	if len(v) == 0 {
		return 0, true
	}
	if v[0] != '.' || len(v) < 2 || len(v) > len(".000000") || !digits(v[1:]) {
		return 0, false
	}
	for i := 1; i < len(".000000"); i++ {
		n *= 10
		if i < len(v) {
			n += int64(v[i] - '0')
		}
	}
	return n, true
}

// A decimal is a number's sign and digits without insignificant zeros.
type decimal struct {
	negative bool
	whole    []byte // without leading zeros
	fraction []byte // without trailing zeros
}

func parseDecimal(v []byte) (d decimal, ok bool) {
	if len(v) > 0 && (v[0] == '-' || v[0] == '+') {
		d.negative = v[0] == '-'
		v = v[1:]
	}
	whole, fraction, _ := bytes.Cut(v, []byte{'.'})
	if len(whole)+len(fraction) == 0 || !digits(whole) || !digits(fraction) {
		return d, false
	}
	d.whole = bytes.TrimLeft(whole, "0")
	d.fraction = bytes.TrimRight(fraction, "0")
	return d, true
}

func digits(v []byte) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func (d decimal) zero() bool { return len(d.whole)+len(d.fraction) == 0 }

func (d decimal) equal(e decimal) bool {
	return bytes.Equal(d.whole, e.whole) && bytes.Equal(d.fraction, e.fraction) &&
		(d.negative == e.negative || d.zero())
}

// compare compares numbers.
func (d decimal) compare(e decimal) int {
	dn, en := d.negative && !d.zero(), e.negative && !e.zero()
	switch {
	case dn && !en:
		return -1
	case en && !dn:
		return 1
	case dn:
		d, e = e, d
	}
	return cmp.Or(cmp.Compare(len(d.whole), len(e.whole)), bytes.Compare(d.whole, e.whole), bytes.Compare(d.fraction, e.fraction))
}
