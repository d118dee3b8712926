package connlimit

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// stall is the time after which a write fails whose peer has read nothing.
const stall = time.Minute

// maxWrite bounds the bytes that one deadline is for, so that a slow reader is not taken for a stalled one.
const maxWrite = 64 << 10

// A listener accepts as many connections as its Limit allows and closes the others.
type listener struct {
	net.Listener
	limit *Limit
}

// Listener returns l with the limit of connections. A connection over the limit is closed at once: its client
// sees the end of the connection rather than a time-out. A write to a connection fails after a minute
// in which the peer has read nothing, unless a deadline of its own is set.
func (l *Limit) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := addressOf(c)
		if l.limit.Acquire(addr) {
			return &conn{Conn: c, limit: l.limit, addr: addr}, nil
		}
		_ = c.Close()
	}
}

// A conn is an accepted connection. Its methods are safe for concurrent use like those of a net.Conn.
type conn struct {
	net.Conn
	limit  *Limit
	addr   netip.Addr
	closed sync.Once

	deadline atomic.Bool // a deadline for writes was set by the user of the connection
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() { c.limit.Release(c.addr) })
	return err
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.deadline.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (n int, err error) {
	for {
		part := b[n:]
		if len(part) > maxWrite {
			part = part[:maxWrite]
		}
		if !c.deadline.Load() {
			if err := c.Conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
				return n, err
			}
		}
		m, err := c.Conn.Write(part)
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}
