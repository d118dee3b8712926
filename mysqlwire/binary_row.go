package mysqlwire

import "slices"

// A BinaryRow is a row of a prepared statement's result: one value a column.
// Values are views of the payload.
//
// Specification: MySQL "Binary Protocol Resultset Row", MariaDB "Result Set
// Packets#Binary Resultset Row".
type BinaryRow []BinaryValue

// rowNullOffset is how many bits of a row's NULL bitmap stand before the first column's.
const rowNullOffset = 2

// Decode reads a row whose columns have the given types into r, whose room is reused.
// The types are those of the definitions before the rows: a statement's preparation may
// have answered others, as it did not know the parameters' types.
// It does not allocate when r has room.
func (r *BinaryRow) Decode(payload []byte, types []ValueType) error {
	const what = "binary row"
	*r = (*r)[:0]
	c, err := open(payload, MarkOK, what)
	if err != nil {
		return err
	}
	nulls := c.bytes((len(types) + rowNullOffset + 7) / 8)
	if c.short {
		return shortIn(what)
	}
	values := slices.Grow(*r, len(types))
	for i, t := range types {
		v := BinaryValue{ValueType: t}
		if bit := i + rowNullOffset; nulls[bit/8]&(1<<(bit%8)) == 0 {
			if err := c.binaryValue(&v, what); err != nil {
				return err
			}
		}
		values = append(values, v)
	}
	*r = values
	if c.more() {
		return malformed(what, "bytes after the last column")
	}
	return nil
}

// AppendTo appends the payload of r. It does not allocate when dst has room.
func (r BinaryRow) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkOK)
	dst = appendNulls(dst, r, rowNullOffset)
	for _, v := range r {
		dst = v.AppendTo(dst)
	}
	return dst
}

// appendNulls appends the NULL bitmap of values, whose first bit is number offset.
func appendNulls(dst []byte, values []BinaryValue, offset int) []byte {
	at := len(dst)
	dst = appendPadded(dst, nil, (len(values)+offset+7)/8)
	for i, v := range values {
		if v.IsNull() {
			bit := i + offset
			dst[at+bit/8] |= 1 << (bit % 8)
		}
	}
	return dst
}

// binaryValue reads the data of v by its type.
func (c *cursor) binaryValue(v *BinaryValue, what string) error {
	data, n, ok := binaryValue(c.rest, v.Type)
	if ok {
		v.Data = data
		c.rest = c.rest[n:]
		return nil
	}
	switch form := valueForms[v.Type]; {
	case form == formNone:
		return malformed(what, "no value of "+v.Type.String()+" crosses the wire")
	case (form == formDate || form == formTime) && c.more() && !temporalSize(v.Type, c.rest[0]):
		return malformed(what, "wrong length of a "+v.Type.String())
	}
	return shortIn(what)
}
