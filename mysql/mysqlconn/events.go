package mysqlconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ErrQuiet reports that the server sent nothing for the requested time.
var ErrQuiet = errors.New("the server sent nothing")

// eventStall is the time limit for the rest of an event.
const eventStall = time.Minute

// Events reads the server's binary log, event by event, from the connection's buffer. It is not safe for
// concurrent use; the client cannot execute commands any more.
type Events struct {
	c      *Client
	err    error // that ended the events
	narrow int   // refills of an enlarged buffer since the last event wider than streamBuffer
}

// DumpBinlog registers the connection as a replica and requests events by dump, a mysqlwire.BinlogDump or
// BinlogDumpGTID.
func (c *Client) DumpBinlog(ctx context.Context, replica mysqlwire.RegisterReplica, dump []byte) (*Events, error) {
	if _, err := c.command(ctx, "register as a replica", replica.AppendTo(nil), nil); err != nil {
		return nil, err
	}
	if c.Size() < streamBuffer {
		c.SwapBuffer(make([]byte, streamBuffer))
	}
	c.broken = true // for commands
	c.watch = nil   // Next has separate limits
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	err := c.during(ctx, func() error {
		c.Seq = 0
		return c.WriteMessage(dump)
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the binary log: %w", err)
	}
	return &Events{c: c}, nil
}

// Buffered reports whether a whole event is buffered, so that Next does not block.
func (e *Events) Buffered() bool {
	b := e.c.Buffered()
	return len(b) > mysqlwire.HeaderLen && len(b) >= mysqlwire.HeaderLen+mysqlwire.ParseHeader(b).Len
}

// Next returns the next event, a view that is valid until the next call. If nothing arrives within wait, it
// returns ErrQuiet; if ctx is done meanwhile, it returns its cause: Next may be called again after either.
// Other errors are final: a *ServerError, io.EOF if the server has ended the log, or an error within an
// event. It does not allocate for events that fit the buffer.
func (e *Events) Next(ctx context.Context, wait time.Duration) ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	payload := e.c.buffered()
	if payload == nil {
		var err error
		if payload, err = e.read(ctx, wait); err != nil {
			return nil, err
		}
	}
	switch payload[0] {
	case mysqlwire.MarkOK:
		return payload[1:], nil
	case mysqlwire.MarkErr:
		e.err = decodeServerError(payload, e.c.ServerVersion)
	case mysqlwire.MarkEOF:
		e.err = io.EOF
	default:
		e.err = fmt.Errorf("read an event: %w: first byte is 0x%02x", mysqlwire.ErrMalformedPacket, payload[0])
	}
	return nil, e.err
}

// read waits for an event.
func (e *Events) read(ctx context.Context, wait time.Duration) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.narrowed()
	defer context.AfterFunc(ctx, e.c.interrupt)()
	if len(e.c.Buffered()) == 0 {
		e.c.Discard(0) // makes the whole buffer available
		err := e.during(ctx, wait, e.c.Fill)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, ErrQuiet
		default:
			return nil, e.fail(err)
		}
	}
	var payload []byte
	if err := e.during(ctx, eventStall, func() (err error) {
		payload, err = e.c.readSized(estimate{of: eventSize, first: eventSizeEnd})
		return err
	}); err != nil {
		return nil, e.fail(err)
	}
	if len(payload) > streamBuffer {
		e.narrow = 0
	}
	return payload, nil
}

// eventSizeEnd is the end of the length in the header of an event, after the byte before it.
const eventSizeEnd = 1 + 9 + 4

// eventSize returns the length of an event of several packets from its header, including the byte before it.
func eventSize(first []byte) int {
	return min(1+int(binary.LittleEndian.Uint32(first[eventSizeEnd-4:])), 64*mysqlwire.MaxPayload)
}

// ReleaseWide releases the buffer of a wide event if all of it was read, and reports whether there was one.
// It invalidates the last event that Next returned.
func (e *Events) ReleaseWide() bool {
	if e.c.Size() <= wideKeep || len(e.c.Buffered()) > streamBuffer {
		return false
	}
	e.c.SwapBuffer(make([]byte, streamBuffer))
	e.narrow = 0
	return true
}

// wideKeep is the largest buffer that ReleaseWide keeps.
const wideKeep = 8 << 20

// fail ends the events and discards the partly read one.
func (e *Events) fail(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	e.err = fmt.Errorf("read an event: %w", err)
	return e.err
}

// during runs a read that ends after limit, or when ctx is done, whose cause it returns.
func (e *Events) during(ctx context.Context, limit time.Duration, read func() error) error {
	if err := e.c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if ctx.Err() != nil { // its interrupt may precede the deadline
		return context.Cause(ctx)
	}
	err := read()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// narrowed releases the buffer of a wide event after a number of refills without another one.
func (e *Events) narrowed() {
	if e.c.Size() <= streamBuffer {
		return
	}
	if e.narrow++; e.narrow >= narrowReads && len(e.c.Buffered()) <= streamBuffer {
		e.c.SwapBuffer(make([]byte, streamBuffer))
		e.narrow = 0
	}
}

// Close closes the connection.
func (e *Events) Close() error { return e.c.Conn.Close() }
