package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
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
	cfg      mysqlconn.Config
	prepared bool // without, values are written into the statement's text
}

func newConnector(dsn string, prepared bool) (*connector, error) {
	cfg, err := parseDSN(dsn)
	return &connector{cfg, prepared}, err
}

// connect opens a session, with the settings that the server gives to clients.
func (c *connector) connect(ctx context.Context) (*connection, error) {
	conn, err := mysqlconn.Dial(ctx, c.cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{conn: conn, prepared: c.prepared, stmts: make(map[string]uint32)}, nil
}

// A connection to the server, without a pool. It is not safe for concurrent use.
type connection struct {
	conn     *mysqlconn.Client
	prepared bool              // statements with values use the prepared protocol
	always   bool              // as do those without values
	stmts    map[string]uint32 // ids by text, prepared once

	queries uint64 // statements sent
	rows    uint64 // rows received

	text   []byte
	values []mysqlwire.BinaryValue
}

// run executes one statement and reads its results. Values are nil, int64, uint64, float64, string or []byte.
func (s *connection) run(ctx context.Context, text string, values ...any) error {
	return s.read(ctx, nil, nil, text, values)
}

// runInt is run for a statement whose first column is an integer of the first row, or 0. types are those of the columns, with which a
// prepared statement's rows are read.
func (s *connection) runInt(ctx context.Context, types []mysqlwire.ValueType, text string, values ...any) (first int64, err error) {
	err = s.read(ctx, &first, types, text, values)
	return first, err
}

func (s *connection) read(ctx context.Context, first *int64, types []mysqlwire.ValueType, text string, values []any) error {
	s.queries++
	result, err := s.send(ctx, first, types, text, values)
	s.rows += result.Rows
	if err != nil {
		return fmt.Errorf("%s: %w", shortened(text), err)
	}
	return nil
}

func (s *connection) send(ctx context.Context, first *int64, types []mysqlwire.ValueType, text string, values []any) (mysqlconn.Result, error) {
	if s.prepared && (len(values) > 0 || s.always) {
		return s.execute(ctx, first, types, text, values)
	}
	s.text = appendStatement(s.text[:0], text, values)
	if first == nil {
		return s.conn.ExecBytes(ctx, s.text)
	}
	seen := false
	return s.conn.Query(ctx, string(s.text), func(row mysqlwire.TextRow) (err error) {
		if !seen && len(row) > 0 && row[0] != nil {
			*first, err = strconv.ParseInt(string(row[0]), 10, 64)
		}
		seen = true
		return err
	})
}

// appendStatement appends a statement with values in place of its question marks.
func appendStatement(dst []byte, text string, values []any) []byte {
	for _, v := range values {
		before, after, _ := strings.Cut(text, "?")
		dst = append(dst, before...)
		text = after
		switch v := v.(type) {
		case nil:
			dst = append(dst, "NULL"...)
		case int64:
			dst = strconv.AppendInt(dst, v, 10)
		case uint64:
			dst = strconv.AppendUint(dst, v, 10)
		case float64:
			dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
		case string:
			dst = session.AppendLiteral(dst, []byte(v))
		case []byte:
			dst = session.AppendLiteral(dst, v)
		default:
			panic(fmt.Sprintf("BUG: a value of type %T", v))
		}
	}
	return append(dst, text...)
}

// execute executes a statement that is prepared once.
func (s *connection) execute(ctx context.Context, first *int64, types []mysqlwire.ValueType, text string, values []any) (mysqlconn.Result, error) {
	id, ok := s.stmts[text]
	if !ok {
		if err := s.makeRoom(); err != nil {
			return mysqlconn.Result{}, err
		}
		prepared, err := s.conn.Prepare(ctx, []byte(text))
		if err != nil {
			return mysqlconn.Result{}, err
		}
		if int(prepared.Params) != len(values) {
			return mysqlconn.Result{}, fmt.Errorf("the statement has %d parameters and %d values", prepared.Params, len(values))
		}
		id = prepared.StatementID
		s.stmts[text] = id
	}
	s.values = s.values[:0]
	for _, v := range values {
		s.values = append(s.values, binaryValue(v))
	}
	seen := first == nil
	return s.conn.Execute(ctx, id, s.values, func(payload []byte) error {
		if seen {
			return nil
		}
		seen = true
		var row mysqlwire.BinaryRow
		if err := row.Decode(payload, types); err != nil {
			return err
		}
		*first, _ = row[0].Int64()
		return nil
	})
}

// binaryValue returns the value of a prepared statement's parameter.
func binaryValue(v any) mysqlwire.BinaryValue {
	number := func(t mysqlwire.ColumnType, unsigned bool, bits uint64) mysqlwire.BinaryValue {
		return mysqlwire.BinaryValue{Data: binary.LittleEndian.AppendUint64(nil, bits), ValueType: mysqlwire.ValueType{Type: t, Unsigned: unsigned}}
	}
	text := func(b []byte) mysqlwire.BinaryValue {
		return mysqlwire.BinaryValue{Data: b, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}}
	}
	switch v := v.(type) {
	case nil:
		return mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeNull}}
	case int64:
		return number(mysqlwire.TypeLongLong, false, uint64(v))
	case uint64:
		return number(mysqlwire.TypeLongLong, true, v)
	case float64:
		return number(mysqlwire.TypeDouble, false, math.Float64bits(v))
	case string:
		return text([]byte(v))
	case []byte:
		return text(v)
	}
	panic(fmt.Sprintf("BUG: a value of type %T", v))
}

// maxStatements is the maximum number of prepared statements per session: the server limits all sessions
// together, to 16,382 by default.
const maxStatements = 256

// makeRoom closes all prepared statements if there is no room for one more.
func (s *connection) makeRoom() error {
	if len(s.stmts) < maxStatements {
		return nil
	}
	for text, id := range s.stmts {
		if err := s.conn.CloseStatement(id); err != nil {
			return err
		}
		delete(s.stmts, text)
	}
	return nil
}

// transaction runs body between BEGIN and COMMIT. After a lock conflict it rolls back and returns
// errConflict.
func (s *connection) transaction(ctx context.Context, body func() error) error {
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
	e, ok := errors.AsType[*mysqlconn.ServerError](err)
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
func (s *connection) close() error {
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
