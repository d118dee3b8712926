package tabledef

import (
	"context"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A RowBound is the end of a table's rows for a run that reads them through short views: the last key of its
// snapshot. Otherwise each view would have further rows after those of the previous one, and a copy that is
// slower than its source's inserts would never end. Package copier documents why the rows after it come from
// the log.
type RowBound struct {
	Known bool
	Last  mysqlwire.TextRow // nil: the table was empty
}

// Cut cuts a table's next chunk of about as many rows within the bound. The last chunk is recorded without an end: following fills
// it.
func (b *RowBound) Cut(ctx context.Context, reader rowstream.Reader, t *Table, rows int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	if b.Empty() {
		return from, nil
	}
	from.Upto = b.Last
	return CutRows(ctx, reader, t.Source, rows, from)
}

// Empty reports whether there is no row to copy.
func (b *RowBound) Empty() bool { return b.Known && b.Last == nil }

// Within returns the part of a chunk whose rows are copied.
func (b *RowBound) Within(c rowstream.Chunk) rowstream.Chunk {
	if c.Upto == nil {
		c.Upto = b.Last
	}
	return c
}
