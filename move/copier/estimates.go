package copier

import (
	"context"

	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// findLastKeys finds the last keys of the tables that are still to be copied, for the estimates of their rows. Those that are not found leave them unknown.
func (r *run) findLastKeys(ctx context.Context) {
	r.lastKeys = make([]mysqlwire.TextRow, len(r.tables))
	for i, t := range r.tables {
		switch {
		case t.State.Phase != tabledef.Copying || len(t.Source.Key) == 0:
		case t.Bound.Known:
			r.lastKeys[i] = t.Bound.Last
		case !t.Past():
			r.lastKeys[i], _ = r.snapshot.Reader(0).LastKey(ctx, t.Source) // an error recurs when rows are read
		}
	}
}

// resumeEstimate starts the estimate of a table's rows with the chunks that earlier runs have copied.
func (r *run) resumeEstimate(i int, t *tabledef.Table) {
	for n, k := range t.State.Chunks {
		if n == 0 {
			r.estimates[i].Begin(t.Source, k.Upto, r.lastKeys[i])
		}
		if k.Copied {
			r.estimates[i].Add(k.Chunk, k.Rows)
		}
	}
}

// count returns the progress of a table. r.mu must be locked.
func (r *run) count(i int) telemetry.TableCount {
	c := r.estimates[i].Count(r.rows[i], r.tables[i].Source)
	c.Copied = r.machine.tables[i].phase != tabledef.Copying
	return c
}
