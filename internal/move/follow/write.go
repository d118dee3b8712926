package follow

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// applyBatch writes one writer's part of a batch in a transaction, which also records the position *note
// unless note is nil. If the connection is lost or the server rolls the transaction back, it is repeated.
// That is correct even after a COMMIT whose response was lost, because the same rows result.
func applyBatch(ctx context.Context, w *state.Writer, f *Follower, a *applier, number int, note *binlog.Position) error {
	err := w.Connect(ctx)
	var conflict state.ConflictWait
	defer conflict.End()
	for try := 1; ; try++ {
		if err == nil {
			err = w.Waiting("changes", func() error { return tryBatch(ctx, w, f, a, number, note) })
		}
		if err == nil {
			return nil
		}
		if conflict.Wait(ctx, w, err) {
			err = w.Connect(ctx)
			try--
			continue
		}
		if ctx.Err() != nil || !w.Retryable(err) || try == state.MaxTries {
			return fmt.Errorf("apply changes to %s: %w", w.Cfg.Addr, state.WithAdvice(err))
		}
		w.Retries(err)
		if err = w.Reconnect(ctx); err != nil || note == nil {
			continue
		}
		// The lost transaction locks the row of the position until it is over.
		var there binlog.Position
		if there, err = f.o.State.Position(ctx, w.Conn); err == nil && there == *note && f.recorded != *note {
			return nil // only the response to COMMIT was lost
		}
	}
}

func tryBatch(ctx context.Context, w *state.Writer, f *Follower, a *applier, number int, note *binlog.Position) error {
	if f.o.Turn != nil && a.insertsBeside(number) {
		select {
		case f.o.Turn <- struct{}{}:
			defer func() { <-f.o.Turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if _, err := w.Conn.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	for t := range a.tables {
		s := a.script(number, t)
		for i := range s.statements {
			if err := applyStatement(ctx, w, f.targets[t], a, number, t, &s.statements[i]); err != nil {
				return state.Conflict(ctx, w.Conn, f.targets[t], err, s.deletesBefore(i))
			}
		}
	}
	var err error
	if note != nil {
		err = f.o.State.Note(ctx, w.Conn, *note)
	} else {
		err = f.o.State.Lease.Check(ctx, w.Conn)
	}
	if err != nil {
		return err
	}
	_, err = w.Conn.Exec(ctx, "COMMIT")
	return err
}

// applyStatement executes a statement of a writer for a table.
func applyStatement(ctx context.Context, w *state.Writer, t *tabledef.Target, a *applier, writer, table int, st *statement) error {
	text := a.script(writer, table).text[st.from:st.to]
	size := len(text)
	var row mysqlwire.TextRow
	if st.wide {
		if _, err := a.batch.Tables[table].Row(st.image, &row); err != nil {
			return err
		}
		size += a.tables[table].sql.RowSize(row)
	}
	if size > w.Limit {
		return fmt.Errorf("%w: a change to %s is longer than a statement may be (max_allowed_packet %d): raise it in the target", state.ErrRows, t.Spec.Target(), w.Limit+1024)
	}
	var res mysqlconn.Result
	var err error
	if st.wide {
		res, err = w.Conn.ExecStream(ctx, size, func(write func([]byte) error) error {
			if err := write(text); err != nil {
				return err
			}
			var err error
			w.Text, err = a.tables[table].sql.StreamRow(w.Text[:0], row, write)
			return err
		})
		w.HoldText()
	} else {
		res, err = w.Conn.ExecBytes(ctx, text)
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", t.Spec.Target(), err)
	}
	if st.kind == replaceRows && res.AffectedRows < uint64(st.rows) {
		return fmt.Errorf("%w: %d were written to %s, it counted %d", state.ErrRows, st.rows, t.Spec.Target(), res.AffectedRows)
	}
	class := state.RowsWritten
	if st.kind != replaceRows && st.kind != typedRows {
		class = state.KeysDeleted
	}
	return w.Expected(ctx, t, class, res.Warnings)
}

// deletesBefore returns the statements before the given one that delete rows by their keys, the nearest first.
func (s *script) deletesBefore(number int) (all [][]byte) {
	for i := number - 1; i >= 0; i-- {
		if st := &s.statements[i]; st.kind == deleteRows || st.kind == displacedRows {
			all = append(all, s.text[st.from:st.to])
		}
	}
	return all
}
