package netloop

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Options of a Group.
type Options struct {
	// Loops is the number of loops; 0: none, so that each task is an ordinary goroutine. A platform without
	// loops treats any number as 0. New raises GOMAXPROCS to more than twice the number: a waiting loop keeps its
	// CPU for a while, and must not wait for the collector and other goroutines to leave one.
	Loops int

	// Panic receives a panic that ended a task. It must not block. Nil: panics are discarded.
	Panic func(value any, stack []byte)
}

// A Group runs tasks on its loops.
type Group struct {
	loops   []*loop
	onPanic func(any, []byte)
	base    time.Time
	tasks   sync.WaitGroup

	placing sync.Mutex // keeps tasks evenly spread
}

var cpus = runtime.GOMAXPROCS(0) //nolint:gochecknoglobals // as it was at the start

// CPUs returns GOMAXPROCS as it was when the process started: New raises it.
func CPUs() int { return cpus }

// New starts the loops of a group.
func New(o Options) (*Group, error) {
	g := &Group{onPanic: o.Panic, base: time.Now()}
	if !supported {
		return g, nil
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2*o.Loops+2))
	for range o.Loops {
		l := &loop{group: g, number: len(g.loops), conns: make([]*Conn, 1), gens: make([]uint32, 1), stopped: make(chan struct{})} // wakeID uses slot 0
		if err := l.poll.open(); err != nil {
			g.stop()
			return nil, fmt.Errorf("start an event loop: %w", err)
		}
		g.loops = append(g.loops, l)
		go l.run()
	}
	return g, nil
}

// Loops returns the number of loops.
func (g *Group) Loops() int { return len(g.loops) }

// Go runs body as a task with the given connections on the loop with the fewest tasks. When the peer of a
// connection closes its side, the loop calls hungUp, once, again if the connection is then closed in both directions (Conn.Closed), possibly before the task has
// read all bytes: hungUp must not block and must not use the connections, but it may set deadlines.
//
// Without loops, and if a connection has no descriptor, the task is an ordinary goroutine that uses the
// connections directly, and hungUp is not called. If Go fails, no task was started, and the caller may only
// close the connections.
func (g *Group) Go(body func(*Task), hungUp func(*Conn), conns ...*Conn) error {
	t := &Task{body: body, hung: hungUp}
	if len(g.loops) == 0 || !haveDescriptors(conns) {
		for _, c := range conns {
			c.owner = t
		}
		g.tasks.Go(t.runGoroutine)
		return nil
	}
	t.loop = g.placeAmong(g.loops)
	return g.start(t, conns)
}

// haveDescriptors reports whether a loop can watch the connections.
func haveDescriptors(conns []*Conn) bool {
	for _, c := range conns {
		if _, err := c.SyscallConn(); err != nil {
			return false
		}
	}
	return true
}

// giveBack returns unregistered connections to the runtime's poller.
func giveBack(conns []*Conn) {
	for _, c := range conns {
		c.mu.Lock()
		if c.task != nil {
			fd := c.fd
			c.task, c.on, c.fd = nil, nil, -1
			c.inner, _ = returnDescriptor(fd)
		}
		c.mu.Unlock()
	}
}

// Close waits until all tasks have ended, and stops the loops. No task may be started afterwards.
func (g *Group) Close() {
	g.tasks.Wait()
	g.stop()
}

func (g *Group) stop() {
	for _, l := range g.loops {
		l.post(nil, stopLoop)
		<-l.stopped
		l.mu.Lock()
		l.closed = true
		l.poll.close()
		l.mu.Unlock()
	}
	g.loops = nil
}
