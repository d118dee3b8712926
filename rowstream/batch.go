package rowstream

import (
	"fmt"

	"github.com/taredb/tare/mysqlwire"
)

// A Batch is rows of one table, back to back, each as the text protocol sends it: one
// length-encoded value a column, the byte FB for NULL. A row that nobody filters is
// appended, sent and received without being looked at.
//
// The zero value is an empty batch. Reset keeps its room, which Shrink bounds.
type Batch struct {
	Columns int // values a row has
	Rows    int
	Bytes   []byte

	last int // offset of the last row
}

// Reset empties the batch for rows of the given number of columns.
func (b *Batch) Reset(columns int) {
	b.Columns, b.Rows, b.Bytes, b.last = columns, 0, b.Bytes[:0], 0
}

// Shrink gives the room of an empty batch back when it is larger than limit bytes: one wide
// row must not be paid for by all later ones.
func (b *Batch) Shrink(limit int) {
	if len(b.Bytes) == 0 && cap(b.Bytes) > limit {
		b.Bytes = nil
	}
}

// AppendPayload appends a row as it came. It does not allocate when the batch has room.
func (b *Batch) AppendPayload(payload []byte) {
	b.last = len(b.Bytes)
	b.Bytes = append(b.Bytes, payload...)
	b.Rows++
}

// AppendRow appends a row of views. It does not allocate when the batch has room.
func (b *Batch) AppendRow(row mysqlwire.TextRow) {
	b.last = len(b.Bytes)
	b.Bytes = row.AppendTo(b.Bytes)
	b.Rows++
}

// lastRow reads the last row of a batch that has one into row, as Row does. A batch that came from elsewhere must have been
// checked.
func (b *Batch) lastRow(row *mysqlwire.TextRow) error {
	_, err := b.Row(b.last, row)
	return err
}

// Row reads the row at offset at into row, whose room is reused, and answers where the next
// one starts. The values are views of the batch. It does not allocate when row has room.
func (b *Batch) Row(at int, row *mysqlwire.TextRow) (next int, err error) {
	values := (*row)[:0]
	for i := range b.Columns {
		v, n := mysqlwire.TextValue(b.Bytes[at:])
		if n == 0 {
			return at, &BatchError{Offset: at, Column: i, Len: len(b.Bytes)}
		}
		values = append(values, v)
		at += n
	}
	*row = values
	return at, nil
}

// Check walks the whole batch and reports whether it holds exactly its rows. Batches that
// come from elsewhere are checked before they are used.
func (b *Batch) Check() error {
	if b.Rows < 0 || b.Columns < 0 || b.Columns == 0 && b.Rows > 0 {
		return fmt.Errorf("%w: %d rows of %d columns", mysqlwire.ErrMalformedPacket, b.Rows, b.Columns)
	}
	at := 0
	for range b.Rows {
		b.last = at
		for i := range b.Columns {
			_, n := mysqlwire.TextValue(b.Bytes[at:])
			if n == 0 {
				return &BatchError{Offset: at, Column: i, Len: len(b.Bytes)}
			}
			at += n
		}
	}
	if at != len(b.Bytes) {
		return fmt.Errorf("%w: %d bytes after the last of %d rows", mysqlwire.ErrMalformedPacket, len(b.Bytes)-at, b.Rows)
	}
	return nil
}

// A BatchError says where a batch ends within a row.
type BatchError struct {
	Offset int // of the value that does not fit, in bytes
	Column int // its number, from 0
	Len    int // bytes that the batch has
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("batch of %d bytes ends within the value of column %d at offset %d", e.Len, e.Column, e.Offset)
}

func (e *BatchError) Unwrap() error { return mysqlwire.ErrShortPacket }
