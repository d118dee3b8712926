package mysqlwire

import "slices"

// A TextRow is a row of a text result: one value per column, as text; NULL is nil and an empty string is not.
// Values are views of the payload.
//
// Specification: MySQL "Text Resultset Row", MariaDB "Result Set Packets#Text Resultset
// Row".
type TextRow [][]byte

// Decode reads a row of the given number of columns into r, whose slice is reused. It does not allocate when
// r has room.
func (r *TextRow) Decode(payload []byte, columns int) error {
	const what = "text row"
	values := (*r)[:0]
	if columns > len(payload) { // each value occupies at least a byte
		return shortIn(what)
	}
	values = slices.Grow(values, columns)
	c := cursor{rest: payload}
	for range columns {
		values = append(values, c.textValue())
	}
	*r = values
	if c.more() {
		return malformed(what, "bytes after the last column")
	}
	return c.done(what)
}

// AppendTo appends the payload of r. It does not allocate when dst has room.
func (r TextRow) AppendTo(dst []byte) []byte {
	for _, v := range r {
		if v == nil {
			dst = AppendTextNull(dst)
		} else {
			dst = AppendLenencString(dst, v)
		}
	}
	return dst
}

// AppendTextNull appends the NULL of a text row.
func AppendTextNull(dst []byte) []byte { return append(dst, lenencNull) }

// TextValue returns the value at the start of b, the rest of a text row, and the number of bytes it occupies;
// value is nil for NULL. n is 0 if b is too short. It does not allocate.
func TextValue(b []byte) (value []byte, n int) {
	if len(b) > 0 && b[0] < lenencNull { // one byte of length: most values
		if end := 1 + int(b[0]); end <= len(b) {
			return b[1:end:end], end
		}
		return nil, 0
	}
	if len(b) > 0 && b[0] == lenencNull {
		return nil, 1
	}
	return LenencString(b)
}

func (c *cursor) textValue() []byte {
	v, n := TextValue(c.rest)
	if n == 0 {
		c.fail()
		return nil
	}
	c.rest = c.rest[n:]
	return v
}
