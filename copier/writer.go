package copier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// insertBytes is how large a multi-row INSERT gets, where LOAD DATA LOCAL is not allowed: a
// quarter of the server's longest packet, at most this.
const insertBytes = 1 << 20

// A target is one table that rows are written to.
type target struct {
	spec    *TableSpec
	columns []rowstream.Column
}

// A writer writes chunks over one connection to the target, each in a transaction with its
// note in the state. When the connection is lost, or the server asks for the transaction to
// be repeated, it finds out what was committed and goes on.
type writer struct {
	cfg      mysqlconn.Config
	state    state
	patience time.Duration // how long a lost server is waited for
	retry    func(error)   // told of each repetition
	waits    *waits        // of the run; may be nil
	follows  bool          // rows may push out others, since changes that are applied later bring them back

	check func(context.Context, *mysqlconn.Client) error // of what a chunk's transaction has written; nil: none

	c      *mysqlconn.Client // nil until connected
	insert bool              // INSERT, since the server takes no files of clients
	limit  int               // bytes of an INSERT
	// warnings is how many of a statement's the server keeps.
	warnings uint32
	text     []byte // LOAD DATA or INSERT text of one batch
}

// A sourceError is an error of the side that rows are read from; repeating on the target
// does not help.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// rows is a chunk's source: it hands on batches. Before it pauses it calls settle, which ends the
// statement that is under way.
type rows func(each func(*rowstream.Batch) error, settle func() error) error

// maxTries is how often the transaction of a chunk is tried.
const maxTries = 10

// copyChunk writes a chunk's rows and notes it. It answers how many rows were written.
func (w *writer) copyChunk(ctx context.Context, t *target, k rowstream.Chunk, read rows) (written int64, err error) {
	for try := 1; ; try++ {
		err = w.waiting("a chunk of "+t.spec.target(), func() (err error) {
			written, err = w.tryChunk(ctx, t, k, read)
			return err
		})
		if err == nil {
			return written, nil
		}
		var fromSource sourceError
		if ctx.Err() != nil || errors.As(err, &fromSource) || !w.worthRepeating(err) || try == maxTries {
			return 0, fmt.Errorf("write chunk %d of %s: %w", k.Number, t.spec.target(), err)
		}
		w.retry(err)
		if err := w.reconnect(ctx); err != nil {
			return 0, fmt.Errorf("write chunk %d of %s: %w", k.Number, t.spec.target(), err)
		}
		copied, err := w.state.isCopied(ctx, w.c, t.spec, k)
		if err == nil && copied { // the answer to COMMIT was lost, its effect was not
			return written, nil
		}
	}
}

// worthRepeating reports whether a transaction may succeed when it is repeated: the
// connection was lost, or the server gave it up for another one's sake.
func (w *writer) worthRepeating(err error) bool {
	var gone goneError
	if errors.As(err, &gone) {
		return false
	}
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) {
		return !errors.Is(err, errRows) && !errors.Is(err, errLeaseLost) && !errors.Is(err, errLocked) && !errors.Is(err, errState)
	}
	switch refused.Number {
	case mysqlwire.ErrnoLockWaitTimeout, mysqlwire.ErrnoDeadlock, mysqlwire.ErrnoServerShutdown,
		mysqlwire.ErrnoConnectionKilled, mysqlwire.ErrnoQueryInterrupted, mysqlwire.ErrnoServerLost:
		return true
	}
	return refused.SafeToRetry()
}

// A goneError says that the target was unreachable for as long as is patient. It is not tried again.
type goneError struct{ error }

func (e goneError) Unwrap() error { return e.error }

// errRows says that what the server counted is not what was sent: repeating does not help.
var errRows = errors.New("the target did not take all rows")

// connect opens the connection unless it is open.
func (w *writer) connect(ctx context.Context) error {
	if w.c != nil {
		return nil
	}
	cfg := w.cfg
	cfg.Capabilities |= mysqlwire.CapLocalFiles
	c, err := rowstream.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	if err := w.prepare(ctx, c); err != nil {
		_ = c.Close()
		return fmt.Errorf("prepare the connection to %s: %w", cfg.Addr, err)
	}
	if w.follows {
		if err := w.readCommitted(ctx, c); err != nil {
			_ = c.Close()
			return err
		}
	}
	w.c = c
	return nil
}

// prepare sets what a writer needs and asks for the server's limits. MySQL lets not everybody have more
// warnings kept than there are by default.
func (w *writer) prepare(ctx context.Context, c *mysqlconn.Client) error {
	if err := w.state.lease.confirm(ctx, c); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return err
	}
	_, err := c.Exec(ctx, fmt.Sprintf("SET SESSION max_error_count = %d", mostWarnings))
	var refused *mysqlconn.ServerError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	_, err = c.Query(ctx, "SELECT @@local_infile, @@max_allowed_packet, @@max_error_count", func(row mysqlwire.TextRow) error {
		packet, err1 := strconv.Atoi(string(row[1]))
		warnings, err2 := strconv.ParseUint(string(row[2]), 10, 32)
		w.insert, w.limit, w.warnings = string(row[0]) != "1", packet-1024, uint32(warnings)
		return errors.Join(err1, err2)
	})
	return err
}

// reconnect opens a new connection, as soon as the server is there again.
func (w *writer) reconnect(ctx context.Context) error {
	defer w.waits.begin("the target to be reachable again", "", w.patience)()
	w.close()
	deadline := time.Now().Add(w.patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := w.connect(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errLeaseLost) {
			return err
		}
		if time.Now().After(deadline) {
			return goneError{fmt.Errorf("%w; tried for %v", err, w.patience)}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// waiting does something on the target, which may wait for locks, disks or the network there. A target that is silent and
// not at work on it is given up after the patience: see rowstream.Connect.
func (w *writer) waiting(what string, do func() error) error {
	defer w.waits.begin("the target to execute "+what, "", 0)()
	return do()
}

func (w *writer) close() {
	if w.c != nil {
		_ = w.c.Close() // an open transaction is rolled back by the server
		w.c = nil
	}
}

// again does something that may be done twice, until it is done for sure.
func (w *writer) again(ctx context.Context, do func() error) error {
	err := w.connect(ctx)
	for try := 1; ; try++ {
		if err == nil {
			err = w.waiting("a statement of its own state or definitions", do)
		}
		if err == nil || ctx.Err() != nil || !w.worthRepeating(err) || try == maxTries {
			return err
		}
		w.retry(err)
		err = w.reconnect(ctx)
	}
}

func (w *writer) tryChunk(ctx context.Context, t *target, k rowstream.Chunk, read rows) (written int64, err error) {
	if err := w.connect(ctx); err != nil {
		return 0, err
	}
	if _, err := w.c.Exec(ctx, "START TRANSACTION"); err != nil {
		return 0, err
	}
	if w.insert {
		written, err = w.insertRows(ctx, t, read)
	} else {
		written, err = w.loadRows(ctx, t, read)
	}
	if err != nil {
		return 0, err
	}
	if w.check != nil {
		if err := w.check(ctx, w.c); err != nil {
			return 0, err
		}
	}
	if err := w.state.copied(ctx, w.c, t.spec, k, written); err != nil {
		return 0, err
	}
	_, err = w.c.Exec(ctx, "COMMIT")
	return written, err
}

// loadRows sends the rows as the file of one LOAD DATA statement, or of several with pauses between
// them. LOCAL without REPLACE would mean IGNORE: wrong rows would be dropped with a warning.
func (w *writer) loadRows(ctx context.Context, t *target, read rows) (written int64, err error) {
	list, set := rowstream.LoadColumns(t.columns)
	sql := "LOAD DATA LOCAL INFILE 'tare' REPLACE INTO TABLE " + t.spec.targetSQL() + " " + rowstream.LoadFormat + " " + list + set
	loading, sent := false, int64(0) // by the statement that is under way
	settle := func() error {
		if !loading {
			return nil
		}
		loading = false
		res, err := w.c.EndLoad(ctx)
		if err != nil {
			return err
		}
		if res.Records != uint64(sent) || res.Skipped != 0 || res.Deleted != 0 && !w.follows {
			return fmt.Errorf("%w: %d were sent, it counted %d, skipped %d and replaced %d older ones", errRows, sent, res.Records, res.Skipped, res.Deleted)
		}
		written += sent
		return w.expected(ctx, t, rowsWritten, res.Warnings)
	}
	err = read(func(b *rowstream.Batch) (err error) {
		if !loading {
			if err := w.c.BeginLoad(ctx, sql); err != nil {
				return err
			}
			loading, sent = true, 0
		}
		sent += int64(b.Rows)
		if len(b.Bytes) > wideBatch {
			w.text, err = rowstream.StreamLoad(w.text[:0], b, func(part []byte) error { return w.c.WriteLoad(ctx, part) })
			return err
		}
		if w.text, err = rowstream.AppendLoad(w.text[:0], b); err != nil {
			return err
		}
		err = w.c.WriteLoad(ctx, w.text)
		w.shrink()
		return err
	}, settle)
	if err == nil {
		err = settle()
	}
	if err != nil && loading {
		w.close() // the server drops the statement
	}
	return written, err
}

// insertRows sends the rows as multi-row INSERT statements.
func (w *writer) insertRows(ctx context.Context, t *target, read rows) (written int64, err error) {
	list, wraps := rowstream.InsertColumns(t.columns)
	head := "INSERT INTO "
	if w.follows {
		head = "REPLACE INTO "
	}
	head += t.spec.targetSQL() + " " + list + " VALUES "
	err = read(func(b *rowstream.Batch) error {
		for at := 0; at < len(b.Bytes); {
			limit := min(insertBytes, w.limit/4)
			if b.Rows == 1 && len(b.Bytes) > limit { // a row of its own
				w.text, limit = rowstream.GrowInsert(w.text[:0], head, b), w.limit
			}
			sql, next, n, err := rowstream.AppendInsert(w.text[:0], head, b, at, limit, wraps)
			if err == nil && n == 0 { // a row of its own
				sql, next, n, err = rowstream.AppendInsert(w.text[:0], head, b, at, w.limit, wraps)
			}
			switch {
			case err != nil:
				return err
			case n == 0:
				return fmt.Errorf("%w: a row is longer than a statement may be (max_allowed_packet %d): raise it in the target", errRows, w.limit+1024)
			}
			w.text = sql
			res, err := w.c.ExecBytes(ctx, sql)
			if err != nil {
				return err
			}
			if res.AffectedRows < uint64(n) || res.AffectedRows > uint64(n) && !w.follows {
				return fmt.Errorf("%w: %d were inserted, it counted %d", errRows, n, res.AffectedRows)
			}
			if err := w.expected(ctx, t, rowsWritten, res.Warnings); err != nil {
				return err
			}
			written += int64(n)
			at = next
		}
		w.shrink()
		return nil
	}, func() error { return nil })
	return written, err
}

// wideBatch is how many bytes a batch has at least that is written in pieces: one row out of the connection's buffer.
const wideBatch = 4 << 20

// textKeep is how much room for text is kept from one batch to the next.
const textKeep = 4 * rowstream.DefaultBatchBytes

func (w *writer) shrink() {
	if cap(w.text) > textKeep {
		w.text = nil
	}
}

// mostWarnings is how many warnings of a statement a server can be made to keep.
const mostWarnings = 65535

// expected checks the warnings of a statement. Those that are expected say nothing about rows: see harmlessWarning.
func (w *writer) expected(ctx context.Context, t *target, class statementClass, warnings uint32) error {
	if warnings == 0 {
		return nil
	}
	if warnings > w.warnings {
		return fmt.Errorf("%w: %d warnings, of which the server lists %d: use smaller chunks (--chunk-bytes), so that all are listed", errRows, warnings, w.warnings)
	}
	told := uint32(0)
	var other []string
	if _, err := w.c.Query(ctx, "SHOW WARNINGS", func(row mysqlwire.TextRow) error {
		told++
		if !t.harmlessWarning(class, row) && len(other) < 5 {
			other = append(other, string(row[1])+" "+string(row[2]))
		}
		return nil
	}); err != nil {
		return err
	}
	if len(other) > 0 || told != warnings {
		return fmt.Errorf("%w unchanged: %d warnings, %d of them listed: %s", errRows, warnings, told, strings.Join(other, "; "))
	}
	return nil
}
