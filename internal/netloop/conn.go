package netloop

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var errNoDescriptor = errors.New("the connection has no descriptor")

// readiness is a set of the states that a descriptor's events report.
type readiness uint8

const (
	isReadable readiness = 1 << iota
	isWritable
	isHungUp // the peer has closed its sending side, or the connection
	isClosed // the connection is closed in both directions: it was reset, or a peer on a Unix socket has closed it
)

// A Conn is a connection of a task. Until a loop has taken it over, and again after Detach, it delegates to
// the net.Conn that it was created from. On a loop, Read and Write suspend the task until the connection is
// ready, so that crypto/tls and other code over a Conn see a blocking connection.
//
// Read, Write and Close are for the goroutine that owns the Conn: the task's, on a loop. Deadlines
// may be set by any goroutine; one in the past wakes a waiting Read or Write.
type Conn struct {
	// State of a connection on a loop. Only its task uses these fields, and the loop while the task is
	// suspended.
	task  *Task // nil: not on a loop
	fd    int32
	slot  uint32
	ready readiness
	tcp   bool
	owner *Task // of a connection whose task has no loop
	err   error // reason why the loop cannot watch the connection

	readBy, writeBy atomic.Int64 // deadlines in nanoseconds since the group's start; 0: none

	mu            sync.Mutex     // guards the change between loop and inner, and concurrent deadlines
	on            *Task          // task, for other goroutines
	inner         net.Conn       // nil on a loop, and once closed
	local, remote netip.AddrPort // of TCP, in place of the larger net.TCPAddr
	addrs         *[2]net.Addr   // local and remote of other connections
}

// NewConn returns a Conn that takes ownership of a connection.
func NewConn(nc net.Conn) *Conn {
	c := &Conn{fd: -1, inner: nc}
	local, ok1 := nc.LocalAddr().(*net.TCPAddr)
	remote, ok2 := nc.RemoteAddr().(*net.TCPAddr)
	if ok1 && ok2 {
		c.local, c.remote = local.AddrPort(), remote.AddrPort()
	} else {
		c.addrs = &[2]net.Addr{nc.LocalAddr(), nc.RemoteAddr()}
	}
	return c
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr {
	if c.addrs != nil {
		return c.addrs[0]
	}
	return net.TCPAddrFromAddrPort(c.local)
}

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr {
	if c.addrs != nil {
		return c.addrs[1]
	}
	return net.TCPAddrFromAddrPort(c.remote)
}

// SyscallConn implements syscall.Conn for a connection that is not on a loop.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.inner.(syscall.Conn)
	if !ok {
		return nil, errNoDescriptor
	}
	return sc.SyscallConn()
}

// Read implements net.Conn. On a loop it does not allocate, unless it fails.
func (c *Conn) Read(p []byte) (int, error) {
	t := c.task
	if t == nil {
		return c.readInner(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	t.pace()
	p = p[:min(len(p), budget)]
	for {
		by := c.readBy.Load()
		if by != 0 && t.loop.group.now() >= by {
			return 0, os.ErrDeadlineExceeded
		}
		if c.ready&isReadable == 0 {
			t.await(c, isReadable, by)
			continue
		}
		if c.err != nil {
			return 0, c.err
		}
		n, errno := receive(c.fd, p)
		switch errno {
		case 0:
			t.spent += n + operation
			if n == 0 {
				return 0, io.EOF
			}
			// After a short read nothing is left, and further bytes cause an event. After a hang-up there is
			// no further event; a Unix socket reads short for other reasons too.
			if n < len(p) && c.tcp && c.ready&isHungUp == 0 {
				c.ready &^= isReadable
			}
			return n, nil
		case syscall.EAGAIN:
			c.ready &^= isReadable
		case syscall.EINTR:
		default:
			return 0, c.failed("read", errno)
		}
	}
}

// Write implements net.Conn. On a loop it does not allocate, unless it fails.
func (c *Conn) Write(p []byte) (written int, err error) {
	t := c.task
	if t == nil {
		return c.writeInner(p)
	}
	for written < len(p) {
		t.pace()
		by := c.writeBy.Load()
		if by != 0 && t.loop.group.now() >= by {
			return written, os.ErrDeadlineExceeded
		}
		if c.ready&isWritable == 0 {
			t.await(c, isWritable, by)
			continue
		}
		if c.err != nil {
			return written, c.err
		}
		rest := p[written:]
		n, errno := send(c.fd, rest[:min(len(rest), budget)])
		switch errno {
		case 0:
			t.spent += n + operation
			written += n
		case syscall.EAGAIN:
			c.ready &^= isWritable
		case syscall.EINTR:
		default:
			return written, c.failed("write", errno)
		}
	}
	return written, nil
}

// Ready reports whether Read would not suspend the task.
func (c *Conn) Ready() bool { return c.task == nil || c.ready&isReadable != 0 }

// Closed reports whether the connection is known to be closed in both directions, so that a write would fail. A peer that
// closed its sending side only, or a TCP connection that has not been written to since, is not closed. For a connection
// that is not on a loop it reports false.
func (c *Conn) Closed() bool { return c.task != nil && c.ready&isClosed != 0 }

// CloseWrite closes the sending side of the connection: the peer reads the bytes written before and then the end.
func (c *Conn) CloseWrite() error {
	if c.task != nil {
		return shutdownWrite(c.fd)
	}
	if nc, ok := c.inner.(interface{ CloseWrite() error }); ok {
		return nc.CloseWrite()
	}
	return errNoDescriptor
}

// AwaitRead suspends the task until Read would not suspend it: there are bytes, the peer has hung up, or the
// read deadline has passed, which Read then reports. It lets a caller choose a buffer late. For a connection
// that is not on a loop it returns immediately. It does not allocate.
func (c *Conn) AwaitRead() {
	t := c.task
	if t == nil {
		return
	}
	t.pace()
	for c.ready&isReadable == 0 {
		by := c.readBy.Load()
		if by != 0 && t.loop.group.now() >= by {
			return
		}
		t.await(c, isReadable, by)
	}
}

func (c *Conn) failed(op string, errno syscall.Errno) error {
	remote := c.RemoteAddr()
	return &net.OpError{Op: op, Net: remote.Network(), Source: c.LocalAddr(), Addr: remote, Err: errno}
}

func (c *Conn) readInner(p []byte) (int, error) {
	if c.inner == nil {
		return 0, net.ErrClosed
	}
	if t := c.owner; t.release(c, isReadable) {
		defer t.regain()
	}
	return c.inner.Read(p)
}

func (c *Conn) writeInner(p []byte) (int, error) {
	if c.inner == nil {
		return 0, net.ErrClosed
	}
	if t := c.owner; t.release(c, isWritable) {
		defer t.regain()
	}
	return c.inner.Write(p)
}

// Close closes the connection.
func (c *Conn) Close() error {
	t := c.task
	if t != nil {
		t.check()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t != nil {
		fd := c.unregister()
		return closeDescriptor(fd)
	}
	if c.inner == nil {
		return net.ErrClosed
	}
	nc := c.inner
	c.inner = nil
	return nc.Close()
}

// unregister removes the connection from its loop. The caller holds mu.
func (c *Conn) unregister() (fd int32) {
	c.task.loop.removeConn(c)
	fd, c.fd = c.fd, -1
	c.task, c.on, c.ready = nil, nil, 0
	return fd
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, isReadable|isWritable) }

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, isReadable) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, isWritable) }

func (c *Conn) setDeadline(t time.Time, of readiness) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on == nil {
		switch {
		case c.inner == nil:
			return net.ErrClosed
		case of == isReadable:
			return c.inner.SetReadDeadline(t)
		case of == isWritable:
			return c.inner.SetWriteDeadline(t)
		}
		return c.inner.SetDeadline(t)
	}
	by := c.on.loop.group.at(t)
	if of&isReadable != 0 {
		c.readBy.Store(by)
	}
	if of&isWritable != 0 {
		c.writeBy.Store(by)
	}
	if by != 0 { // a waiting task has to observe it
		c.on.loop.post(c.on, wakeTask)
	}
	return nil
}

// takeOver moves the connection's descriptor from the runtime's poller to the task, without its deadlines.
// The loop has to register it.
func (c *Conn) takeOver(t *Task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		return net.ErrClosed
	}
	fd, err := takeDescriptor(c.inner)
	if err != nil {
		return err
	}
	_, c.tcp = c.inner.(*net.TCPConn)
	c.inner.Close()
	c.readBy.Store(0)
	c.writeBy.Store(0)
	c.inner, c.fd, c.task, c.on, c.ready, c.err = nil, fd, t, t, isWritable, nil
	return nil
}

// Detach returns the connection to the runtime's poller, without its deadlines: any goroutine may use it
// afterwards, and its hang-ups are not reported. Only its task may call Detach.
func (c *Conn) Detach() error {
	t := c.task
	if t == nil {
		c.owner = nil
		return nil
	}
	t.check()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.loop.poll.remove(c.fd)
	nc, err := returnDescriptor(c.unregister())
	if err != nil {
		return err
	}
	c.inner = nc
	return nil
}
