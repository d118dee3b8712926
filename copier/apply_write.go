package copier

import (
	"context"
	"fmt"
	"strconv"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// applyBatch writes one writer's part of a batch in a transaction, with the note of a position
// unless that is nil. When the connection is lost, or the server gives the transaction up, it
// is repeated: that may also follow a COMMIT whose answer was lost, and leaves the same rows.
func (w *writer) applyBatch(ctx context.Context, f *follower, a *applier, number int, note *binlog.Position) error {
	err := w.connect(ctx)
	for try := 1; ; try++ {
		if err == nil {
			err = w.waiting("changes", func() error { return w.tryBatch(ctx, f, a, number, note) })
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !w.worthRepeating(err) || try == maxTries {
			return fmt.Errorf("apply changes to the target: %w", err)
		}
		w.retry(err)
		if err = w.reconnect(ctx); err != nil || note == nil {
			continue
		}
		// Whatever became of the lost transaction, it holds the note's row until it is over.
		var there binlog.Position
		if there, err = f.state.position(ctx, w.c); err == nil && there == *note && f.noted != *note {
			return nil // the answer to COMMIT was lost, its effect was not
		}
	}
}

func (w *writer) tryBatch(ctx context.Context, f *follower, a *applier, number int, note *binlog.Position) error {
	if _, err := w.c.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	for t := range a.tables {
		s := a.script(number, t)
		for i := range s.statements {
			if err := w.applyStatement(ctx, f.targets[t], s, &s.statements[i]); err != nil {
				return err
			}
		}
	}
	var err error
	if note != nil {
		err = f.state.note(ctx, w.c, *note)
	} else {
		err = f.state.lease.check(ctx, w.c)
	}
	if err != nil {
		return err
	}
	_, err = w.c.Exec(ctx, "COMMIT")
	return err
}

func (w *writer) applyStatement(ctx context.Context, t *target, s *script, st *statement) error {
	if st.to-st.from > w.limit {
		return fmt.Errorf("%w: a change to %s is longer than a statement may be (max_allowed_packet %d): raise it in the target", errRows, t.spec.target(), w.limit+1024)
	}
	res, err := w.c.ExecBytes(ctx, s.text[st.from:st.to])
	if err != nil {
		return fmt.Errorf("write to %s: %w", t.spec.target(), err)
	}
	if st.kind == replaceRows && res.AffectedRows < uint64(st.rows) {
		return fmt.Errorf("%w: %d were written to %s, it counted %d", errRows, st.rows, t.spec.target(), res.AffectedRows)
	}
	class := rowsWritten
	if st.kind != replaceRows {
		class = keysDeleted
	}
	return w.expected(ctx, t, class, res.Warnings)
}

// readCommitted makes transactions lock the rows that they change and no gaps between them,
// unless the target's own log is one of statements, which then refuses them.
func (w *writer) readCommitted(ctx context.Context, c *mysqlconn.Client) error {
	refused := false
	if _, err := c.Query(ctx, "SELECT @@log_bin, @@binlog_format", func(row mysqlwire.TextRow) error {
		on, _ := strconv.ParseBool(string(row[0]))
		refused = on && string(row[1]) == "STATEMENT"
		return nil
	}); err != nil {
		return fmt.Errorf("read the target's binary log: %w", err)
	}
	if refused {
		return nil
	}
	_, err := c.Exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	return err
}

func shuttingDown(n mysqlwire.Errno) bool {
	switch n {
	case mysqlwire.ErrnoServerShutdown, mysqlwire.ErrnoConnectionKilled, mysqlwire.ErrnoQueryInterrupted, mysqlwire.ErrnoServerLost:
		return true
	}
	return false
}
