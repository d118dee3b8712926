package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Reasons why nothing can be explained, for operators.
var (
	errServer   = errors.New("EXPLAIN is supported on MySQL from 5.7.8 and MariaDB only")
	errRights   = errors.New("the account of option control lacks a right: GRANT SELECT on the tables, for DML also the right to execute it")
	errTooLong  = errors.New("EXPLAIN took longer than 1.5 s")
	errLocked   = errors.New("EXPLAIN would have waited for a lock")
	errReadOnly = errors.New("the server refused to evaluate it in a read-only transaction")
	errView     = errors.New("it reads a view or another table that is not a base table")
	errGone     = errors.New("a table of it does not exist, or is a temporary table of its session")
)

// A server is the connection to the server behind the gateway.
type server struct {
	client *serverstats.Client
	kill   func(addr string, id uint32) error
}

func (s *server) close() { s.client.Close() }

// connect returns a connection with the settings of EXPLAIN.
func (s *server) connect(ctx context.Context) (*mysqlconn.Client, error) {
	conn, err := s.client.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, conn); err != nil {
		s.client.Release()
		return nil, err
	}
	return conn, nil
}

// prepare sets the format of plans, and prevents the evaluation of subqueries.
func (s *server) prepare(ctx context.Context, conn *mysqlconn.Client) error {
	if s.client.Server().Kind == sqldigest.ServerMariaDB {
		if err := session.Set(ctx, conn, session.Int("expensive_subquery_limit", 0)); err != nil {
			return fmt.Errorf("limit the session: %w", err)
		}
		return nil
	}
	// Older servers have no other format.
	if err := session.Set(ctx, conn, session.Int("explain_json_format_version", 1)); err != nil && serverstats.ErrorNumber(err) != 1193 {
		return fmt.Errorf("choose the format of plans: %w", err)
	}
	return nil
}

// mode returns the mode in which the server reads statements with its default sql_mode.
func (s *server) mode() sqldigest.Mode { return sqldigest.Mode(0).WithServer(s.client.Server()) }

// explain returns the plan of a statement. judge is called with the normalized text and the schema of the explained execution.
func (s *server) explain(ctx context.Context, c *candidate, judge func(c *candidate, whole, schema string) (subject, error)) (*Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, serverstats.CallTime)
	defer cancel()
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.client.Release()
	e, err := c.statement(s.mode())
	if err != nil {
		return nil, refused{err}
	}
	of, err := judge(c, e.normalized, e.schema)
	if err != nil {
		return nil, refused{err}
	}
	schema := e.schema
	if err := baseTables(ctx, conn, schema, of.tables); err != nil {
		return nil, err
	}
	if schema != "" {
		if _, err := conn.Exec(ctx, "USE "+quoteName(schema)); err != nil {
			return nil, fmt.Errorf("choose schema: %w", err)
		}
	}
	begin := "START TRANSACTION READ ONLY"
	if of.writes { // servers refuse to explain a change in a read-only transaction
		begin = "START TRANSACTION"
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	out, err := planOf(ctx, conn, e.text, e.values)
	if _, rollback := conn.Exec(ctx, "ROLLBACK"); rollback != nil {
		s.abandon(conn.ConnectionID)
		err = errors.Join(err, fmt.Errorf("roll back: %w", rollback))
	}
	if err != nil {
		return nil, err
	}
	plan, err := parsePlan(out, s.client.Server().Kind)
	if err != nil {
		return nil, refused{err}
	}
	return plan, nil
}

// planOf returns the text of a statement's plan.
func planOf(ctx context.Context, conn *mysqlconn.Client, text string, values []mysqlwire.BinaryValue) (plan []byte, err error) {
	text = "EXPLAIN FORMAT=JSON " + text
	if len(values) == 0 {
		_, err = conn.Query(ctx, text, func(row mysqlwire.TextRow) error {
			plan = bytes.Clone(row[0])
			return nil
		})
		return plan, err
	}
	prepared, err := conn.Prepare(ctx, []byte(text))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseStatement(prepared.StatementID) }() // the next command reports a lost connection
	if int(prepared.Params) != len(values) {
		return nil, refused{errNoValues}
	}
	_, err = conn.Execute(ctx, prepared.StatementID, values, func(payload []byte) error {
		var row mysqlwire.BinaryRow
		err := row.Decode(payload, []mysqlwire.ValueType{{Type: mysqlwire.TypeVarString}})
		if err == nil {
			plan = bytes.Clone(row[0].Data)
		}
		return err
	})
	return plan, err
}

// abandon closes a connection that may be busy, and kills it: a server notices a closed connection only when
// it writes to it.
func (s *server) abandon(id uint32) {
	addr := s.client.Addr()
	s.close()
	if s.kill != nil {
		_ = s.kill(addr, id) // kill has a time limit; mostly the connection is closed by now
	}
}

// baseTables fails unless all tables exist and are not views: a view may call stored functions.
func baseTables(ctx context.Context, conn *mysqlconn.Client, schema string, tables []string) error {
	for _, t := range tables {
		in, name, ok := strings.Cut(t, ".")
		if !ok {
			in, name = schema, t
		}
		if strings.EqualFold(in, "information_schema") { // whose names have no case
			return refused{errView}
		}
		kind := ""
		_, err := conn.Query(ctx, "SELECT table_type FROM information_schema.tables WHERE table_schema = "+session.Quote(in)+" AND table_name = "+session.Quote(name), func(row mysqlwire.TextRow) error {
			kind = string(row[0])
			return nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("read kind of table: %w", err)
		case kind == "":
			return refused{errGone}
		case kind != "BASE TABLE" && kind != "SYSTEM VERSIONED":
			return refused{errView}
		}
	}
	return nil
}

// refused is an error about one statement; others are about the server.
type refused struct{ error }

// Unwrap implements errors.Unwrap.
func (r refused) Unwrap() error { return r.error }

// reason returns an error without the server's text, which may contain parts of the statement. ofServer is
// true if no statement can be explained.
func reason(err error) (why error, ofServer bool) { //nolint:revive // the error is the result
	var r refused
	if errors.As(err, &r) {
		return r.error, false
	}
	if errors.Is(err, serverstats.ErrServer) {
		return errServer, true
	}
	switch n := serverstats.ErrorNumber(err); n {
	case 0:
		return serverstats.Unreachable(err), true
	case 1045, 1698, 1044, 1049:
		return fmt.Errorf("the server refuses the account of option control (error %d)", n), n != 1044 && n != 1049
	case 1142, 1143, 1227, 1370, 1345:
		return errRights, false
	case 1317, 1028, 3024, 1969:
		return errTooLong, false
	case 1205, 1213:
		return errLocked, false
	case 1792:
		return errReadOnly, false
	case 1146:
		return errGone, false
	default:
		return fmt.Errorf("the server cannot explain it (error %d)", n), false
	}
}

// quoteName quotes a name for a statement.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
