package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// streamBuffer is the read buffer in bytes of a connection that streams rows.
	streamBuffer = 64 << 10

	// narrowReads is the number of refills of an enlarged buffer, without a row that requires it, after which
	// it is released.
	narrowReads = 8
)

// Rows is the result of one statement, read row by row from the connection's buffer. It is not safe for
// concurrent use and must be closed; until then the client cannot execute commands.
type Rows struct {
	Columns int

	c      *Client
	done   func() bool // stops the watch of the context
	ctx    context.Context
	err    error // io.EOF after all rows were read
	narrow int   // refills of an enlarged buffer since the last row wider than streamBuffer
}

// Stream executes a statement that returns rows, to be read by Next. If the server refuses, the error is a
// *ServerError and the connection stays usable. Of several results, Rows reads the first; Close discards the
// others.
func (c *Client) Stream(ctx context.Context, sql string) (*Rows, error) {
	r, err := c.stream(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("execute: %w", err)
	}
	return r, nil
}

func (c *Client) stream(ctx context.Context, sql string) (*Rows, error) {
	if c.broken {
		return nil, ErrBroken
	}
	if c.Size() < streamBuffer {
		c.SwapBuffer(make([]byte, streamBuffer))
	}
	r := &Rows{c: c, ctx: ctx}
	err := c.during(ctx, func() error {
		c.Seq = 0
		if err := c.WriteMessage(mysqlwire.AppendQuery(nil, []byte(sql), c.Capabilities)); err != nil {
			return err
		}
		return r.readHeader()
	})
	var refused *ServerError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		return nil, err
	default:
		c.broken = true
		return nil, err
	}
	r.done = context.AfterFunc(ctx, c.interrupt)
	return r, nil
}

// readHeader reads up to the first row.
func (r *Rows) readHeader() error {
	payload, err := r.c.read()
	if err != nil {
		return err
	}
	switch payload[0] {
	case mysqlwire.MarkErr:
		return decodeServerError(payload, r.c.ServerVersion)
	case mysqlwire.MarkLocalInfile:
		return errors.New("the server asks for a local file, which was not offered")
	case mysqlwire.MarkOK: // a statement without rows
		r.err = io.EOF
		return r.c.recordStatus(payload)
	}
	var h mysqlwire.ResultHeader
	if err := h.Decode(payload, r.c.Capabilities); err != nil {
		return err
	}
	if h.Columns > maxColumns {
		return fmt.Errorf("%w: a result of %d columns", mysqlwire.ErrMalformedPacket, h.Columns)
	}
	r.Columns = int(h.Columns)
	return r.c.skipDefinitions(r.Columns, h.NoDefinitions)
}

// Next returns the payload of the next row, a view that is valid until the next call, or io.EOF after the
// last one. It does not allocate unless a row is wider than the buffer.
func (r *Rows) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	payload := r.c.buffered()
	if payload == nil || payload[0] >= mysqlwire.MarkEOF {
		return r.nextSlow(payload)
	}
	return payload, nil
}

// buffered consumes the next packet if it is whole in the buffer, not empty, a message of one packet, and has
// the expected sequence number; otherwise it returns nil.
func (c *Conn) buffered() []byte {
	b := c.buf[c.r:c.w]
	if len(b) <= mysqlwire.HeaderLen {
		return nil
	}
	h := mysqlwire.ParseHeader(b)
	end := mysqlwire.HeaderLen + h.Len
	if end > len(b) || h.Len == 0 || h.Len >= mysqlwire.MaxPayload || h.Seq != c.Seq {
		return nil
	}
	c.Seq++
	c.r += end
	return b[mysqlwire.HeaderLen:end:end]
}

// nextSlow reads a packet that is not a buffered row; payload, if any, was consumed already.
func (r *Rows) nextSlow(payload []byte) (_ []byte, err error) {
	if payload == nil {
		r.narrowed()
		if payload, err = r.c.readSized(estimate{of: rowSize}); err != nil {
			return nil, r.fail(err)
		}
		if len(payload) > streamBuffer {
			r.narrow = 0
		}
	} else if mysqlwire.IsProgress(payload) {
		return r.nextSlow(nil)
	}
	deprecateEOF := r.c.Capabilities.Has(mysqlwire.CapDeprecateEOF)
	switch {
	case payload[0] == mysqlwire.MarkErr:
		r.err = decodeServerError(payload, r.c.ServerVersion)
		return nil, r.err
	case deprecateEOF && payload[0] == mysqlwire.MarkEOF && len(payload) < mysqlwire.MaxPayload:
		err = r.c.recordStatus(payload)
	case !deprecateEOF && mysqlwire.IsEOF(payload):
		_, err = r.c.decodeEOF(payload)
	default:
		return payload, nil
	}
	if err != nil {
		return nil, r.fail(err)
	}
	r.err = io.EOF
	return nil, io.EOF
}

// rowSize estimates the length of a row by its first packet, up to the end of the value that the packet ends
// in. It trusts a value's announced length, but estimates at most 64 times the bytes of it in the packet.
func rowSize(first []byte) int {
	for at := 0; at < len(first); {
		n, k := mysqlwire.LenencInt(first[at:])
		switch {
		case first[at] == 0xFB: // NULL
			at++
			continue
		case k == 0:
			return len(first)
		case n > uint64(64*len(first)):
			return 64 * len(first)
		}
		if at += k + int(n); at > len(first) {
			return at + wideRest
		}
	}
	return len(first)
}

// wideRest is room for the bytes after a wide value of a row or an event.
const wideRest = 64 << 10

// narrowed releases the buffer of a wide row after a number of refills without another one.
func (r *Rows) narrowed() {
	if r.c.Size() <= streamBuffer {
		return
	}
	if r.narrow++; r.narrow >= narrowReads && len(r.c.Buffered()) <= streamBuffer {
		r.c.SwapBuffer(make([]byte, streamBuffer))
		r.narrow = 0
	}
}

// fail breaks the connection.
func (r *Rows) fail(err error) error {
	r.c.broken = true
	if errors.Is(err, io.EOF) { // io.EOF means that all rows were read
		err = io.ErrUnexpectedEOF
	}
	if cause := context.Cause(r.ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	r.err = fmt.Errorf("read row: %w", err)
	return r.err
}

// Close ends the statement. Unread rows are discarded if they are few enough to be in the buffer; otherwise
// the connection is broken, since stopping the server's statement would take another connection. Close
// returns the error that ended the rows, if any.
func (r *Rows) Close() error {
	for r.err == nil {
		payload := r.c.buffered()
		if payload == nil {
			break
		}
		if payload[0] >= mysqlwire.MarkEOF {
			_, _ = r.nextSlow(payload) // fail records its error
		}
	}
	if !r.done() || r.err == nil {
		r.c.broken = true
	}
	switch {
	case r.err == nil:
		return nil
	case !errors.Is(r.err, io.EOF):
		return r.err
	case !r.c.Status.Has(mysqlwire.StatusMoreResults):
		return nil
	}
	var dropped Result
	err := r.c.during(r.ctx, func() error {
		_, err := r.c.readResults(&dropped, nil)
		return err
	})
	if _, refused := errors.AsType[*ServerError](err); err != nil && !refused {
		r.c.broken = true
	}
	return err
}

// interrupt interrupts reads and writes of the connection.
func (c *Client) interrupt() {
	_ = c.SetDeadline(time.Unix(1, 0)) // it fails on a closed socket, on which nothing waits
}
