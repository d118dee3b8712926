package copier

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// The counter of a table is the next value of its AUTO_INCREMENT column. Rows that are copied raise the target's, and rows
// that were deleted in the source before do not: without the source's counter, clients of the target would get the ids
// of deleted rows again.

// counted reports whether the table's AUTO_INCREMENT column is copied to one of the target.
func (t *table) counted(there *rowstream.Table) bool {
	for i := range t.target.columns {
		from := i
		if t.plan != nil && t.plan.Output != nil {
			if t.plan.Output[i].From != rowstream.ColumnValue {
				continue
			}
			from = t.plan.Output[i].Column
		}
		n := columnNumber(there, t.target.columns[i].Name)
		if t.source.Columns[from].Auto && n >= 0 && there.Columns[n].Auto {
			return true
		}
	}
	return false
}

// raiseCounters raises the target's counters to those of the source. It never lowers one. do executes a function with a
// connection to the target, and may repeat it. An ALTER TABLE waits for others at most for limit.
func (r *run) raiseCounters(ctx context.Context, limit time.Duration, do func(func(*mysqlconn.Client) error) error) error {
	for _, t := range r.tables {
		if !t.counts {
			continue
		}
		source, err := counterOf(ctx, r.from, t.spec)
		if err == nil && source > 1 {
			err = do(func(c *mysqlconn.Client) error { return t.raiseCounter(ctx, c, r.state.lease, source, limit) })
		}
		if err != nil {
			return fmt.Errorf("set AUTO_INCREMENT of %s in the target: %w", t.spec.target(), err)
		}
	}
	return nil
}

// endCounters raises the counters at the end of a copy.
func (r *run) endCounters(ctx context.Context) error {
	w := &writer{
		cfg: r.o.To, state: r.state, patience: r.o.Patience, waits: r.o.waits,
		retry: func(err error) { r.o.Observe(Event{Kind: EventRetry, Text: err.Error()}) },
	}
	defer w.close()
	return r.raiseCounters(ctx, r.o.Patience, func(do func(*mysqlconn.Client) error) error {
		return w.again(ctx, func() error { return do(w.c) })
	})
}

// counterOf returns the counter of a table of a source.
func counterOf(ctx context.Context, from rowstream.Server, spec *TableSpec) (n uint64, err error) {
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

// raiseCounter raises the target's counter, under the lock for statements that belong to no transaction.
func (t *table) raiseCounter(ctx context.Context, c *mysqlconn.Client, l *lease, counter uint64, limit time.Duration) error {
	if now, err := t.targetCounter(ctx, c); err != nil || now >= counter {
		return err
	}
	return underIndexLock(ctx, c, l, t.spec, limit, func() error {
		if _, err := c.Exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, int(limit.Seconds())))); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "ALTER TABLE "+t.spec.targetSQL()+" AUTO_INCREMENT = "+strconv.FormatUint(counter, 10)); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "SET SESSION lock_wait_timeout = DEFAULT"); err != nil {
			return err
		}
		now, err := t.targetCounter(ctx, c)
		if err == nil && now < counter {
			err = fmt.Errorf("%w: it is %d instead of %d", errState, now, counter)
		}
		return err
	})
}

func (t *table) targetCounter(ctx context.Context, c *mysqlconn.Client) (uint64, error) {
	create := ""
	_, err := c.Query(ctx, "SHOW CREATE TABLE "+t.spec.targetSQL(), func(row mysqlwire.TextRow) error {
		create = string(row[1])
		return nil
	})
	return rowstream.AutoIncrement(create), err
}
