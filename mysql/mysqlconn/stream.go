package mysqlconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// errStreamSize means that a streamed statement does not have the announced number of bytes.
var errStreamSize = errors.New("BUG: the streamed statement has another length than announced")

// ExecStream is Exec for a statement of size bytes, which are those that fill passes to write. They are sent in
// packets as they come: the statement is never in memory. If fill fails, the connection is broken, so that the server
// discards the statement.
func (c *Client) ExecStream(ctx context.Context, size int, fill func(write func([]byte) error) error) (Result, error) {
	var room [8]byte
	head := mysqlwire.AppendQuery(room[:0], nil, c.Capabilities)
	return c.commandBy(ctx, "execute", func() error {
		w := packetWriter{c: c.Conn, left: len(head) + size}
		if err := w.write(head); err != nil {
			return err
		}
		if err := fill(w.write); err != nil {
			return err
		}
		return w.end()
	}, nil)
}

// A packetWriter writes a message of a known length in parts.
type packetWriter struct {
	c    *Conn
	left int // of the message
	room int // of the current packet
	last bool
}

// write writes a part of the message.
func (w *packetWriter) write(b []byte) error {
	if len(b) > w.left {
		return fmt.Errorf("%w: %d bytes more", errStreamSize, len(b)-w.left)
	}
	for len(b) > 0 {
		if w.room == 0 {
			if err := w.next(); err != nil {
				return err
			}
		}
		n := min(len(b), w.room)
		if _, err := w.c.Write(b[:n]); err != nil {
			return err
		}
		b, w.room, w.left = b[n:], w.room-n, w.left-n
	}
	return nil
}

// next writes the header of the next packet.
func (w *packetWriter) next() error {
	w.room = min(w.left, mysqlwire.MaxPayload)
	w.last = w.room < mysqlwire.MaxPayload
	w.c.out = mysqlwire.Header{Len: w.room, Seq: w.c.Seq}.AppendTo(w.c.out)
	w.c.Seq++
	return w.c.Flush()
}

// end ends the message, with an empty packet if the last one was full.
func (w *packetWriter) end() error {
	if w.left > 0 {
		return fmt.Errorf("%w: %d bytes less", errStreamSize, w.left)
	}
	if w.last {
		return nil
	}
	return w.next()
}
