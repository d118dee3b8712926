package rowstream

import "strconv"

// maxPlainExponent is the maximum number of digits before or after the decimal point for which servers print
// no exponent.
const maxPlainExponent = 15

// AppendDouble appends a double as servers print it: with the shortest exact digits, or with scale digits
// after the point for a column declared so.
func AppendDouble(dst []byte, v float64, scale int) []byte {
	at := len(dst)
	if scale >= 0 {
		return appendScaled(dst, v, scale)
	}
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64) // d.ddde±xx
	e := len(dst) - 1
	for e > at && dst[e] != 'e' {
		e--
	}
	if e == at {
		return dst // not a number: servers store none
	}
	exponent := 0
	for _, c := range dst[e+2:] {
		exponent = exponent*10 + int(c-'0')
	}
	if dst[e+1] == '-' {
		exponent = -exponent
	}
	mantissa := e - at
	if dst[at] == '-' {
		mantissa--
	}
	if mantissa > 1 {
		mantissa-- // the point
	}
	point := exponent + 1 // position of the point, counted in digits
	if point > -maxPlainExponent && (point <= maxPlainExponent || mantissa > point) {
		return strconv.AppendFloat(dst[:at], v, 'f', -1, 64)
	}
	dst = dst[:e+1]
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// appendScaled appends a double with scale digits after the point: the shortest exact digits padded with
// zeros, or rounded if there are more.
func appendScaled(dst []byte, v float64, scale int) []byte {
	at := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	after := -1 // digits after the point; -1: no point
	for i := at; i < len(dst); i++ {
		if after >= 0 || dst[i] == '.' {
			after++
		}
	}
	switch {
	case after > scale:
		return strconv.AppendFloat(dst[:at], v, 'f', scale, 64)
	case after < 0 && scale == 0:
		return dst
	case after < 0:
		dst, after = append(dst, '.'), 0
	}
	for ; after < scale; after++ {
		dst = append(dst, '0')
	}
	return dst
}
