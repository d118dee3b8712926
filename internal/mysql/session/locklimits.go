package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Clients that wait for a lock of a session must not depend on the process that uses the session: it may be stopped, and its network may
// be cut, while the server keeps the idle session and its locks for the 8 hours of wait_timeout. So the server itself is given the
// limits, before the lock is requested: LimitLocks for one session, and a Watchdog where several sessions wait for each other.

// LimitLocks bounds, in the server, how long the session waits for locks, and after how long without a command, or without reading a
// response, the server ends it and releases its locks. Servers count whole seconds, to which the limits are rounded up.
func LimitLocks(ctx context.Context, c *mysqlconn.Client, wait, idle time.Duration) error {
	limits := []Value{
		Seconds("lock_wait_timeout", wait), Seconds("innodb_lock_wait_timeout", wait),
		Seconds("wait_timeout", idle), Seconds("net_read_timeout", idle), Seconds("net_write_timeout", idle),
	}
	if IsMariaDB(c.ServerVersion) {
		limits = append(limits, Seconds("idle_transaction_timeout", idle))
	}
	if err := Set(ctx, c, limits...); err != nil {
		return fmt.Errorf("limit a session that locks: %w", err)
	}
	return nil
}

// A Watchdog is a session that ends another session of the same server after a time, unless that has ended by then. It is one statement
// list that the server executes without its client: DO SLEEP(…); KILL ….
type Watchdog struct {
	Victim string // the id of the other session's connection, in decimal

	c    *mysqlconn.Client
	done chan struct{} // closed when the statements have ended; nil: not started
}

// OpenWatchdog connects to the server of a  The watchdog does nothing before Start.
func OpenWatchdog(ctx context.Context, cfg mysqlconn.Config, victim *mysqlconn.Client) (w *Watchdog, err error) {
	cfg.Capabilities |= mysqlwire.CapMultiStatements
	w = new(Watchdog)
	if w.c, err = Connect(ctx, cfg); err != nil {
		return nil, fmt.Errorf("watch a session that locks: %w", err)
	}
	w.Victim = strconv.FormatUint(uint64(victim.ConnectionID), 10)
	here, err := ServerIdentity(ctx, victim)
	there := ""
	if err == nil {
		there, err = ServerIdentity(ctx, w.c)
	}
	if err == nil && here != there { // it would end a session of another server
		err = fmt.Errorf("%s leads to several servers: %s and %s", cfg.Addr, here, there)
	}
	if err != nil {
		_ = w.c.Close() // nothing was done
		return nil, fmt.Errorf("watch a session that locks: %w", err)
	}
	return w, nil
}

// Start has the session ended after limit. It returns once the server counts.
func (w *Watchdog) Start(ctx context.Context, limit time.Duration) error {
	started := make(chan error, 2)
	w.done = make(chan struct{})
	sql := fmt.Sprintf("SELECT 1; DO SLEEP(%.3f); KILL %s", limit.Seconds(), w.Victim)
	go func() {
		defer close(w.done)
		err := panics.Guard(func() error {
			_, err := w.c.Query(context.WithoutCancel(ctx), sql, func(mysqlwire.TextRow) error {
				started <- nil
				return nil
			})
			return err
		})
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return fmt.Errorf("watch a session that locks: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the connection. The server may count on; it then finds no session to end if that was closed too.
func (w *Watchdog) Close() {
	if w.done == nil {
		_ = w.c.Close()
		return
	}
	_ = w.c.Conn.Close() // interrupts the statements
	<-w.done
}

// State returns the state of a session, as in SHOW PROCESSLIST, and whether the session exists. It does not read the statements
// of other sessions, where the server can do without: MySQL's information_schema.PROCESSLIST fails with error 3854 if one of them has a
// character outside of the Basic Multilingual Plane.
func State(ctx context.Context, c *mysqlconn.Client, id string) (state string, exists bool, err error) {
	sql := "SELECT ID, COALESCE(STATE, '') FROM performance_schema.processlist WHERE ID IN (" + id + ", CONNECTION_ID())"
	if IsMariaDB(c.ServerVersion) {
		sql = "SELECT ID, COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID IN (" + id + ", CONNECTION_ID())"
	}
	result, err := c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		if string(row[0]) == id {
			state, exists = string(row[1]), true
		}
		return nil
	})
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) || err == nil && result.Rows == 0 { // without the performance schema, or before MySQL 8.0.22
		_, err = c.Query(ctx, "SHOW PROCESSLIST", func(row mysqlwire.TextRow) error {
			if len(row) > processState && string(row[processID]) == id {
				state, exists = string(row[processState]), true
			}
			return nil
		})
	}
	return state, exists, err
}
