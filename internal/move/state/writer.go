package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A Writer writes chunks over one connection to the target, each in a transaction that also records it in the
// state. If the connection is lost, or the server requests that the transaction is repeated, it determines
// whether the transaction was committed and continues from there.
type Writer struct {
	Cfg      mysqlconn.Config
	State    State
	Patience time.Duration    // how long to wait for a lost server
	Waits    *telemetry.Waits // of the run; may be nil
	Follows  bool             // rows may displace others, which later applied changes restore
	Observe  func(telemetry.Event)
	Careful  bool // chunks of a table with rows of several sources are written row by row: see ErrDuplicate

	Table string // the source table being written, for events; empty: changes of all tables
	Chunk int    // likewise

	Conn   *mysqlconn.Client // nil until connected
	insert bool              // use INSERT, since the server does not accept client files
	Limit  int               // maximum bytes of an INSERT
	// Warnings is the maximum number of warnings per statement that the server keeps.
	Warnings uint32
	Text     []byte // LOAD DATA or INSERT text of one batch

	Rows rowstream.Batch // the rows of a batch that are the target's, if others are of other targets
}

// A SourceError is an error of the source side. Repeating on the target does not help.
type SourceError struct{ Err error }

// Error implements error.
func (e SourceError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e SourceError) Unwrap() error { return e.Err }

// MaxTries is the maximum number of tries of a chunk's transaction.
const MaxTries = 10

// Recover prepares another try of a chunk's transaction that has failed, or returns the error that ends the
// copy. It reports whether the transaction was committed: then only the response was lost.
func (w *Writer) Recover(ctx context.Context, t *tabledef.Target, k rowstream.Chunk, failed error, try int) (committed bool, err error) {
	var fromSource SourceError
	if errors.As(failed, &fromSource) {
		return false, failed
	}
	if ctx.Err() != nil || !w.Retryable(failed) || try == MaxTries {
		return false, fmt.Errorf("write chunk %d of %s to %s: %w", k.Number, t.Spec.Target(), w.Cfg.Addr, WithAdvice(failed))
	}
	w.Retries(failed)
	if err := w.Reconnect(ctx); err != nil {
		return false, fmt.Errorf("write chunk %d of %s to %s: %w", k.Number, t.Spec.Target(), w.Cfg.Addr, WithAdvice(err))
	}
	committed, err = w.State.isCopied(ctx, w.Conn, t.Spec, k)
	return committed && err == nil, nil // the next try returns an error of the new connection
}

// Retryable reports whether a transaction may succeed when it is repeated: the connection was lost, or
// the server rolled it back in favor of another one.
func (w *Writer) Retryable(err error) bool {
	var gone *retry.ExhaustedError
	if errors.As(err, &gone) {
		return false
	}
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) {
		return !errors.Is(err, ErrRows) && !errors.Is(err, ErrLeaseLost) && !errors.Is(err, ErrLocked) && !errors.Is(err, ErrState)
	}
	switch refused.Number {
	case mysqlwire.ErrnoLockWaitTimeout, mysqlwire.ErrnoDeadlock, mysqlwire.ErrnoServerShutdown,
		mysqlwire.ErrnoConnectionKilled, mysqlwire.ErrnoQueryInterrupted, mysqlwire.ErrnoServerLost:
		return true
	}
	return refused.SafeToRetry()
}

// ErrRows means that the server counted a different number of rows than was sent. Repeating does not help.
var ErrRows = errors.New("the target did not take all rows")

// Retries reports that an operation is repeated after an error.
func (w *Writer) Retries(err error) {
	text := err.Error()
	if w.Table == "" {
		text = "repeated on " + w.Cfg.Addr + ": " + text
	}
	w.Observe(telemetry.Event{Kind: telemetry.EventRetry, Table: w.Table, Chunk: w.Chunk, Text: text})
}

// Connect opens the connection unless it is open.
func (w *Writer) Connect(ctx context.Context) error {
	if w.Conn != nil {
		return nil
	}
	cfg := w.Cfg
	cfg.Capabilities |= mysqlwire.CapLocalFiles
	c, err := session.Connect(ctx, cfg, session.Int("foreign_key_checks", 0))
	if err != nil {
		return err
	}
	if err := w.prepare(ctx, c); err != nil {
		_ = c.Close()
		return fmt.Errorf("prepare the connection to %s: %w", cfg.Addr, err)
	}
	if w.Follows {
		if err := w.readCommitted(ctx, c); err != nil {
			_ = c.Close()
			return err
		}
	}
	w.Conn = c
	w.HoldText()
	return nil
}

// prepare sets the session variables of a writer and reads the server's limits. Not all accounts of MySQL may
// raise the number of warnings kept.
func (w *Writer) prepare(ctx context.Context, c *mysqlconn.Client) error {
	if err := w.State.Lease.Confirm(ctx, c); err != nil {
		return err
	}
	err := session.Set(ctx, c, session.Int("max_error_count", mostWarnings))
	if err != nil && !session.IsUnseen(err) {
		return err
	}
	_, err = c.Query(ctx, "SELECT @@local_infile, @@max_allowed_packet, @@max_error_count", func(row mysqlwire.TextRow) error {
		packet, err1 := strconv.Atoi(string(row[1]))
		warnings, err2 := strconv.ParseUint(string(row[2]), 10, 32)
		w.insert, w.Limit, w.Warnings = string(row[0]) != "1", packet-1024, uint32(warnings)
		return errors.Join(err1, err2)
	})
	return err
}

// Reconnect opens a new connection as soon as the server is reachable again.
func (w *Writer) Reconnect(ctx context.Context) error {
	defer w.Waits.Begin("the target to be reachable again", "", w.Patience)()
	w.Close()
	return retry.Within(ctx, w.Patience, func() error {
		err := w.Connect(ctx)
		if errors.Is(err, ErrLeaseLost) {
			return retry.Final(err)
		}
		return err
	})
}

// Waiting calls do, which may wait for locks, disks or the network of the target. A target that does not
// respond and does not work on the statement is abandoned after the patience: see session.Connect.
func (w *Writer) Waiting(what string, do func() error) error {
	defer w.Waits.Begin("the target to execute "+what, "", 0)()
	return do()
}

// Close closes the connection, if it is open.
func (w *Writer) Close() {
	if w.Conn != nil {
		_ = w.Conn.Close() // the server rolls an open transaction back
		w.Conn = nil
	}
}

// Retry calls do, which must be idempotent, until it has certainly been executed.
func (w *Writer) Retry(ctx context.Context, do func() error) error {
	err := w.Connect(ctx)
	for try := 1; ; try++ {
		if err == nil {
			err = w.Waiting("a statement of its own state or definitions", do)
		}
		if err == nil || ctx.Err() != nil || !w.Retryable(err) || try == MaxTries {
			return err
		}
		w.Retries(err)
		err = w.Reconnect(ctx)
	}
}

// wideBatch is the size in bytes from which a batch is written in parts: one row at a time, from the
// connection's buffer.
const wideBatch = 4 << 20

// TextKeep is the maximum capacity for text kept between batches.
const TextKeep = 4 * rowstream.DefaultBatchBytes

func (w *Writer) shrink() {
	if cap(w.Text) > TextKeep {
		w.Text = nil
	}
	w.HoldText()
}

// HoldText has the memory of Text and Rows counted with the connection, which must be open.
func (w *Writer) HoldText() { w.Conn.Hold(int64(heapsize.Bytes(w.Text)) + w.Rows.HeapBytes()) }

// mostWarnings is the maximum number of warnings that a server can be configured to keep.
const mostWarnings = 65535

// Expected returns an error unless all warnings of a statement are expected: see harmlessWarning.
func (w *Writer) Expected(ctx context.Context, t *tabledef.Target, class statementClass, warnings uint32) error {
	if warnings == 0 {
		return nil
	}
	if warnings > w.Warnings {
		return fmt.Errorf("%w: %d warnings, of which the server lists %d: use smaller chunks (option chunk-bytes), so that all are listed", ErrRows, warnings, w.Warnings)
	}
	reported := uint32(0)
	var other []string
	if _, err := w.Conn.Query(ctx, "SHOW WARNINGS", func(row mysqlwire.TextRow) error {
		reported++
		if !harmlessWarning(t, class, row) && len(other) < 5 {
			other = append(other, string(row[1])+" "+string(row[2]))
		}
		return nil
	}); err != nil {
		return err
	}
	if len(other) > 0 || reported != warnings {
		return fmt.Errorf("%w unchanged: %d warnings, %d of them listed: %s", ErrRows, warnings, reported, strings.Join(other, "; "))
	}
	return nil
}

// readCommitted makes transactions lock the rows that they change but no gaps between them, unless the
// target's binary log is statement-based: then the server refuses to write at that level.
func (w *Writer) readCommitted(ctx context.Context, c *mysqlconn.Client) error {
	refused := false
	if _, err := c.Query(ctx, "SELECT @@log_bin, @@binlog_format", func(row mysqlwire.TextRow) error {
		on, _ := strconv.ParseBool(string(row[0]))
		refused = on && string(row[1]) == "STATEMENT"
		return nil
	}); err != nil {
		return fmt.Errorf("read the target's binary log: %w", err)
	}
	forced, err := session.Variable(ctx, c, "wsrep_forced_binlog_format")
	if err != nil && !session.IsUnknownVariable(err) {
		return fmt.Errorf("read the target's binary log: %w", err)
	}
	if refused || forced == "STATEMENT" {
		return nil
	}
	return session.ReadCommitted(ctx, c)
}
