package state

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The counter of a table is the next value of its AUTO_INCREMENT column. Copied rows raise the target's
// counter, rows that were deleted in the source before do not: without the source's counter, clients of the
// target would get the ids of deleted rows again.

// RaiseCounters raises the target's counters to those of the source. It never lowers one. limit is the
// maximum time an ALTER TABLE waits for locks.
func RaiseCounters(ctx context.Context, from rowstream.Server, tables []*tabledef.Table, w *Writer, limit time.Duration) error {
	for _, t := range tables {
		if _, err := RaiseCounter(ctx, from, t, w, limit); err != nil {
			return fmt.Errorf("set AUTO_INCREMENT of %s in the target: %w", t.Spec.Target(), err)
		}
	}
	return nil
}

// RaiseCounter raises a table's counter to that of the source, which it returns.
func RaiseCounter(ctx context.Context, from rowstream.Server, t *tabledef.Table, w *Writer, limit time.Duration) (counter uint64, err error) {
	if !t.Counts {
		return 0, nil
	}
	if counter, err = sourceCounter(ctx, from, t.Spec); err == nil && counter > 1 {
		err = w.Retry(ctx, func() error { return raiseCounter(ctx, w.Conn, w.State.Lease, t.Spec, counter, limit) })
	}
	return counter, err
}

// raiseCounter raises the target's counter, under the lock for statements outside of transactions.
func raiseCounter(ctx context.Context, c *mysqlconn.Client, l *Lease, spec *tabledef.Spec, counter uint64, limit time.Duration) error {
	if now, err := targetCounter(ctx, c, spec); err != nil || now >= counter {
		return err
	}
	return WithIndexLock(ctx, c, l, spec, limit, func() error {
		if err := session.Set(ctx, c, session.Seconds("lock_wait_timeout", limit)); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "ALTER TABLE "+spec.TargetSQL()+" AUTO_INCREMENT = "+strconv.FormatUint(counter, 10)); err != nil {
			return err
		}
		if err := session.Set(ctx, c, session.Usual(c, "lock_wait_timeout")...); err != nil {
			return err
		}
		now, err := targetCounter(ctx, c, spec)
		if err == nil && now < counter {
			err = fmt.Errorf("%w: it is %d instead of %d", ErrState, now, counter)
		}
		return err
	})
}

func targetCounter(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (n uint64, err error) {
	_, err = c.Query(ctx, "SHOW CREATE TABLE "+spec.TargetSQL(), counterIn(&n))
	return n, err
}

// sourceCounter reads the counter with a single statement if possible, since clients may be paused.
func sourceCounter(ctx context.Context, from rowstream.Server, spec *tabledef.Spec) (n uint64, err error) {
	if s, ok := from.(session.Querier); ok {
		err := s.Query(ctx, "SHOW CREATE TABLE "+session.Ident(spec.Schema)+"."+session.Ident(spec.Name), counterIn(&n))
		return n, err
	}
	source, err := from.Describe(ctx, spec.Schema, spec.Name)
	if err != nil {
		return 0, err
	}
	return createtable.AutoIncrement(source.Create), nil
}

// counterIn reads the counter from SHOW CREATE TABLE.
func counterIn(n *uint64) func(mysqlwire.TextRow) error {
	return func(row mysqlwire.TextRow) error {
		*n = createtable.AutoIncrement(string(row[1]))
		return nil
	}
}
