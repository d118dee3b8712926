package netloop

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Tasks of one loop can hand connections to each other, and wait for each other, without locks: they run one at a time.

// GoAmong is Go for a task that runs on one of n loops from the first-th: the one of them with the fewest tasks. There must be that
// many loops.
func (g *Group) GoAmong(first, n int, body func(*Task), hungUp func(*Conn), conns ...*Conn) error {
	if !haveDescriptors(conns) {
		return errNoDescriptor
	}
	t := &Task{body: body, hung: hungUp, loop: g.placeAmong(g.loops[first : first+n])}
	return g.start(t, conns)
}

// placeAmong chooses the loop of a new task.
func (g *Group) placeAmong(loops []*loop) *loop {
	g.placing.Lock()
	defer g.placing.Unlock()
	least := loops[0]
	for _, l := range loops[1:] {
		if l.tasks.Load() < least.tasks.Load() {
			least = l
		}
	}
	least.tasks.Add(1)
	return least
}

// start starts a task on its loop.
func (g *Group) start(t *Task, conns []*Conn) error {
	for _, c := range conns {
		if err := c.takeOver(t); err != nil {
			t.loop.tasks.Add(-1)
			giveBack(conns)
			return fmt.Errorf("move a connection to an event loop: %w", err)
		}
	}
	g.tasks.Add(1)
	t.loop.send(letter{task: t, conns: conns, what: startTask})
	return nil
}

// Give makes a connection of t one of another task of the same loop, which its hang-ups are reported to from then on. t or the
// other task may call it. It does not allocate.
func (t *Task) Give(c *Conn, to *Task) {
	if c.task != t || t.loop != to.loop {
		panic("BUG: a connection is given away by another task, or to another loop")
	}
	c.mu.Lock()
	c.task, c.on = to, to
	c.mu.Unlock()
}

// Pause suspends the task until another one of its loop resumes it, another goroutine sets a deadline of one of its connections or
// calls Wake, or the time has come: the caller checks for what. The zero time never comes. It does not allocate.
func (t *Task) Pause(until time.Time) {
	t.check()
	if by := t.loop.group.at(until); by != 0 {
		if by <= t.loop.group.now() {
			return
		}
		t.loop.arm(t, by)
	}
	t.waits, t.state = nil, waiting
	t.suspend()
}

// Resume gives a task of the same loop that is within Pause its turn. The caller is a task of the loop. It does not allocate.
func (t *Task) Resume() {
	if t.state != waiting || t.waits != nil {
		return
	}
	t.state = queued
	t.loop.queue = append(t.loop.queue, t)
}

// Wake ends a task's Pause. Any goroutine may call it.
func (t *Task) Wake() { t.loop.post(t, wakeTask) }

// Silent reports whether the peer has sent nothing that is unread, and has not closed the connection, as of now. The connection is
// on a loop. It does not allocate.
func (c *Conn) Silent() bool {
	if c.task == nil || c.err != nil || c.ready&(isHungUp|isClosed) != 0 {
		return false
	}
	return silent(c.fd, c.task.loop.peeked[:])
}

// WriteNow writes as much of p as the socket takes without waiting. Any task of the connection's loop may call it while no other one
// is within Write. It does not allocate.
func (c *Conn) WriteNow(p []byte) (n int) {
	for n < len(p) && c.task != nil && c.err == nil && c.ready&isWritable != 0 {
		k, errno := send(c.fd, p[n:])
		switch errno {
		case 0:
			n += k
		case syscall.EINTR:
		case syscall.EAGAIN:
			c.ready &^= isWritable
		default:
			return n // the next Write reports it
		}
	}
	return n
}

// A Collector is a connection below crypto/tls, to which other tasks of the loop than the connection's can write too: TLS blocks in
// Write, which only the connection's task may do.
type Collector struct {
	*Conn
	out        []byte // collected, and not sent yet
	collecting bool
	writing    bool // a task is within Write
}

// NewCollector returns a Collector that takes ownership of a connection.
func NewCollector(nc net.Conn) *Collector { return &Collector{Conn: NewConn(nc)} }

// Write implements net.Conn. Collected bytes come first.
func (c *Collector) Write(p []byte) (int, error) {
	if c.collecting {
		c.out = append(c.out, p...)
		return len(p), nil
	}
	c.writing = true
	defer func() { c.writing = false }()
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Collect writes p to over, a TLS connection over c, and sends as many of the resulting bytes as the socket takes without waiting. Any
// task of the connection's loop may call it. taken is false if another task is within Write, or over fails: the next Write reports
// that. sent is false if bytes are left for Flush. It does not allocate once c has collected as many bytes.
func (c *Collector) Collect(over io.Writer, p []byte) (taken, sent bool) {
	if c.writing {
		return false, false
	}
	c.collecting = true
	_, err := over.Write(p)
	c.collecting = false
	if err != nil {
		return false, false
	}
	n := c.WriteNow(c.out)
	c.out = c.out[:copy(c.out, c.out[n:])]
	return true, len(c.out) == 0
}

// Flush sends the collected bytes that are left.
func (c *Collector) Flush() error {
	c.writing = true
	defer func() { c.writing = false }()
	return c.flush()
}

func (c *Collector) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	n, err := c.Conn.Write(c.out)
	c.out = c.out[:copy(c.out, c.out[n:])]
	return err
}

// Collected returns the number of collected bytes that are left, and the size of their buffer.
func (c *Collector) Collected() (left, size int) { return len(c.out), cap(c.out) }
