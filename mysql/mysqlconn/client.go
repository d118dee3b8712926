package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ErrBroken reports that an earlier command was interrupted or failed halfway, so that the next packet cannot
// be attributed to a command. The connection must be closed.
var ErrBroken = errors.New("connection is broken by an earlier error")

// A Client is a connection that is logged in to a server, created by Dial or LogIn. It is not safe for
// concurrent use.
type Client struct {
	*Conn

	ServerVersion string
	ConnectionID  uint32               // as in SHOW PROCESSLIST
	Capabilities  mysqlwire.Capability // in use on the connection

	Status mysqlwire.Status // of the last OK

	maxPacket int // longest message to read, in bytes
	broken    bool
	statement []byte // buffer of ExecBytes
	row       mysqlwire.TextRow
}

// Broken reports whether all further commands fail with ErrBroken.
func (c *Client) Broken() bool { return c.broken }

// A Result is the outcome of a statement.
type Result struct {
	AffectedRows uint64 // of all results together
	LastInsertID uint64 // of the last result that has one
	Warnings     uint32 // of all results together
	Rows         uint64 // rows sent
}

// Ping checks that the server responds.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.command(ctx, "ping", []byte{byte(mysqlwire.ComPing)}, nil)
	return err
}

// Exec executes statements and discards the rows they return. If the server refuses, the error is a
// *ServerError and the connection stays usable; after any other error it is broken.
func (c *Client) Exec(ctx context.Context, sql string) (Result, error) { return c.Query(ctx, sql, nil) }

// statementKeep is the largest statement buffer that ExecBytes keeps, in bytes.
const statementKeep = 2 << 20

// ExecBytes is Exec for a statement in the caller's buffer, which it does not retain. It copies a short
// statement once, into a buffer that it reuses; it does not copy one of more than statementKeep bytes.
func (c *Client) ExecBytes(ctx context.Context, sql []byte) (Result, error) {
	if len(sql) > statementKeep {
		var room [8]byte
		head := mysqlwire.AppendQuery(room[:0], nil, c.Capabilities)
		return c.commandBy(ctx, "execute", func() error { return c.writeParts(head, sql) }, nil)
	}
	c.statement = mysqlwire.AppendQuery(c.statement[:0], sql, c.Capabilities)
	result, err := c.command(ctx, "execute", c.statement, nil)
	if cap(c.statement) > statementKeep {
		c.statement = nil
		c.account.weigh()
	}
	return result, err
}

// Query is Exec with a function that is called for each row. The row's values are valid until it returns; if
// it returns an error, the remaining rows are discarded and Query returns the error.
func (c *Client) Query(ctx context.Context, sql string, row func(mysqlwire.TextRow) error) (Result, error) {
	return c.command(ctx, "execute", mysqlwire.AppendQuery(nil, []byte(sql), c.Capabilities), c.texts(row))
}

// An eachRow receives the payload of a row. err means that it is malformed.
type eachRow func(payload []byte, columns int) (rowErr, err error)

// texts returns the function that decodes the rows of the text protocol for row.
func (c *Client) texts(row func(mysqlwire.TextRow) error) eachRow {
	if row == nil {
		return nil
	}
	return func(payload []byte, columns int) (rowErr, err error) {
		if err := c.row.Decode(payload, columns); err != nil {
			return nil, err
		}
		return row(c.row), nil
	}
}

// Close sends COM_QUIT and closes the connection.
func (c *Client) Close() error {
	if !c.broken {
		c.Seq = 0
		_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // COM_QUIT is optional: do not wait for it
		_ = c.WriteMessage([]byte{byte(mysqlwire.ComQuit)}) // the server may have closed first
		c.broken = true
	}
	return c.Conn.Close()
}

// Closed returns a client in place of one that was closed, without its buffers: all of its commands fail with ErrBroken.
func (c *Client) Closed() *Client {
	return &Client{
		Conn: &Conn{nc: c.raw, raw: c.raw}, ServerVersion: c.ServerVersion, ConnectionID: c.ConnectionID, Capabilities: c.Capabilities, broken: true,
	}
}

// command sends a command and reads all results of its response.
func (c *Client) command(ctx context.Context, what string, payload []byte, row eachRow) (Result, error) {
	return c.commandBy(ctx, what, func() error { return c.WriteMessage(payload) }, row)
}

// commandBy is command with a custom write function.
func (c *Client) commandBy(ctx context.Context, what string, write func() error, row eachRow) (Result, error) {
	if c.broken {
		return Result{}, ErrBroken
	}
	var result Result
	var rowErr error
	err := c.during(ctx, func() (err error) {
		c.Seq = 0
		if err := write(); err != nil {
			return err
		}
		rowErr, err = c.readResults(&result, row)
		return err
	})
	var refused *ServerError
	switch {
	case errors.As(err, &refused):
	case err != nil:
		c.broken = true
	default:
		err = rowErr
	}
	if err != nil {
		return result, fmt.Errorf("%s: %w", what, err)
	}
	return result, nil
}

// readResults reads results up to the last one. rowErr is the error of the row function.
func (c *Client) readResults(result *Result, row eachRow) (rowErr, err error) {
	for {
		payload, err := c.read()
		if err != nil {
			return rowErr, err
		}
		switch payload[0] {
		case mysqlwire.MarkOK:
			err = c.addOK(result, payload)
		case mysqlwire.MarkErr:
			err = decodeServerError(payload, c.ServerVersion)
		case mysqlwire.MarkLocalInfile:
			err = errors.New("the server asks for a local file, which was not offered")
		default:
			var h mysqlwire.ResultHeader
			err = h.Decode(payload, c.Capabilities)
			if err == nil && h.Columns > maxColumns {
				err = fmt.Errorf("%w: a result of %d columns", mysqlwire.ErrMalformedPacket, h.Columns)
			}
			if err == nil {
				err = c.readRows(h, result, row, &rowErr)
			}
		}
		if err != nil || !c.Status.Has(mysqlwire.StatusMoreResults) {
			return rowErr, err
		}
	}
}

// maxColumns bounds the columns of a result: servers allow at most 4,096 per table.
const maxColumns = 1 << 16

// readRows reads column definitions and rows up to the packet that ends them.
func (c *Client) readRows(h mysqlwire.ResultHeader, result *Result, row eachRow, rowErr *error) error {
	columns := int(h.Columns)
	if err := c.skipDefinitions(columns, h.NoDefinitions); err != nil {
		return err
	}
	deprecateEOF := c.Capabilities.Has(mysqlwire.CapDeprecateEOF)
	for {
		payload, err := c.read()
		switch {
		case err != nil:
			return err
		case payload[0] == mysqlwire.MarkErr:
			return decodeServerError(payload, c.ServerVersion)
		case deprecateEOF && payload[0] == mysqlwire.MarkEOF && len(payload) < mysqlwire.MaxPayload:
			return c.addOK(result, payload)
		case !deprecateEOF && mysqlwire.IsEOF(payload):
			warnings, err := c.decodeEOF(payload)
			result.Warnings += warnings
			return err
		}
		result.Rows++
		if row == nil || *rowErr != nil {
			continue
		}
		if *rowErr, err = row(payload, columns); err != nil {
			return err
		}
	}
}

// skipDefinitions reads past the definitions of a result's columns, unless none are sent, and the EOF after them.
func (c *Client) skipDefinitions(columns int, none bool) error {
	if none {
		columns = 0
	}
	if !c.Capabilities.Has(mysqlwire.CapDeprecateEOF) {
		columns++ // an EOF
	}
	for range columns {
		payload, err := c.read()
		if err != nil {
			return err
		}
		if payload[0] == mysqlwire.MarkErr { // from a gateway that lost its server
			return decodeServerError(payload, c.ServerVersion)
		}
	}
	return nil
}

// decodeEOF decodes the packet at the end of rows and records its status.
func (c *Client) decodeEOF(payload []byte) (warnings uint32, err error) {
	var e mysqlwire.EOF
	if err := e.Decode(payload, c.Capabilities); err != nil {
		return 0, err
	}
	c.Status = e.Status
	return uint32(e.Warnings), nil
}

// read reads the next message of a response and skips progress reports.
func (c *Client) read() ([]byte, error) { return c.readSized(estimate{}) }

// readSized is read with an estimate of a long message's length.
func (c *Client) readSized(e estimate) ([]byte, error) {
	for {
		payload, err := c.readMessage(c.maxPacket, e)
		switch {
		case err != nil:
			return nil, err
		case len(payload) == 0:
			return nil, mysqlwire.ErrShortPacket
		case !mysqlwire.IsProgress(payload):
			return payload, nil
		}
	}
}

// recordStatus records the status of an OK.
func (c *Client) recordStatus(payload []byte) error { return c.addOK(&Result{}, payload) }

func (c *Client) addOK(result *Result, payload []byte) error {
	var ok mysqlwire.OK
	if err := ok.Decode(payload, c.Capabilities); err != nil {
		return err
	}
	c.Status = ok.Status
	result.AffectedRows += ok.AffectedRows
	result.Warnings += uint32(ok.Warnings)
	if ok.LastInsertID != 0 {
		result.LastInsertID = ok.LastInsertID
	}
	return nil
}

// during runs f and interrupts its reads and writes when ctx is done. If ctx is done, the connection is
// broken, even if f completed.
func (c *Client) during(ctx context.Context, f func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.watch != nil {
		c.watch.ctx = ctx
	}
	stop := context.AfterFunc(ctx, c.interrupt)
	err := f()
	c.account.weigh()
	if stop() {
		return err
	}
	c.broken = true
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}
