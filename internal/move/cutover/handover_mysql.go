package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// In MySQL a statement that waits for a locked table has the global lock for which SET GLOBAL read_only waits. So the writes to a source of MySQL are
// stopped by the global lock itself:
//
//  1. FLUSH TABLES WITH READ LOCK waits for statements that are being executed. No statement changes rows and no transaction is committed
//     until the lock is released: the end of the log is fixed.
//  2. Each target applies the log up to this position, by the position itself: heartbeats wait for the lock too.
//  3. super_read_only is set on the connection with the lock, which does not wait for another one. Statements and commits that wait for the
//     lock are then refused when it is released, and so are all later ones: MySQL checks read_only after it has acquired its locks.
//  4. MySQL checks it for neither XA PREPARE nor XA COMMIT. So sessions with an open transaction that has changed rows are disconnected, which
//     rolls these back; their COMMIT would be refused anyway. A transaction that was prepared before is not rolled back, and the try fails.
//  5. The log still ends at the position, and the connection still has the lock.

const (
	// trxPause is the interval between queries for open transactions. It is longer than the 100 ms for which the server caches them.
	trxPause = 150 * time.Millisecond

	// maxOrphaned is the number of consecutive queries that find a transaction without a session. Internal ones are short.
	maxOrphaned = 8
)

// errNoThread is the server's error for a session that has ended.
const errNoThread = 1094

// checkMySQL returns an error if the account may not stop the writes to MySQL. It changes nothing.
func checkMySQL(ctx context.Context, c *mysqlconn.Client, tables []tabledef.Spec) error {
	for _, s := range []struct{ sql, privilege string }{
		{"FLUSH LOCAL TABLES " + session.Ident(tables[0].Schema) + ".`_tare no such table`", "RELOAD or FLUSH_TABLES"},
		{"SET GLOBAL super_read_only = @@GLOBAL.super_read_only", "SYSTEM_VARIABLES_ADMIN"},
		{"SET GLOBAL offline_mode = @@GLOBAL.offline_mode", "CONNECTION_ADMIN"}, // requires it as KILL does, in 8.0.31 and later
		{"SELECT COUNT(*) FROM information_schema.innodb_trx", "PROCESS"},
		{"XA RECOVER", "XA_RECOVER_ADMIN"},
	} {
		if _, err := c.Query(ctx, s.sql, func(mysqlwire.TextRow) error { return nil }); err != nil {
			return fmt.Errorf("the cutover of several targets locks a MySQL source, makes it read-only and disconnects sessions with open transactions, which its account must be permitted to do (%s): %w", s.privilege, err)
		}
	}
	return nil
}

// lockMySQL stops all writes to the server until the connection is closed.
const lockMySQL = "FLUSH TABLES WITH READ LOCK"

// lockedPosition returns the end of the log of the server that is locked, which must be the server whose log the parts read.
func lockedPosition(ctx context.Context, locks *mysqlconn.Client, parts []*HandoverPart) (p binlog.Position, err error) {
	locked, err := session.ServerIdentity(ctx, locks)
	if err != nil {
		return p, err
	}
	for _, part := range parts {
		followed, err := part.Source.Identity(ctx)
		if err != nil {
			return p, err
		}
		if followed != locked {
			return p, fmt.Errorf("the server that was locked (%s) is not the one that is read (%s): the source's address leads to several servers", locked, followed)
		}
	}
	if err := nonePrepared(ctx, locks); err != nil {
		return p, err
	}
	return endOfLog(ctx, locks)
}

// errPrepared means that a transaction could be committed on a server that clients have left.
var errPrepared = errors.New("an XA transaction is prepared: if that lasts, XA RECOVER lists it; commit it or roll it back")

// nonePrepared returns errPrepared if an XA transaction is prepared, before its session is disconnected. The targets would not reach the end
// of the log either: following resumes before the XA PREPARE, unless that precedes the copy's snapshot.
func nonePrepared(ctx context.Context, locks *mysqlconn.Client) error {
	return seesPrepared(func(each func(mysqlwire.TextRow) error) error {
		_, err := locks.Query(ctx, listPrepared, each)
		return err
	})
}

const listPrepared = "XA RECOVER"

// seesPrepared returns errPrepared if a list has transactions.
func seesPrepared(list func(each func(mysqlwire.TextRow) error) error) error {
	n := 0
	err := list(func(mysqlwire.TextRow) error {
		n++
		return nil
	})
	if err == nil && n > 0 {
		err = errPrepared
	}
	return err
}

func endOfLog(ctx context.Context, c *mysqlconn.Client) (binlog.Position, error) {
	text, err := session.CurrentPosition(ctx, c)
	if err != nil {
		return binlog.Position{}, fmt.Errorf("read the end of the source's log: %w", err)
	}
	return binlog.ParsePosition(text)
}

// stopLocked makes MySQL read-only on the connection that has locked it. Its errors are those of stop.
func (r *readOnly) stopLocked(ctx context.Context, locks *mysqlconn.Client) error {
	id, err := session.QueryValue(ctx, locks, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	if err := state.TakeLock(ctx, locks, stopLock, time.Second); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, r.patience, fmt.Errorf("no response within %v", r.patience))
	defer cancel()
	_, err = locks.Exec(limited, "SET GLOBAL super_read_only = 1") // and read_only
	return r.stopped(ctx, id, err)
}

// settle disconnects the sessions with open transactions that have changed rows, and returns nil if the locked server then has nothing
// after the position, and nothing to commit.
func (r *readOnly) settle(ctx context.Context, locks *heldLock, position binlog.Position) error {
	ctx, cancel := context.WithDeadlineCause(ctx, locks.until, errors.New("sessions with open transactions have not ended in time"))
	defer cancel()
	if err := r.use(ctx, func(c *mysqlconn.Client) error { return endWriters(ctx, c) }); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // and not that of the connection, which was cut off
		}
		return fmt.Errorf("roll open transactions of the source back: %w", err)
	}
	now, err := endOfLog(ctx, locks.Client)
	if err == nil && now != position {
		err = fmt.Errorf("the log has grown from %s to %s", position, now)
	}
	if err != nil {
		return fmt.Errorf("the source was not locked all the time: %w", err)
	}
	return nil
}

// endWriters disconnects sessions until no transaction has changed rows. No new one does, since the server is locked.
func endWriters(ctx context.Context, c *mysqlconn.Client) error {
	for orphaned := 0; ; {
		if !telemetry.Sleep(ctx, trxPause) { // a list that the server cached before the lock has expired by then
			return context.Cause(ctx)
		}
		var sessions []string
		if _, err := c.Query(ctx, "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_modified > 0", func(row mysqlwire.TextRow) error {
			sessions = append(sessions, string(row[0]))
			return nil
		}); err != nil {
			return err
		}
		if len(sessions) == 0 {
			return nil
		}
		without := false
		for _, id := range sessions {
			if id == "0" {
				without = true
				continue
			}
			_, err := c.Exec(ctx, "KILL "+id)
			var refused *mysqlconn.ServerError
			if err != nil && !(errors.As(err, &refused) && refused.Number == errNoThread) {
				return fmt.Errorf("disconnect session %s: %w", id, err)
			}
		}
		if orphaned++; !without {
			orphaned = 0
		}
		if orphaned == maxOrphaned {
			return errPrepared
		}
	}
}
