package alter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Schema is the schema of the state, in the altered server.
const Schema = "_tare"

// connect opens a connection that executes an ALTER TABLE as a client's would be: with the server's own sql_mode and time zone.
func connect(ctx context.Context, cfg mysqlconn.Config) (*mysqlconn.Client, error) {
	c, err := session.Connect(ctx, cfg, serversOwn("sql_mode"), serversOwn("time_zone"))
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	format, err := session.QueryValue(ctx, c, "SELECT @@binlog_format")
	if err == nil && format != "STATEMENT" { // which such transactions cannot be logged in
		err = session.ReadCommitted(ctx, c) // so that INSERT … SELECT locks no rows that it reads
	}
	if err != nil {
		_ = c.Close() // nothing was done
		return nil, fmt.Errorf("prepare the connection to %s: %w", cfg.Addr, err)
	}
	return c, nil
}

// serversOwn is the value of a variable that the server gives to the sessions of clients.
func serversOwn(name string) session.Value { return session.Value{Name: name, SQL: "@@GLOBAL." + name} }

// checkMode refuses clauses that the server would parse otherwise than this package does.
func checkMode(ctx context.Context, c *mysqlconn.Client, s *Statement) error {
	mode, err := session.QueryValue(ctx, c, "SELECT @@SESSION.sql_mode")
	if err != nil {
		return fmt.Errorf("read the server's sql_mode: %w", err)
	}
	for _, m := range []struct{ mode, char string }{{"ANSI_QUOTES", `"`}, {"NO_BACKSLASH_ESCAPES", `\`}} {
		if slices.Contains(strings.Split(mode, ","), m.mode) && strings.Contains(s.Text, m.char) {
			return fmt.Errorf("the server's sql_mode has %s, by which %s has another meaning than it is parsed by: write the clauses without it", m.mode, m.char)
		}
	}
	return nil
}

// swapCommits is how many commits, one after the other, have to fit into the time for which a swap may hold the table's lock.
const swapCommits = 4

// slowCommits returns why a table cannot be swapped within limit on a server that delays its commits; empty: it can.
func slowCommits(ctx context.Context, c *mysqlconn.Client, limit time.Duration) (string, error) {
	name, query := "binlog_group_commit_sync_delay", "SELECT @@GLOBAL.binlog_group_commit_sync_delay"
	if session.IsMariaDB(c.ServerVersion) { // it waits for so many commits, for at most so long
		name, query = "binlog_commit_wait_usec", "SELECT IF(@@GLOBAL.binlog_commit_wait_count > 0, @@GLOBAL.binlog_commit_wait_usec, 0)"
	}
	value, err := session.QueryValue(ctx, c, query)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	microseconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	delay := time.Duration(microseconds) * time.Microsecond
	if delay*swapCommits <= limit {
		return "", nil
	}
	return fmt.Sprintf("%s delays each commit by %v, and the swap is to be done within option max-lock-wait (%v): lower the variable, or raise option max-lock-wait to %v",
		name, delay, limit, delay*swapCommits), nil
}

// setLockWait bounds how long statements of the connection wait for a metadata lock, and so how long clients wait behind them.
func setLockWait(ctx context.Context, c *mysqlconn.Client, limit time.Duration) error {
	if err := session.Set(ctx, c, session.Seconds("lock_wait_timeout", limit)); err != nil {
		return fmt.Errorf("bound the wait for metadata locks: %w", err)
	}
	return nil
}

// Errors of servers for an algorithm or a lock that they do not support for an ALTER TABLE.
const (
	errWrongUsage      = 1221
	errNotSupported    = 1845
	errNotSupportedWhy = 1846
	errMaxRowVersions  = 4092 // MySQL
	errMaxFields       = 4158 // MySQL
)

// unsupported returns the reason if an error says that the server does not support the algorithm.
func unsupported(err error) (reason string, ok bool) {
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) {
		return "", false
	}
	switch refused.Number {
	case errWrongUsage, errNotSupported, errNotSupportedWhy:
		return refused.Message, true
	case errMaxRowVersions, errMaxFields: // numbers that MariaDB has given to other errors
		return refused.Message, !session.IsMariaDB(refused.Version)
	}
	return "", false
}

// lockTimeout reports whether an error is that of a wait for a lock that was too long.
func lockTimeout(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == mysqlwire.ErrnoLockWaitTimeout
}
