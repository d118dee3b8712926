package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// insertBytes is the maximum length of a multi-row INSERT, used where LOAD DATA LOCAL is not allowed. A
// quarter of the server's max_allowed_packet is a second limit.
const insertBytes = 1 << 20

// A ChunkWriter is the transaction of one chunk: batches of its rows, then the record that it is copied. Rows
// are sent as the file of one LOAD DATA statement, or of several if Settle is called before a pause. If the
// server does not accept client files, they are sent as multi-row INSERT statements.
type ChunkWriter struct {
	Rows int64 // written by completed statements

	w       *Writer
	t       *tabledef.Target
	head    string // the LOAD DATA statement, or the start of each INSERT
	wraps   []rowstream.Wrap
	loading bool  // a LOAD DATA is in progress
	sent    int64 // rows sent by it
}

// Begin starts the transaction of a chunk.
func (w *Writer) Begin(ctx context.Context, t *tabledef.Target) (*ChunkWriter, error) {
	if err := w.Connect(ctx); err != nil {
		return nil, err
	}
	if _, err := w.Conn.Exec(ctx, "START TRANSACTION"); err != nil {
		return nil, err
	}
	c := &ChunkWriter{w: w, t: t}
	if !w.insert { // LOCAL without REPLACE would mean IGNORE: wrong rows would be dropped with a warning
		list, set := rowstream.LoadColumns(t.Columns)
		replace := " REPLACE"
		if t.Owned != nil && t.Owned.Inserts { // IGNORE: rows with a duplicate key are skipped and counted
			replace = ""
		}
		c.head = "LOAD DATA LOCAL INFILE 'tare'" + replace + " INTO TABLE " + t.Spec.TargetSQL() + " " + rowstream.LoadFormat + " " + list + set
		return c, nil
	}
	c.head = "INSERT INTO "
	if w.Follows && (t.Owned == nil || !t.Owned.Inserts) {
		c.head = "REPLACE INTO "
	}
	var list string
	list, c.wraps = rowstream.InsertColumns(t.Columns)
	c.head += t.Spec.TargetSQL() + " " + list + " VALUES "
	return c, nil
}

// Write writes a batch.
func (c *ChunkWriter) Write(ctx context.Context, b *rowstream.Batch) error {
	if c.w.Careful {
		return c.writeCarefully(ctx, b)
	}
	if c.w.insert {
		return c.insert(ctx, b)
	}
	return c.load(ctx, b)
}

func (c *ChunkWriter) load(ctx context.Context, b *rowstream.Batch) (err error) {
	w := c.w
	if !c.loading {
		if err := w.Conn.BeginLoad(ctx, c.head); err != nil {
			return err
		}
		c.loading, c.sent = true, 0
	}
	c.sent += int64(b.Rows)
	if len(b.Bytes) > wideBatch {
		w.Text, err = rowstream.StreamLoad(w.Text[:0], b, func(part []byte) error { return w.Conn.WriteLoad(ctx, part) })
		w.HoldText()
		return err
	}
	if w.Text, err = rowstream.AppendLoad(w.Text[:0], b); err != nil {
		return err
	}
	err = w.Conn.WriteLoad(ctx, w.Text)
	w.shrink()
	return err
}

func (c *ChunkWriter) insert(ctx context.Context, b *rowstream.Batch) error {
	w := c.w
	for at := 0; at < len(b.Bytes); {
		limit := min(insertBytes, w.Limit/4)
		if b.Rows == 1 && len(b.Bytes) > limit {
			return c.insertWide(ctx, b)
		}
		sql, next, n, err := rowstream.AppendInsert(w.Text[:0], c.head, b, at, limit, c.wraps)
		if err == nil && n == 0 { // the first row is wide
			sql, next, n, err = rowstream.AppendInsert(w.Text[:0], c.head, b, at, w.Limit, c.wraps)
		}
		switch {
		case err != nil:
			return err
		case n == 0:
			return w.rowTooLong()
		}
		w.Text = sql
		res, err := w.Conn.ExecBytes(ctx, sql)
		if err = c.duplicate(err); err == nil {
			err = c.inserted(ctx, n, res)
		}
		if err != nil {
			return err
		}
		at = next
	}
	w.shrink()
	return nil
}

// insertWide inserts the only row of a batch by a statement that is written in pieces.
func (c *ChunkWriter) insertWide(ctx context.Context, b *rowstream.Batch) error {
	w := c.w
	var row mysqlwire.TextRow
	if _, err := b.Row(0, &row); err != nil {
		return err
	}
	size := rowstream.InsertSize(c.head, row, c.wraps)
	if size > w.Limit {
		return w.rowTooLong()
	}
	res, err := w.Conn.ExecStream(ctx, size, func(write func([]byte) error) (err error) {
		w.Text, err = rowstream.StreamInsert(w.Text[:0], c.head, row, c.wraps, write)
		return err
	})
	w.HoldText()
	if err = c.duplicate(err); err == nil {
		err = c.inserted(ctx, 1, res)
	}
	return err
}

// duplicate returns the error of a statement, as ErrDuplicate if it inserted a key of another source's row.
func (c *ChunkWriter) duplicate(err error) error {
	if c.t.Owned != nil && isDuplicate(err) {
		return fmt.Errorf("%w: %w", ErrDuplicate, err)
	}
	return err
}

// inserted checks the result of a statement that inserts rows.
func (c *ChunkWriter) inserted(ctx context.Context, n int, res mysqlconn.Result) error {
	if res.AffectedRows < uint64(n) || res.AffectedRows > uint64(n) && !c.w.Follows {
		return fmt.Errorf("%w: %d were inserted, it counted %d", ErrRows, n, res.AffectedRows)
	}
	if err := c.w.Expected(ctx, c.t, RowsWritten, res.Warnings); err != nil {
		return err
	}
	c.Rows += int64(n)
	return nil
}

func (w *Writer) rowTooLong() error {
	return fmt.Errorf("%w: a row is longer than a statement may be (max_allowed_packet %d): raise it in the target", ErrRows, w.Limit+1024)
}

// Settle completes the statement in progress, so that its locks are not kept during a pause. The next batch
// starts another one.
func (c *ChunkWriter) Settle(ctx context.Context) error {
	if !c.loading {
		return nil
	}
	c.loading = false
	res, err := c.w.Conn.EndLoad(ctx)
	if err != nil {
		return err
	}
	if c.t.Owned != nil && c.t.Owned.Inserts && res.Skipped != 0 {
		return ErrDuplicate
	}
	if res.Records != uint64(c.sent) || res.Skipped != 0 || res.Deleted != 0 && !c.w.Follows {
		err := c.w.Expected(ctx, c.t, RowsWritten, res.Warnings) // which has the reason, such as a CHECK constraint
		return fmt.Errorf("%w: %d were sent, it counted %d, skipped %d and replaced %d older ones", cmp.Or(err, ErrRows), c.sent, res.Records, res.Skipped, res.Deleted)
	}
	c.Rows += c.sent
	return c.w.Expected(ctx, c.t, RowsWritten, res.Warnings)
}

// Commit records the chunk as copied, after Settle, and commits.
func (c *ChunkWriter) Commit(ctx context.Context, k rowstream.Chunk) error {
	if err := c.writeTyped(ctx, k); err != nil {
		return err
	}
	if err := c.w.State.copied(ctx, c.w.Conn, c.t.Spec, k, c.Rows); err != nil {
		return err
	}
	_, err := c.w.Conn.Exec(ctx, "COMMIT")
	return err
}

// writeTyped has the server write the documents of the chunk's rows.
func (c *ChunkWriter) writeTyped(ctx context.Context, k rowstream.Chunk) error {
	if c.t.Typed == nil || c.Rows == 0 {
		return nil
	}
	sql, err := c.t.Typed.Chunk(k)
	if err != nil {
		return err
	}
	res, err := c.w.Conn.Exec(ctx, sql)
	if err != nil {
		return fmt.Errorf("write the JSON documents of %s: %w", c.t.Spec.Target(), err)
	}
	return c.w.Expected(ctx, c.t, RowsWritten, res.Warnings)
}

// Abort abandons a statement in progress by closing its connection.
func (c *ChunkWriter) Abort() {
	if c.loading {
		c.w.Close()
	}
}
