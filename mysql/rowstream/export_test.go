package rowstream

import (
	"context"

	"github.com/taredb/tare/mysql/mysqlconn"
)

// Hooks of the external tests.

// Clients returns the connections of a View of OpenSnapshot.
func Clients(v View) []*mysqlconn.Client { return v.(*snapshot).clients }

// Kept returns the bytes for which a reader of a snapshot keeps room: in its batch, and for the last wide row.
func Kept(r Reader) (batch, wide int) {
	x := r.(*reader)
	return cap(x.batch.Bytes), cap(x.wide.Bytes)
}

// errShort is errShort.
var ErrShort = errShort

// NewChunker is newChunker.
func NewChunker(ctx context.Context, c *mysqlconn.Client, t *Table, bytes int64, from Chunk) (*chunker, error) {
	return newChunker(ctx, c, t, bytes, from)
}
