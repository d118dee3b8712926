package tabledef

import (
	"context"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A RowBound is where the rows of a table end for a run that reads them through short views: at the last key of its snapshot.
// Each view would otherwise have rows behind those of the view before, and a copy that is slower than its source's inserts
// would never end. doc.go has the reasons why the rows after it come from the log.
type RowBound struct {
	Known bool
	Last  mysqlwire.TextRow // nil: the table was empty
}

// Cut cuts a table's next chunk within the bound. The last chunk is recorded without an end: following fills it.
func (b *RowBound) Cut(ctx context.Context, reader rowstream.Reader, t *Table, bytes int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	if b.Empty() {
		return from, nil
	}
	from.Upto = b.Last
	return reader.Cut(ctx, t.Source, bytes, from)
}

// Empty reports whether there is no row to be copied.
func (b *RowBound) Empty() bool { return b.Known && b.Last == nil }

// Within is a chunk as far as its rows are copied.
func (b *RowBound) Within(c rowstream.Chunk) rowstream.Chunk {
	if c.Upto == nil {
		c.Upto = b.Last
	}
	return c
}
