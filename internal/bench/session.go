package bench

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

// MySQL errors that are part of a workload with conflicting clients.
const (
	errDuplicateEntry  = 1062
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errRecordChanged   = 1020 // MariaDB, under innodb_snapshot_isolation
)

// errConflict reports that an operation was rolled back because of a lock conflict.
var errConflict = errors.New("conflict")

// A connector opens sessions.
type connector struct {
	inner    driver.Connector
	prepared bool
}

// newConnector parses a DSN in go-sql-driver's form. Without prepared statements, values are interpolated
// into the statement's text.
func newConnector(dsn string, prepared bool) (*connector, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("data source name: %w", err)
	}
	return connectorOf(cfg, prepared)
}

func connectorOf(cfg *mysql.Config, prepared bool) (*connector, error) {
	cfg.Logger = &mysql.NopLogger{} // errors are reported once, by their receiver
	cfg.InterpolateParams = !prepared
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("data source name: %w", err)
	}
	return &connector{inner: inner, prepared: prepared}, nil
}

// connect opens a session.
func (c *connector) connect(ctx context.Context) (*session, error) {
	conn, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &session{conn: conn, prepared: c.prepared, stmts: make(map[string]driver.Stmt)}, nil
}

// A session is one connection without a pool. It is not safe for concurrent use.
type session struct {
	conn     driver.Conn
	prepared bool                   // statements with values use the prepared protocol
	always   bool                   // as do those without values
	stmts    map[string]driver.Stmt // by text, prepared once

	queries uint64 // statements sent
	rows    uint64 // rows received

	args []driver.NamedValue
	dest []driver.Value

	// first is the first column of the latest result's first row if it is a number.
	first int64
}

// run executes one statement and reads its results. Values are int64, string, []byte and the other types of
// driver.Value.
func (s *session) run(ctx context.Context, text string, values ...driver.Value) error {
	s.args = s.args[:0]
	for i, v := range values {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	rows, err := s.send(ctx, text)
	s.queries++
	if err != nil {
		return fmt.Errorf("%s: %w", shortened(text), err)
	}
	n, err := s.drain(rows)
	s.rows += n
	if err := errors.Join(err, rows.Close()); err != nil {
		return fmt.Errorf("%s: %w", shortened(text), err)
	}
	return nil
}

func (s *session) send(ctx context.Context, text string) (driver.Rows, error) {
	if !s.prepared || len(s.args) == 0 && !s.always {
		return s.conn.(driver.QueryerContext).QueryContext(ctx, text, s.args)
	}
	stmt, ok := s.stmts[text]
	if !ok {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
		var err error
		if stmt, err = s.conn.(driver.ConnPrepareContext).PrepareContext(ctx, text); err != nil {
			return nil, err
		}
		s.stmts[text] = stmt
	}
	return stmt.(driver.StmtQueryContext).QueryContext(ctx, s.args)
}

// maxStatements is the maximum number of prepared statements per session: the server limits all sessions
// together, to 16,382 by default.
const maxStatements = 256

// makeRoom closes all prepared statements if there is no room for one more.
func (s *session) makeRoom() error {
	if len(s.stmts) < maxStatements {
		return nil
	}
	for text, stmt := range s.stmts {
		if err := stmt.Close(); err != nil {
			return err
		}
		delete(s.stmts, text)
	}
	return nil
}

// drain reads all rows of all results.
func (s *session) drain(rows driver.Rows) (n uint64, err error) {
	for {
		width := len(rows.Columns())
		s.dest = slices.Grow(s.dest[:0], width)[:width]
		s.first = 0
		for {
			if err := rows.Next(s.dest); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return n, err
			}
			if n == 0 && width > 0 {
				s.first = integer(s.dest[0])
			}
			n++
		}
		more, ok := rows.(driver.RowsNextResultSet)
		if !ok || !more.HasNextResultSet() {
			return n, nil
		}
		if err := more.NextResultSet(); err != nil {
			return n, err
		}
	}
}

// integer returns a column's value as a number, or 0 if it is none.
func integer(v driver.Value) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		return int64(min(v, math.MaxInt64))
	case []byte:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// runInt is run for a statement whose first column is a number.
func (s *session) runInt(ctx context.Context, text string, values ...driver.Value) (int64, error) {
	err := s.run(ctx, text, values...)
	return s.first, err
}

// transaction runs body between BEGIN and COMMIT. After a lock conflict it rolls back and returns
// errConflict.
func (s *session) transaction(ctx context.Context, body func() error) error {
	if err := s.run(ctx, "BEGIN"); err != nil {
		return err
	}
	err := body()
	if err == nil {
		err = s.run(ctx, "COMMIT")
	}
	if err == nil {
		return nil
	}
	if !isConflict(err) {
		return err
	}
	if err := s.run(ctx, "ROLLBACK"); err != nil {
		return err
	}
	return errConflict
}

func isConflict(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return false
	}
	switch e.Number {
	case errDuplicateEntry, errLockWaitTimeout, errDeadlock, errRecordChanged:
		return true
	}
	return false
}

// close sends COM_QUIT and closes the connection.
func (s *session) close() error {
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close a connection: %w", err)
	}
	return nil
}

// shortened returns a statement truncated for an error message.
func shortened(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
