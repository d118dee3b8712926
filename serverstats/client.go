package serverstats

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/mysqlconn"
	mysqlsession "github.com/taredb/tare/mysqlconn/session"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

// The time limits of calls.
const (
	// statementTime is the server's time limit for one statement; lockWait, which is shorter, bounds its waits
	// for locks in whole seconds; CallTime is the client's limit for a whole call.
	statementTime = 1500 * time.Millisecond
	lockWait      = 1
	CallTime      = 5 * time.Second

	idleTime = 90 * time.Second // after which the connection is closed
)

// ErrServer is returned for servers other than MySQL from 5.7.8 and MariaDB.
var ErrServer = errors.New("only MySQL from 5.7.8 and MariaDB are supported")

// An Account is a login for the servers.
type Account struct {
	User, Password string
	Addr           func() string // of the server that clients currently use
}

// A Client connects to the server behind a gateway, with at most one connection at a time. Each statement has limits on
// its time and its waits for locks. It is not safe for concurrent use.
type Client struct {
	account Account

	addr   string // address of db
	db     *sql.DB
	server sqldigest.Server
}

// NewClient returns a Client that is not connected yet.
func NewClient(a Account) *Client { return &Client{account: a} }

// Addr returns the address of the last connection.
func (c *Client) Addr() string { return c.addr }

// Server returns the server of the last connection.
func (c *Client) Server() sqldigest.Server { return c.server }

// Close closes the connection.
func (c *Client) Close() {
	if c.db != nil {
		_ = c.db.Close() // nothing is pending
		c.db = nil
	}
}

// Conn returns a connection with the limits set. Closing it makes it available for the next call.
func (c *Client) Conn(ctx context.Context) (*sql.Conn, error) {
	if addr := c.account.Addr(); c.db == nil || addr != c.addr {
		c.Close()
		cfg := mysql.NewConfig()
		cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.TLSConfig = c.account.User, c.account.Password, "tcp", addr, "preferred"
		cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = CallTime, CallTime, CallTime
		cfg.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		c.db, c.addr = sql.OpenDB(connector), addr
		c.db.SetMaxOpenConns(1)
		c.db.SetConnMaxIdleTime(idleTime)
	}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := c.limit(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// limit checks the server and sets the limits of a session. A server that lacks them is not used.
func (c *Client) limit(ctx context.Context, conn *sql.Conn) error {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	c.server = sqldigest.ParseServer(version)
	limits := []mysqlsession.Value{mysqlsession.Int("lock_wait_timeout", lockWait), mysqlsession.Int("innodb_lock_wait_timeout", lockWait)}
	switch c.server.Kind {
	case sqldigest.ServerMySQL:
		limits = append(limits, mysqlsession.Int("max_execution_time", statementTime.Milliseconds()))
	case sqldigest.ServerMariaDB:
		limits = append(limits, mysqlsession.Value{Name: "max_statement_time", SQL: fmt.Sprintf("%g", statementTime.Seconds())})
	default:
		return ErrServer
	}
	err := mysqlsession.Prepare(ctx, overSQL(conn), version, limits...)
	if ErrorNumber(err) == unknownVariable {
		return ErrServer
	}
	if err != nil {
		return fmt.Errorf("limit the session: %w", err)
	}
	return nil
}

// Set sets variables of a session of Conn and reads them back.
func Set(ctx context.Context, conn *sql.Conn, values ...mysqlsession.Value) error {
	return mysqlsession.SetOver(ctx, overSQL(conn), values...)
}

// overSQL executes the statements of package session over a connection of database/sql.
func overSQL(conn *sql.Conn) mysqlsession.Pipeline {
	return func(ctx context.Context, statements []string, each func(int, mysqlwire.TextRow) error) error {
		for i, text := range statements {
			if err := queryText(ctx, conn, text, func(row mysqlwire.TextRow) error { return each(i, row) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// queryText calls each with the rows of a statement.
func queryText(ctx context.Context, conn *sql.Conn, text string, each func(mysqlwire.TextRow) error) error {
	rows, err := conn.QueryContext(ctx, text)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return &mysqlconn.ServerError{Number: mysqlwire.Errno(refused.Number), State: string(refused.SQLState[:]), Message: refused.Message}
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		row, to := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		values := make(mysqlwire.TextRow, len(columns))
		for i := range row {
			values[i] = row[i]
		}
		if err := each(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Numbers of errors of the server.
const (
	unknownVariable = 1193
	noSuchTable     = 1146
	unknownTable    = 1109 // in information_schema
)

// ErrorNumber returns the number of a server's error, 0 for other errors.
func ErrorNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) {
		return uint16(refused.Number)
	}
	return 0
}

// reason describes an error for operators without the server's text, which may contain parts of statements.
func reason(err error) string {
	if errors.Is(err, ErrServer) {
		return ErrServer.Error()
	}
	switch n := ErrorNumber(err); n {
	case 0:
		return "the server cannot be reached with the --control account"
	case 1045, 1698, 1049:
		return fmt.Sprintf("the server refuses the --control account (error %d)", n)
	case 1044, 1142, 1143, 1227:
		return "the --control account lacks a right: GRANT SELECT ON performance_schema.*, PROCESS and SELECT on the tables"
	case 1317, 1028, 3024, 1969:
		return "reading took longer than 1.5 s"
	default:
		return fmt.Sprintf("the server failed (error %d)", n)
	}
}
