package rowstream

import (
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A Batch has rows of one table, concatenated, each as the text protocol sends it: one length-encoded value
// per column, the byte FB for NULL. A row without a filter is appended, sent and received without being
// parsed.
//
// The zero value is an empty batch. Reset keeps its memory, which Shrink bounds.
type Batch struct {
	Columns int // values per row
	Rows    int
	Bytes   []byte

	last int // offset of the last row
}

// Reset empties the batch for rows of the given number of columns.
func (b *Batch) Reset(columns int) {
	b.Columns, b.Rows, b.Bytes, b.last = columns, 0, b.Bytes[:0], 0
}

// Shrink releases the memory of an empty batch if it is larger than limit bytes: a single wide row must not
// cost memory for all later ones.
func (b *Batch) Shrink(limit int) {
	if len(b.Bytes) == 0 && cap(b.Bytes) > limit {
		b.Bytes = nil
	}
}

// HeapBytes returns the heap bytes of the rows' memory.
func (b *Batch) HeapBytes() int64 { return int64(heapsize.Bytes(b.Bytes)) }

// AppendPayload appends a row as received. It does not allocate if the batch has enough capacity.
func (b *Batch) AppendPayload(payload []byte) {
	b.last = len(b.Bytes)
	b.Bytes = append(b.Bytes, payload...)
	b.Rows++
}

// AppendRow appends a row of views. It does not allocate if the batch has enough capacity.
func (b *Batch) AppendRow(row mysqlwire.TextRow) {
	b.last = len(b.Bytes)
	b.Bytes = row.AppendTo(b.Bytes)
	b.Rows++
}

// lastRow reads the last row of a non-empty batch into row, like Row. A batch from another process must have
// been checked.
func (b *Batch) lastRow(row *mysqlwire.TextRow) error {
	_, err := b.Row(b.last, row)
	return err
}

// Row reads the row at offset at into row, whose memory is reused, and returns the offset of the next one.
// The values are views of the batch. It does not allocate if row has enough capacity.
func (b *Batch) Row(at int, row *mysqlwire.TextRow) (next int, err error) {
	values := (*row)[:0]
	for i := range b.Columns {
		v, n := mysqlwire.TextValue(b.Bytes[at:])
		if n == 0 {
			return at, &batchError{Offset: at, Column: i, Len: len(b.Bytes)}
		}
		values = append(values, v)
		at += n
	}
	*row = values
	return at, nil
}

// Check parses the whole batch and returns an error unless it has exactly its number of rows. Batches from
// another process must be checked before use.
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
				return &batchError{Offset: at, Column: i, Len: len(b.Bytes)}
			}
			at += n
		}
	}
	if at != len(b.Bytes) {
		return fmt.Errorf("%w: %d bytes after the last of %d rows", mysqlwire.ErrMalformedPacket, len(b.Bytes)-at, b.Rows)
	}
	return nil
}

// A batchError reports a batch that ends within a row.
type batchError struct {
	Offset int // of the incomplete value, in bytes
	Column int // index of the column, from 0
	Len    int // bytes of the batch
}

func (e *batchError) Error() string {
	return fmt.Sprintf("batch of %d bytes ends within the value of column %d at offset %d", e.Len, e.Column, e.Offset)
}

func (e *batchError) Unwrap() error { return mysqlwire.ErrShortPacket }
