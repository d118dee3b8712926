package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A statement may run for hours, and a network may lose all packets of a connection that both sides keep
// open. To distinguish the two, a silent server is queried over another connection whether it executes the
// statement.
const (
	// mostSilence is the time without a byte after which a server is queried.
	mostSilence = 10 * time.Second

	// aliveTimeout bounds the query.
	aliveTimeout = 5 * time.Second

	// connectTimeout bounds the time to connect.
	connectTimeout = 10 * time.Second
)

// DefaultPatience is how long to wait for a lost or silent server.
const DefaultPatience = time.Minute

// Columns of SHOW PROCESSLIST.
const (
	processID      = 0
	processCommand = 4
	processState   = 6
)

// Connect opens a session with the settings of package session, or own ones, whose server may be silent only
// while it executes a statement.
func Connect(ctx context.Context, cfg mysqlconn.Config, own ...Value) (*mysqlconn.Client, error) {
	limit := connectTimeout
	if cfg.Patience > 0 {
		limit = min(limit, cfg.Patience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no response from %s within %v", cfg.Addr, limit))
	defer cancel()
	c, err := Open(ctx, cfg, own...)
	if err != nil {
		return nil, err
	}
	watchSilence(c, cfg)
	return c, nil
}

// watchSilence bounds how long the server of a connection may be silent without executing a command:
// DefaultPatience, unless cfg has another value.
func watchSilence(c *mysqlconn.Client, cfg mysqlconn.Config) {
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	id := strconv.FormatUint(uint64(c.ConnectionID), 10)
	c.Watch(min(cfg.Patience/3+time.Millisecond, mostSilence), cfg.Patience, func(ctx context.Context) error { return isAtWork(ctx, cfg, id) })
}

// isAtWork returns an error unless a server is known to execute a command of a connection.
func isAtWork(ctx context.Context, cfg mysqlconn.Config, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, aliveTimeout, fmt.Errorf("it does not respond over another connection within %v", aliveTimeout))
	defer cancel()
	c, err := OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it only read
	command := ""
	_, err = c.Query(ctx, "SHOW PROCESSLIST", func(row mysqlwire.TextRow) error {
		if len(row) > processCommand && string(row[processID]) == id {
			command = string(row[processCommand])
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case command == "":
		return errors.New("the connection is unknown to it")
	case command == "Sleep":
		return errors.New("it has responded already, and the response did not arrive")
	}
	return nil
}
