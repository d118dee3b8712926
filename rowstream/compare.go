package rowstream

import (
	"bytes"
	"strconv"
)

// A Comparison says when two values are equal.
type Comparison uint8

// The comparisons. Text under a collation is not among them: which letters are equal is the
// server's to say, so such a condition is pushed into SQL.
const (
	Bytes  Comparison = iota // the same bytes: binary strings, and text under a _bin collation without padding
	Number                   // the same decimal number, however it is written: 1, 01, 1.0, +1, 1e0 for floats
	Padded                   // the same bytes but for spaces at the end: text under a _bin collation that pads
)

func (c Comparison) equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	switch c {
	case Number:
		return equalNumbers(a, b)
	case Padded:
		return bytes.Equal(bytes.TrimRight(a, " "), bytes.TrimRight(b, " "))
	}
	return false
}

// equalNumbers compares decimal numbers digit by digit, so that no precision is lost, and
// numbers with an exponent, which only floats have, as floats.
func equalNumbers(a, b []byte) bool {
	x, okX := parseDecimal(a)
	y, okY := parseDecimal(b)
	if okX && okY {
		return x.equal(y)
	}
	f, errF := strconv.ParseFloat(string(a), 64)
	g, errG := strconv.ParseFloat(string(b), 64)
	return errF == nil && errG == nil && f == g
}

// A decimal is a number's sign and digits without zeros that mean nothing.
type decimal struct {
	negative bool
	whole    []byte // no zero at the start
	fraction []byte // no zero at the end
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
