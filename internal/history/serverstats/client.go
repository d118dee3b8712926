package serverstats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	mysqlsession "github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
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

// A Client connects to the server behind a gateway, with at most one connection at a time. Each statement has limits on
// its time and its waits for locks. It is not safe for concurrent use.
type Client struct {
	login func() mysqlconn.Config

	conn   *mysqlconn.Client // in use; nil between Release and Conn
	addr   string            // of the last connection
	server sqldigest.Server

	mu    sync.Mutex
	idle  *mysqlconn.Client // guarded by mu, as the next
	timer *time.Timer       // closes idle
}

// NewClient returns a Client that is not connected yet. login returns how to log in to the server that clients currently
// use.
func NewClient(login func() mysqlconn.Config) *Client { return &Client{login: login} }

// Addr returns the address of the last connection.
func (c *Client) Addr() string { return c.addr }

// Server returns the server of the last connection.
func (c *Client) Server() sqldigest.Server { return c.server }

// Close closes the connection.
func (c *Client) Close() {
	for _, conn := range []*mysqlconn.Client{c.takeIdle(), c.conn} {
		if conn != nil {
			conn.Close()
		}
	}
	c.conn = nil
}

// Conn returns the connection, with the limits set, until Release.
func (c *Client) Conn(ctx context.Context) (*mysqlconn.Client, error) {
	login := c.login()
	c.conn = c.takeIdle()
	if c.conn != nil && login.Addr == c.addr && c.limit(ctx) == nil {
		return c.conn, nil
	}
	c.Close()
	ctx, cancel := context.WithTimeout(ctx, CallTime)
	defer cancel()
	conn, err := mysqlsession.OpenBare(ctx, login)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c.conn, c.addr = conn, login.Addr
	if err := c.limit(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c.conn, nil
}

// Release ends the use of the connection, which is kept for the next Conn for a while.
func (c *Client) Release() {
	if c.conn == nil || c.conn.Broken() {
		c.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle, c.conn = c.conn, nil
	c.timer = time.AfterFunc(idleTime, func() {
		if conn := c.takeIdle(); conn != nil {
			conn.Close()
		}
	})
}

// takeIdle returns the idle connection, which is then the caller's; nil if there is none.
func (c *Client) takeIdle() *mysqlconn.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.idle
	if c.idle = nil; c.timer != nil {
		c.timer.Stop()
	}
	return conn
}

// limit checks the server and sets the limits of a session. A server that lacks them is not used.
func (c *Client) limit(ctx context.Context) error {
	var version string
	if err := queryRow(ctx, c.conn, "SELECT VERSION(), CONNECTION_ID()", &version, &c.conn.ConnectionID); err != nil { // the greeting may be a proxy's
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
	err := mysqlsession.Renew(ctx, c.conn, limits...)
	if ErrorNumber(err) == unknownVariable {
		return ErrServer
	}
	if err != nil {
		return fmt.Errorf("limit the session: %w", err)
	}
	return nil
}

// query calls read for each row of a statement.
func query(ctx context.Context, conn *mysqlconn.Client, text string, read func(row mysqlwire.TextRow) error) error {
	size := 0
	_, err := conn.Query(ctx, text, func(row mysqlwire.TextRow) error {
		size += rowBytes
		for _, v := range row {
			size += len(v)
		}
		if size > maxReply {
			return errReply
		}
		return read(row)
	})
	return err
}

const (
	maxReply = 32 << 20 // bytes of the rows of a statement; all statements have fewer, whatever the server counts
	rowBytes = 256      // charged for a row in addition
)

var errReply = fmt.Errorf("the server returned more than %d MiB", maxReply>>20)

// queryRow reads the only row of a statement.
func queryRow(ctx context.Context, conn *mysqlconn.Client, text string, to ...any) error {
	none := true
	err := query(ctx, conn, text, func(row mysqlwire.TextRow) error {
		none = false
		return scan(row, to...)
	})
	if err == nil && none {
		err = errNoRow
	}
	return err
}

var errNoRow = errors.New("the server returned no row")

// scan stores the values of a row in variables. NULL is stored as the zero value.
func scan(row mysqlwire.TextRow, to ...any) error {
	if len(row) != len(to) {
		return fmt.Errorf("%d columns instead of %d", len(row), len(to))
	}
	for i, v := range to {
		text := string(row[i])
		if s, ok := v.(*string); ok {
			*s = text
			continue
		}
		if row[i] == nil {
			text = "0"
		}
		var err error
		switch v := v.(type) {
		case *bool:
			*v = text != "0"
		case *uint32:
			var n uint64
			n, err = strconv.ParseUint(text, 10, 32)
			*v = uint32(n)
		case *uint64:
			*v, err = strconv.ParseUint(text, 10, 64)
		case *int:
			*v, err = strconv.Atoi(text)
		case *int64:
			*v, err = strconv.ParseInt(text, 10, 64)
		case *float64:
			*v, err = strconv.ParseFloat(text, 64)
		default:
			panic(fmt.Sprintf("BUG: serverstats: scan into a %T", v))
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

// Numbers of errors of the server.
const (
	unknownVariable = 1193
	noSuchTable     = 1146
	unknownTable    = 1109 // in information_schema
)

// ErrorNumber returns the number of a server's error, 0 for other errors.
func ErrorNumber(err error) uint16 {
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) {
		return uint16(refused.Number)
	}
	return 0
}

// Unreachable returns the reason why a connection failed that is not an error of the server, for operators.
func Unreachable(err error) error {
	if key, ok := errors.AsType[*mysqlconn.ServerKeyError](err); ok {
		return key
	}
	if secure, ok := errors.AsType[*mysqlconn.TLSError](err); ok {
		return secure
	}
	return errors.New("the server cannot be reached with the account of option control")
}

// reason describes an error for operators without the server's text, which may contain parts of statements.
func reason(err error) string {
	if errors.Is(err, ErrServer) {
		return ErrServer.Error()
	}
	switch n := ErrorNumber(err); n {
	case 0:
		return Unreachable(err).Error()
	case 1045, 1698, 1049:
		return fmt.Sprintf("the server refuses the account of option control (error %d)", n)
	case 1044, 1142, 1143, 1227:
		return "the account of option control lacks a right: GRANT SELECT ON performance_schema.*, PROCESS and SELECT on the tables"
	case 1317, 1028, 3024, 1969:
		return "reading took longer than 1.5 s"
	default:
		return fmt.Sprintf("the server failed (error %d)", n)
	}
}
