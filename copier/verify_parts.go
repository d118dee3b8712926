package copier

import (
	"context"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A partedChunk is a chunk of the state while changes are followed. It may have many more rows than when it was copied, above all
// the last one, which has all rows after the bound of the copy. It is compared in parts of a chunk's size.
type partedChunk struct {
	verifyChunk
	rest  rowstream.Chunk   // not compared yet
	end   mysqlwire.TextRow // of a chunk without an end: the table's last key at the first cut; nil: not read
	ended bool              // all parts are compared

	rows               int64
	differs, undecided bool // in some part
}

// part cuts the next part. A chunk without an end is cut up to the last key that the table had at the first cut: otherwise a
// table that grows faster than it is compared would have no last part.
func (v *followVerifier) part(ctx context.Context, w *worker, c *comparison, k *partedChunk) (part rowstream.Chunk, last bool, err error) {
	defer w.pace.End()
	if err := w.pace.Begin(ctx); err != nil {
		return part, false, err
	}
	bytes := v.run.o.ChunkBytes
	if k.chunk.Upto != nil {
		bytes *= 2 // it stays whole unless it has grown
	}
	err = v.inView(ctx, w, c.t, func(ctx context.Context, view rowstream.View) (err error) {
		reader, from := view.Reader(0), k.rest
		if k.chunk.Upto == nil && k.end == nil {
			if k.end, err = reader.LastKey(ctx, c.t.Source); err != nil {
				return err
			}
		}
		if from.Upto == nil {
			from.Upto = k.end
		}
		part, err = reader.Cut(ctx, c.t.Source, bytes, from)
		return err
	})
	if last = part.Upto == nil; last {
		part.Upto = k.chunk.Upto
	}
	return part, last, err
}
