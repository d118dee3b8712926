package binlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// beatTimeout bounds writing a heartbeat, including the connection.
	beatTimeout = 5 * time.Second

	// beatLockWait is the number of seconds for which the server waits for a lock before a heartbeat fails.
	beatLockWait = 2

	// beatStale is the number of seconds after which a run that has not deleted its row is considered killed.
	beatStale = 60

	// longestChain is the maximum number of replicas between a source and the primary that heartbeats are
	// written to.
	longestChain = 8

	// heartbeatColumns is the number of columns of the heartbeat table.
	heartbeatColumns = 3
)

// Errors of servers about heartbeats.
const (
	errNoSuchTable = 1146
	errReadOnly    = 1290
)

// ErrReadOnly is the cause of the error for a heartbeat that a server refuses because it is read-only: then
// it accepts no other writes either.
var ErrReadOnly = errors.New("the server is read-only")

// A beatWriter writes heartbeats over a connection to a server, or to the primary of a replica.
type beatWriter struct {
	mu sync.Mutex
	c  *mysqlconn.Client // nil: not connected
}

// WriteHeartbeat implements Follower.
func (d *Direct) WriteHeartbeat(ctx context.Context, h Heartbeat) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatTimeout, fmt.Errorf("no response within %v", beatTimeout))
	defer cancel()
	d.beats.mu.Lock()
	defer d.beats.mu.Unlock()
	kept := d.beats.c != nil
	err := d.beat(ctx, h)
	if err != nil && kept && d.beats.c == nil && ctx.Err() == nil { // the connection was lost since the last heartbeat
		err = d.beat(ctx, h)
	}
	return err
}

// beat writes a heartbeat over the previous connection, or a new one. A heartbeat may be written twice.
func (d *Direct) beat(ctx context.Context, h Heartbeat) error {
	if d.beats.c == nil {
		c, err := connectBeat(ctx, d.Config(), h.OnReplica)
		if err != nil {
			return fmt.Errorf("write a heartbeat: %w", err)
		}
		d.beats.c = c
	}
	for _, s := range h.Schemas {
		if err := d.beats.write(ctx, s, h); err != nil {
			if refused := new(mysqlconn.ServerError); !session.IsRefusal(err) || errors.As(err, &refused) && session.Denied(refused.Number) { // it is lost, of another server now, or from before a GRANT
				d.beats.close()
			}
			return err
		}
	}
	return nil
}

// CheckHeartbeat implements Follower.
func (d *Direct) CheckHeartbeat(ctx context.Context, h Heartbeat) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatTimeout, fmt.Errorf("no response within %v", beatTimeout))
	defer cancel()
	c, err := connectBeat(ctx, d.Config(), h.OnReplica)
	if err != nil {
		return fmt.Errorf("write a heartbeat: %w", err)
	}
	defer c.Close() // it only read
	b := beatWriter{c: c}
	for _, s := range h.Schemas {
		if err := b.check(ctx, s, h); err != nil {
			return err
		}
	}
	return nil
}

// DeleteHeartbeat implements Follower.
func (d *Direct) DeleteHeartbeat(ctx context.Context, h Heartbeat) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatTimeout, fmt.Errorf("no response within %v", beatTimeout))
	defer cancel()
	d.beats.mu.Lock()
	defer d.beats.mu.Unlock()
	defer d.beats.close()
	if d.beats.c == nil {
		c, err := connectBeat(ctx, d.Config(), h.OnReplica)
		if err != nil {
			return fmt.Errorf("remove heartbeats: %w", err)
		}
		d.beats.c = c
	}
	var all []error
	for _, s := range h.Schemas {
		if err := d.beats.remove(ctx, s, h.Copy); err != nil {
			all = append(all, fmt.Errorf("remove heartbeats: %w; DROP TABLE %s on %s", err, beatTable(s), d.Addr()))
		}
	}
	return errors.Join(all...)
}

func beatTable(schema string) string { return session.Ident(schema) + "." + HeartbeatTable }

func (b *beatWriter) close() {
	if b.c != nil {
		_ = b.c.Close() // the log shows whether a heartbeat was written
		b.c = nil
	}
}

// beatSQL returns the statement that writes a heartbeat.
func beatSQL(schema string, h Heartbeat) string {
	return "REPLACE INTO " + beatTable(schema) + " VALUES (" + session.Literal(h.Copy) + ", " + session.Literal(heartbeatToken(h.Run, h.Number)) + ", UTC_TIMESTAMP(6))"
}

// createBeatTable returns the statement that creates the table of heartbeats.
func createBeatTable(schema string) string {
	return "CREATE TABLE IF NOT EXISTS " + beatTable(schema) + ` (
  copy    varbinary(64) NOT NULL,
  beat    varbinary(128) NOT NULL COMMENT 'random, by which the binary log is recognized',
  written datetime(6) NOT NULL,
  PRIMARY KEY (copy)
) ENGINE=InnoDB COMMENT='heartbeats of tare copy --follow; dropped at its end'`
}

// write writes a row, and creates its table if it is missing.
func (b *beatWriter) write(ctx context.Context, schema string, h Heartbeat) error {
	_, err := b.c.Exec(ctx, beatSQL(schema, h))
	if isNoTable(err) {
		if _, err = b.c.Exec(ctx, createBeatTable(schema)); err == nil {
			_, err = b.c.Exec(ctx, beatSQL(schema, h))
		}
	}
	return beatError(err, schema)
}

// check has the server check the account's privileges and its own state for write, without effect: EXPLAIN needs the
// privileges of its statement, and PREPARE those to create a table, on MariaDB and MySQL.
func (b *beatWriter) check(ctx context.Context, schema string, h Heartbeat) error {
	_, err := b.c.Query(ctx, "EXPLAIN "+beatSQL(schema, h), func(mysqlwire.TextRow) error { return nil })
	if isNoTable(err) {
		text := strings.NewReplacer(`\`, `\\`, "'", "''").Replace(createBeatTable(schema)) // PREPARE takes no binary literal
		_, err = b.c.Exec(ctx, "PREPARE beat FROM '"+text+"'")
	}
	return beatError(err, schema)
}

func isNoTable(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == errNoSuchTable
}

// beatError returns the error for a server's response to a heartbeat.
func beatError(err error, schema string) error {
	var refused *mysqlconn.ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Number == errReadOnly:
		return fmt.Errorf("write a heartbeat to %s: %w: %w", beatTable(schema), ErrReadOnly, err)
	case errors.As(err, &refused) && session.Denied(refused.Number):
		return fmt.Errorf("write a heartbeat to %s: %w; GRANT CREATE, INSERT, SELECT, DELETE, DROP ON %s TO the user, or use the weaker option heartbeat=off",
			beatTable(schema), err, beatTable(schema))
	}
	return fmt.Errorf("write a heartbeat to %s: %w", beatTable(schema), err)
}

// remove deletes a copy's row, and the table if no other copy has written to it recently. A copy that writes
// its next heartbeat at the same time creates it again.
func (b *beatWriter) remove(ctx context.Context, schema, name string) error {
	_, err := b.c.Exec(ctx, "DELETE FROM "+beatTable(schema)+" WHERE copy = "+session.Literal(name)+
		fmt.Sprintf(" OR written < UTC_TIMESTAMP(6) - INTERVAL %d SECOND", beatStale))
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) && refused.Number == errNoSuchTable {
		return nil
	}
	others := false
	if err == nil {
		_, err = b.c.Query(ctx, "SELECT 1 FROM "+beatTable(schema)+" LIMIT 1", func(mysqlwire.TextRow) error {
			others = true
			return nil
		})
	}
	if err == nil && !others {
		_, err = b.c.Exec(ctx, "DROP TABLE IF EXISTS "+beatTable(schema))
	}
	return err
}

// connectBeat connects to the server that heartbeats are written to: the server itself, or the primary at the
// end of its chain of replication.
func connectBeat(ctx context.Context, cfg mysqlconn.Config, onReplica bool) (*mysqlconn.Client, error) {
	seen := []string{cfg.Addr}
	for {
		c, err := session.Connect(ctx, cfg, session.Int("lock_wait_timeout", beatLockWait), session.Int("innodb_lock_wait_timeout", beatLockWait))
		if err != nil {
			return nil, err
		}
		next, err := primaryOf(ctx, c, onReplica)
		if err == nil && next == "" {
			return c, nil
		}
		_ = c.Close() // it only read
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(seen, next) || len(seen) > longestChain:
			return nil, refuseSetting("the servers %s replicate from one another: heartbeats cannot be told from their copies; use the weaker option heartbeat=off", strings.Join(seen, ", "))
		}
		seen = append(seen, next)
		cfg.Addr, cfg.Network = next, ""
	}
}

// primaryOf returns the address of the server that a server replicates from, empty if it is a primary.
func primaryOf(ctx context.Context, c *mysqlconn.Client, onReplica bool) (string, error) {
	l, err := session.ReadLogging(ctx, c)
	if err != nil {
		return "", err
	}
	if l.ChannelsErr != nil {
		return "", refuseSetting("the user may not see whether the server is a replica, where a heartbeat must not be written: %w; "+
			"GRANT REPLICATION CLIENT, on MariaDB REPLICA MONITOR, ON *.* TO it, or use the weaker option heartbeat=off", l.ChannelsErr)
	}
	switch {
	case !l.IsReplica():
		return "", nil
	case !onReplica:
		return "", refuseSetting("the server is a replica of %s: follow that one, or have heartbeats written there with option heartbeat-on-replica, "+
			"with the same account, or use the weaker option heartbeat=off", l.Channels[0].Host)
	case len(l.Channels) != 1:
		return "", refuseSetting("the server replicates from %d others: a heartbeat of one of them proves nothing of the others; follow them, or use the weaker option heartbeat=off", len(l.Channels))
	}
	return net.JoinHostPort(l.Channels[0].Host, l.Channels[0].Port), nil
}
