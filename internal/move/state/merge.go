package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// variants returns the condition for all rows of a target table: of a copy from one source, and of each of several sources.
func variants(spec *tabledef.Spec) string {
	prefix := tabledef.SourcesOf(spec.ToName)
	return " WHERE target_schema = " + session.Literal(spec.ToSchema) + " AND (target_table = " + session.Literal(spec.ToName) +
		" OR LEFT(target_table, " + strconv.Itoa(len(prefix)) + ") = " + session.Literal(prefix) + " AND RIGHT(target_table, 1) = ' ')"
}

// Known reports whether any copy has recorded the target table, from one source or from several.
func (s State) Known(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (known bool, err error) {
	n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM "+s.Tables()+variants(spec))
	if Absent(err) {
		return false, nil
	}
	return n != "0", err
}

// ForgetOthers deletes the records that copies from other sources have of a target table, which is about to be emptied: their rows
// are lost with it. A statement of an older run that arrives later finds no epoch, and is rolled back.
func (s State) ForgetOthers(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) error {
	for _, table := range []string{s.Epochs(), s.chunks(), s.verifieds(), s.definitions(), s.foreignKeys(), s.Tables()} {
		if _, err := c.Exec(ctx, "DELETE FROM "+table+variants(spec)+" AND target_table <> "+session.Literal(spec.StateName())); err != nil && !Absent(err) {
			return fmt.Errorf("delete the state of other sources of %s in schema %s: %w", spec.Target(), s.Schema, err)
		}
	}
	return nil
}

// ErrDuplicate means that a row of a chunk has a key of a row that is in the target, of the same source or of another one. The chunk is
// written again with Writer.Careful.
var ErrDuplicate = errors.New("a row has the same value of a unique key as one that is in the target")

// isDuplicate reports whether a server has refused a row because of a unique key.
func isDuplicate(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == errDuplicateEntry
}

// Conflict returns the ConflictError for an error of an INSERT into a table with rows of several sources, after guarded DELETE statements
// for the keys of the same rows in the same transaction. It returns other errors unchanged.
func Conflict(ctx context.Context, c *mysqlconn.Client, t *tabledef.Target, err error, deletes [][]byte) error {
	if t.Owned == nil || !isDuplicate(err) {
		return err
	}
	other := 0
	for _, d := range deletes {
		n, err := session.QueryValue(ctx, c, t.Owned.OtherOwner(string(d)))
		if other, _ = strconv.Atoi(n); err != nil || other > 0 { // the conflict is certain, its other side is not
			break
		}
	}
	return t.Owned.Conflict(t.Spec.Target(), err, other)
}

// writeCarefully writes a batch row by row: it deletes the rows of the same source that have one of the row's keys, and inserts it.
func (c *ChunkWriter) writeCarefully(ctx context.Context, b *rowstream.Batch) error {
	o := c.t.Owned
	var row mysqlwire.TextRow
	for at := 0; at < len(b.Bytes); {
		next, err := b.Row(at, &row)
		if err != nil {
			return err
		}
		at = next
		var deletes [][]byte
		for _, k := range o.Keys {
			if !k.HasKey(row) {
				continue
			}
			sql := k.AppendDeleteTail(k.AppendKey(k.AppendDeleteHead(nil), row, true))
			res, err := c.w.Conn.ExecBytes(ctx, sql)
			if err == nil {
				err = c.w.Expected(ctx, c.t, KeysDeleted, res.Warnings)
			}
			if err != nil {
				return err
			}
			deletes = append(deletes, sql)
		}
		sql := o.Keys[0].AppendRow(o.Keys[0].AppendReplaceHead(nil), row, true)
		if len(sql) > c.w.Limit {
			return fmt.Errorf("%w: a row of %s is longer than a statement may be (max_allowed_packet %d): raise it in the target", ErrRows, c.t.Spec.Target(), c.w.Limit+1024)
		}
		res, err := c.w.Conn.ExecBytes(ctx, sql)
		if err != nil {
			return Conflict(ctx, c.w.Conn, c.t, err, deletes)
		}
		if res.AffectedRows != 1 {
			return fmt.Errorf("%w: 1 was inserted, it counted %d", ErrRows, res.AffectedRows)
		}
		if err := c.w.Expected(ctx, c.t, RowsWritten, res.Warnings); err != nil {
			return err
		}
		c.Rows++
	}
	return nil
}

// A ConflictWait is a wait until a row of another source that has the same unique key as a row to be written is deleted: if clients have moved
// the row between the sources, or have resolved a conflict, that change may arrive later.
type ConflictWait struct {
	began time.Time
	pause time.Duration
	ended func()
}

// The pauses before a conflicting transaction is repeated.
const (
	firstConflictPause = 250 * time.Millisecond
	maxConflictPause   = 4 * time.Second
)

// Wait reports whether a transaction that failed with err may be repeated because of a conflict that may resolve within the patience of w. It
// rolls the transaction back, and pauses.
func (c *ConflictWait) Wait(ctx context.Context, w *Writer, err error) bool {
	var conflict *tabledef.ConflictError
	if !errors.As(err, &conflict) {
		return false
	}
	if c.ended == nil {
		c.began, c.pause = time.Now(), firstConflictPause
		c.ended = w.Waits.Begin("a row of another source to be deleted or changed that has the same unique key as one to be written", "", w.Patience)
	}
	w.Close()
	if time.Since(c.began) > w.Patience || !telemetry.Sleep(ctx, c.pause) {
		return false
	}
	c.pause = min(2*c.pause, maxConflictPause)
	return true
}

// End must be called after the last Wait.
func (c *ConflictWait) End() {
	if c.ended != nil {
		c.ended()
	}
}
