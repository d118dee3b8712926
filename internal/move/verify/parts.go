package verify

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A partedChunk is a chunk of the state while changes are followed. It may have many more rows than when it
// was copied, in particular the last one, which has all rows after the bound of the copy. It is compared in
// parts of a chunk's size.
type partedChunk struct {
	verifyChunk
	rest  rowstream.Chunk   // not compared yet
	end   mysqlwire.TextRow // of an open-ended chunk: the table's last key at the first cut; nil: not read
	ended bool              // all parts are compared

	rows               int64
	differs, undecided bool // in at least one part
}

// partRows returns how many rows a part of a chunk has: those of the largest chunk, which was sized by its bytes. The rows that a filter has left do not
// show how many were read.
func partRows(t *tabledef.Table, now *tabledef.Recorded, bytes int64) (rows int64) {
	for _, k := range now.Chunks {
		rows = max(rows, k.Rows)
	}
	if t.Spec.Where != "" || t.Plan != nil || rows == 0 {
		rows = max(rows, new(tabledef.Sizing).Next(t.Source, 0, bytes), bytes/t.Source.RowBytes())
	}
	return rows
}

// ranges returns the chunks of the queue, which has all.
func (v *Following) ranges() []follow.Ranges {
	all := make([]follow.Ranges, len(v.o.Tables))
	for i, c := range v.comparisons {
		all[i].Column = c.integerKey()
	}
	for _, k := range v.queue {
		r := &all[k.table]
		r.Chunks++
		if r.Column < 0 || k.chunk.Upto == nil {
			continue
		}
		v, err := strconv.ParseInt(string(k.chunk.Upto[0]), 10, 64)
		if r.Upto = append(r.Upto, v); err != nil {
			r.Column = -1
		}
	}
	return all
}

// integerKey returns the column of the target that has the first one of the source's key, in ascending order; -1: it is no integer.
func (c *comparison) integerKey() int {
	t := c.t.Source
	if len(t.Key) == 0 || len(t.Descending) > 0 && t.Descending[0] {
		return -1
	}
	switch t.Columns[t.Key[0]].Type {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return slices.Index(c.source.Columns[:len(c.t.Target.Columns)], t.Key[0])
	}
	return -1
}

// part cuts the next part. An open-ended chunk is cut up to the last key that the table had at the first cut:
// otherwise a table that grows faster than it is compared would have no last part.
func (v *Following) part(ctx context.Context, w *worker, c *comparison, k *partedChunk) (part rowstream.Chunk, last bool, err error) {
	defer w.pace.End()
	if err := w.pace.Begin(ctx); err != nil {
		return part, false, err
	}
	rows := c.rows
	if k.chunk.Upto != nil {
		rows *= 2 // it stays whole unless it has grown
	}
	err = v.inView(ctx, w, c.t, false, func(ctx context.Context) (err error) {
		reader, from := v.held.view.Reader(0), k.rest
		if k.chunk.Upto == nil && k.end == nil {
			if k.end, err = reader.LastKey(ctx, c.t.Source); err != nil {
				return err
			}
		}
		if from.Upto == nil {
			from.Upto = k.end
		}
		part, err = tabledef.CutRows(ctx, reader, c.t.Source, rows, from)
		return err
	})
	if last = part.Upto == nil; last {
		part.Upto = k.chunk.Upto
	}
	return part, last, err
}

// errViewTooShort means that a chunk cannot be compared within the life of a view.
var errViewTooShort = errors.New("comparing a part of it takes longer than a view of the source lives: raise option max-view-age or lower option chunk-bytes")

// inView calls do with a view of a table of the source, a fresh one or that of the part before, and again with a new view if the view
// expired. In between it waits, without a view, until the target has caught up with the source.
func (v *Following) inView(ctx context.Context, w *worker, t *tabledef.Table, fresh bool, do func(context.Context) error) error {
	for range maxComparisons {
		err := v.tryView(ctx, t, fresh, do)
		if err == nil || ctx.Err() != nil || !errors.Is(err, rowstream.ErrViewExpired) {
			return err
		}
		w.writer.Close() // a statement may have been interrupted
		w.pace.End()
		if err := v.caughtUp(ctx); err != nil {
			return err
		}
		if err := w.pace.Begin(ctx); err != nil {
			return err
		}
	}
	return errViewTooShort
}

// tryView is inView without repetition. The view is held only after a success.
func (v *Following) tryView(ctx context.Context, t *tabledef.Table, fresh bool, do func(context.Context) error) error {
	if err := v.hold(ctx, t, fresh); err != nil {
		return err
	}
	h := v.held
	err := h.explain(do(h.life))
	if err != nil {
		err = errors.Join(err, v.release())
	}
	return err
}

// caughtUp blocks until the target has everything that the source has now.
func (v *Following) caughtUp(ctx context.Context) error {
	p, err := v.o.Source.CurrentPosition(ctx)
	if err != nil {
		return err
	}
	return v.f.CatchUp(ctx, p)
}
