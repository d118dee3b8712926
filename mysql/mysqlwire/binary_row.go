package mysqlwire

import "slices"

// A BinaryRow is a row of a prepared statement's result: one value per column. Values are views of the
// payload.
//
// Specification: MySQL "Binary Protocol Resultset Row", MariaDB "Result Set
// Packets#Binary Resultset Row".
type BinaryRow []BinaryValue

// rowNullOffset is the number of bits in a row's NULL bitmap before the first column's.
const rowNullOffset = 2

// Decode reads a row whose columns have the given types into r, whose memory is reused.
// The types are those of the column definitions before the rows. Those in the response to
// PREPARE may differ, since the server did not know the parameters' types then.
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
