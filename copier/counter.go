package copier

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// The counter of a table is the next value of its AUTO_INCREMENT column. Rows that are copied raise the target's, and rows
// that were deleted in the source before do not: without the source's counter, clients of the target would get the ids
// of deleted rows again.

// raiseCounters raises the target's counters to those of the source. It never lowers one. do executes a function with a
// connection to the target, and may repeat it. An ALTER TABLE waits for others at most for limit.
func (r *run) raiseCounters(ctx context.Context, limit time.Duration, do func(func(*mysqlconn.Client) error) error) error {
	for _, t := range r.tables {
		if !t.Counts {
			continue
		}
		source, err := counterOf(ctx, r.from, t.Spec)
		if err == nil && source > 1 {
			err = do(func(c *mysqlconn.Client) error { return state.RaiseCounter(t, ctx, c, r.state.Lease, source, limit) })
		}
		if err != nil {
			return fmt.Errorf("set AUTO_INCREMENT of %s in the target: %w", t.Spec.Target(), err)
		}
	}
	return nil
}

// endCounters raises the counters at the end of a copy.
func (r *run) endCounters(ctx context.Context) error {
	w := &state.Writer{
		Cfg: r.o.To, State: r.state, Patience: r.o.Patience, Waits: r.o.waits,
		Retry: func(err error) { r.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: err.Error()}) },
	}
	defer w.Close()
	return r.raiseCounters(ctx, r.o.Patience, func(do func(*mysqlconn.Client) error) error {
		return w.Again(ctx, func() error { return do(w.Conn) })
	})
}

// counterOf returns the counter of a table of a source.
func counterOf(ctx context.Context, from rowstream.Server, spec *tabledef.Spec) (n uint64, err error) {
	if s, ok := from.(querier); ok { // one statement, since clients may be paused
		err := s.Query(ctx, "SHOW CREATE TABLE "+rowstream.Ident(spec.Schema)+"."+rowstream.Ident(spec.Name), func(row mysqlwire.TextRow) error {
			n = rowstream.AutoIncrement(string(row[1]))
			return nil
		})
		return n, err
	}
	source, err := from.Describe(ctx, spec.Schema, spec.Name)
	if err != nil {
		return 0, err
	}
	return rowstream.AutoIncrement(source.Create), nil
}
