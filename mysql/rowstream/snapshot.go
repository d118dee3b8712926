package rowstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// matchTries is the maximum number of attempts to start transactions at the same position of the binary
	// log.
	matchTries = 30

	// lockWait bounds the wait for a lock on all tables, and the idle time of the session that has it. Later
	// statements queue behind the waiting lock, so it gives up early and tries again.
	lockWait = 3 * time.Second

	// lockTries is the maximum number of attempts to acquire a lock.
	lockTries = 10
)

// Errors of servers: a lock, and a table that is newer than the view.
const (
	errLockWaitTimeout = 1205
	errTableDefChanged = 1412
)

// A snapshot is a set of connections to one server whose transactions see the same state.
type snapshot struct {
	how      string
	position string
	identity string // of the server
	clients  []*mysqlconn.Client
	unseen   error // why it is unknown whether all changes are logged; nil: they are, or there is no log

	mu       sync.Mutex
	chunkers map[*Table]*chunker
}

var _ View = (*snapshot)(nil)

// How describes how the transactions were made to see the same state, for messages.
func (s *snapshot) How() string { return s.how }

// Position returns the position of the binary log, for ParsePosition. It is empty if the server has no log or
// does not report it.
func (s *snapshot) Position() string { return s.position }

// Identity identifies the server.
func (s *snapshot) Identity() string { return s.identity }

// OpenSnapshot opens n connections whose transactions see the same state of the tables. It changes nothing on
// the source. It uses the first method that the server permits:
//
//   - one connection: a single transaction, no lock;
//   - MariaDB with a binary log of all changes: transactions are started until all of them are at the same
//     position of the log, no lock;
//   - FLUSH TABLES WITH READ LOCK while the transactions start, milliseconds; it is retried after waiting
//     for 3 s; requires RELOAD;
//   - LOCK TABLES … READ on the tables while the transactions start.
func OpenSnapshot(ctx context.Context, cfg mysqlconn.Config, n int, tables []*Table) (_ View, err error) {
	s := &snapshot{chunkers: make(map[*Table]*chunker)}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	for range n {
		c, err := session.Connect(ctx, cfg)
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	if n > 1 && len(tables) > 0 {
		if err := s.mayShare(ctx, tables); err != nil {
			return nil, err
		}
	}
	take := func() error { return s.take(ctx, cfg, tables) }
	if n > 1 && len(tables) > 0 {
		err = s.unprepared(ctx, take)
	} else {
		err = take()
	}
	if err != nil {
		return nil, fmt.Errorf("take a consistent snapshot over %d connections: %w", n, err)
	}
	if s.identity, err = readIdentity(ctx, s.clients[0]); err != nil {
		return nil, err
	}
	return s, nil
}

// take starts the transactions with the first method that works.
func (s *snapshot) take(ctx context.Context, cfg mysqlconn.Config, tables []*Table) error {
	for _, way := range []func(context.Context, mysqlconn.Config, []*Table) (bool, error){s.alone, s.matched, s.locked} {
		if done, err := way(ctx, cfg, tables); err != nil || done {
			return err
		}
	}
	panic("BUG: no way to a snapshot")
}

// mayShare returns an error for a snapshot over several connections of a server that has a binary log but
// does not log all writes: an unchanged position proves nothing there.
func (s *snapshot) mayShare(ctx context.Context, tables []*Table) error {
	l, err := session.ReadLogging(ctx, s.clients[0])
	if err != nil {
		return fmt.Errorf("take a consistent snapshot: %w", err)
	}
	if !l.On {
		return nil // the position is unknown: use a lock
	}
	err = l.CheckLogged(Schemas(tables))
	if errors.Is(err, session.ErrLogUnseen) {
		s.unseen = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("take a consistent snapshot over several connections: %w; option workers 1 without option follow needs no log", err)
	}
	return nil
}

// start starts the transactions, ending earlier ones.
func (s *snapshot) start(ctx context.Context) error {
	for _, c := range s.clients {
		if _, err := c.Exec(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); err != nil {
			return err
		}
	}
	return nil
}

// alone takes a snapshot over one connection, without a lock.
func (s *snapshot) alone(ctx context.Context, _ mysqlconn.Config, _ []*Table) (bool, error) {
	if len(s.clients) != 1 {
		return false, nil
	}
	if err := s.start(ctx); err != nil {
		return false, err
	}
	s.how = "one transaction"
	var err error
	s.position, err = snapshotPosition(ctx, s.clients[0])
	return true, err
}

// matched starts transactions until all of them are at the same position of the binary log.
func (s *snapshot) matched(ctx context.Context, _ mysqlconn.Config, _ []*Table) (bool, error) {
	if s.unseen != nil {
		return false, nil
	}
	for range matchTries {
		if err := s.start(ctx); err != nil {
			return false, err
		}
		positions := make([]string, len(s.clients))
		for i, c := range s.clients {
			var err error
			if positions[i], err = snapshotPosition(ctx, c); err != nil {
				return false, err
			}
		}
		if positions[0] == "" {
			return false, nil
		}
		if len(slices.Compact(positions)) == 1 {
			s.how, s.position = "transactions at the same position of the binary log", positions[0]
			return true, nil
		}
	}
	return false, nil // too busy: use a lock
}

// snapshotPosition returns the position of the binary log at the start of the connection's transaction, as
// known to MariaDB; empty on other servers, and without a binary log.
func snapshotPosition(ctx context.Context, c *mysqlconn.Client) (string, error) {
	var file, position string
	_, err := c.Query(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'", func(row mysqlwire.TextRow) error {
		switch strings.ToLower(string(row[0])) {
		case "binlog_snapshot_file":
			file = string(row[1])
		case "binlog_snapshot_position":
			position = string(row[1])
		}
		return nil
	})
	if err != nil || file == "" {
		return "", err
	}
	return file + " " + position, nil
}

// locked starts the transactions while another connection blocks writers.
func (s *snapshot) locked(ctx context.Context, cfg mysqlconn.Config, tables []*Table) (_ bool, err error) {
	if len(tables) == 0 { // without tables there is no state to share
		s.how = "no tables"
		return true, s.start(ctx)
	}
	holder, err := session.Connect(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() { // the lock ends with the connection
		err = errors.Join(err, holder.Close())
	}()
	if err := session.LimitLocks(ctx, holder, lockWait, lockWait); err != nil {
		return false, err
	}
	if s.how, err = lock(ctx, holder, tables); err != nil {
		return false, errors.Join(err, s.unseen)
	}
	if err := s.start(ctx); err != nil {
		return false, err
	}
	if _, err := holder.Exec(ctx, "DO 0"); err != nil {
		return false, fmt.Errorf("the connection that blocked writers was lost: %w", err)
	}
	if s.unseen != nil {
		return true, nil
	}
	s.position, err = session.CurrentPosition(ctx, holder)
	return true, err
}

// lock blocks writers of the tables, and returns how.
func lock(ctx context.Context, c *mysqlconn.Client, tables []*Table) (how string, err error) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.SQLName() + " READ"
	}
	for _, way := range []struct{ how, sql string }{
		{"FLUSH TABLES WITH READ LOCK", "FLUSH TABLES WITH READ LOCK"},
		{"LOCK TABLES", "LOCK TABLES " + strings.Join(names, ", ")},
	} {
		err = tryLock(ctx, c, way.sql)
		if err == nil {
			return way.how, nil
		}
		var refused *mysqlconn.ServerError
		if !errors.As(err, &refused) || !session.Denied(refused.Number) {
			return "", fmt.Errorf("%s: %w; try option workers 1, which needs no lock", way.how, err)
		}
	}
	return "", fmt.Errorf("the user may neither FLUSH TABLES WITH READ LOCK (RELOAD) nor LOCK TABLES: %w; "+
		"grant one of them or use option workers 1, which needs no lock", err)
}

// tryLock tries to acquire a lock several times, and lets other sessions proceed in between.
func tryLock(ctx context.Context, c *mysqlconn.Client, sql string) error {
	for try := 1; ; try++ {
		_, err := c.Exec(ctx, sql)
		var refused *mysqlconn.ServerError
		if !errors.As(err, &refused) || refused.Number != errLockWaitTimeout || try == lockTries {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(try) * 200 * time.Millisecond):
		}
	}
}

// Close ends the transactions, closes the connections and releases their buffers.
func (s *snapshot) Close() error {
	var all []error
	for i, c := range s.clients {
		all = append(all, c.Close())
		s.clients[i] = c.Closed()
	}
	return errors.Join(all...)
}
