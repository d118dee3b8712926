package copier

import (
	"context"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A rowBound is where the rows of a table end for a run that reads them through short views: at the last key of its snapshot.
// Each view would otherwise have rows behind those of the view before, and a copy that is slower than its source's inserts
// would never end. doc.go has the reasons why the rows after it come from the log.
type rowBound struct {
	known bool
	last  mysqlwire.TextRow // nil: the table was empty
}

// boundRows finds the bounds of the tables that are still to be copied.
func (r *run) boundRows(ctx context.Context) error {
	if !r.shortViews() {
		return nil
	}
	reader := r.snapshot.Reader(0)
	for _, t := range r.tables {
		if t.past() || t.state != nil && t.state.phase != copying {
			continue
		}
		last, err := reader.LastKey(ctx, t.source)
		if err != nil {
			return err
		}
		t.bound = rowBound{known: true, last: last}
	}
	return nil
}

// cut cuts a table's next chunk within the bound. The last chunk is recorded without an end: following fills it.
func (b *rowBound) cut(ctx context.Context, reader rowstream.Reader, t *table, bytes int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	if b.empty() {
		return from, nil
	}
	from.Upto = b.last
	return reader.Cut(ctx, t.source, bytes, from)
}

// empty reports whether there is no row to be copied.
func (b *rowBound) empty() bool { return b.known && b.last == nil }

// within is a chunk as far as its rows are copied.
func (b *rowBound) within(c rowstream.Chunk) rowstream.Chunk {
	if c.Upto == nil {
		c.Upto = b.last
	}
	return c
}
