package netloop

import (
	"errors"
	"io"
	"math"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testwait"
)

// pairOf returns both ends of a connection of a network.
func pairOf(t *testing.T, network string) (accepted, peer net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	must(t, err)
	defer l.Close()
	peer, err = net.Dial(network, l.Addr().String())
	must(t, err)
	accepted, err = l.Accept()
	must(t, err)
	t.Cleanup(func() { _, _ = accepted.Close(), peer.Close() })
	return accepted, peer
}

// TestAddresses has connections of each network: their addresses are those of the connections below, on a loop and off it.
func TestAddresses(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "pipe"} {
		nc, _ := net.Pipe()
		if network != "pipe" {
			nc, _ = pairOf(t, network)
		}
		local, remote := nc.LocalAddr(), nc.RemoteAddr()
		c := NewConn(nc)
		same := func() {
			t.Helper()
			if c.LocalAddr().String() != local.String() || c.RemoteAddr().String() != remote.String() || c.LocalAddr().Network() != local.Network() || c.RemoteAddr().Network() != remote.Network() {
				t.Errorf("%s: from %v to %v, want from %v to %v", network, c.LocalAddr(), c.RemoteAddr(), local, remote)
			}
		}
		same()
		if !c.Ready() || c.Closed() {
			t.Errorf("%s, off a loop: ready %t, closed %t", network, c.Ready(), c.Closed())
		}
		must(t, newGroup(t, 1).Go(func(*Task) {
			same()
			_ = c.Close()
		}, noHangup, c))
	}
}

// TestHalves closes one direction of connections, or both, on a loop and off it: each end learns which.
func TestHalves(t *testing.T) {
	for name, loops := range kinds {
		for _, network := range []string{"tcp", "unix"} {
			nc, peer := pairOf(t, network)
			c := NewConn(nc)
			type state struct{ ready, closed bool }
			states := make(chan state, 3)
			proceed := make(chan struct{})
			hung := make(chan bool, 4)
			must(t, newGroup(t, loops).Go(func(task *Task) {
				defer c.Close()
				_, onLoop := task.Loop()
				if onLoop != (loops > 0) {
					t.Errorf("%s: on a loop %t", name, onLoop)
				}
				states <- state{c.Ready(), c.Closed()}
				c.AwaitRead()
				if !c.Ready() {
					t.Errorf("%s, %s: not ready", name, network)
				}
				var b [1]byte
				if n, err := c.Read(b[:]); n != 1 || err != nil {
					t.Errorf("%s, %s: %d bytes, %v", name, network, n, err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Errorf("%s, %s: %v", name, network, err)
				}
				if _, err := c.Write(b[:]); err == nil {
					t.Errorf("%s, %s: written after the end", name, network)
				}
				if _, err := c.Read(b[:]); err != io.EOF { //nolint:errorlint // as io.Reader has it
					t.Errorf("%s, %s: the peer's end: %v", name, network, err)
				}
				states <- state{c.Ready(), c.Closed()}
				task.Block(func() { <-proceed })
			}, func(c *Conn) { hung <- c.Closed() }, c))
			if first := testwait.Receive(t, "the task", states); first.closed || first.ready && loops > 0 {
				t.Errorf("%s, %s: at first %+v", name, network, first)
			}
			if _, err := peer.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := peer.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // as io.Reader has it
				t.Errorf("%s, %s: the task's end: %v", name, network, err)
			}
			must(t, peer.(interface{ CloseWrite() error }).CloseWrite())
			if ended := testwait.Receive(t, "the task", states); !ended.ready || ended.closed && loops == 0 { // on a loop, hung is called
				t.Errorf("%s, %s: when both directions are closed: %+v", name, network, ended)
			}
			if loops > 0 {
				for closed := false; !closed; {
					closed = testwait.Receive(t, "the hang-up", hung)
				}
			} else if len(hung) > 0 {
				t.Errorf("%s: a hang-up is reported", name)
			}
			close(proceed)
		}
	}
	one, _ := net.Pipe()
	if err := NewConn(one).CloseWrite(); !errors.Is(err, errNoDescriptor) {
		t.Errorf("half of a pipe: %v", err)
	}
}

// TestAttachFails has a task take connections that are closed or have no descriptor: it does not, and they are as before.
func TestAttachFails(t *testing.T) {
	g := newGroup(t, 1)
	c, _ := pair(t)
	closed, _ := pair(t)
	must(t, closed.Close())
	broken, _ := pair(t)
	must(t, broken.inner.Close())
	one, other := net.Pipe()
	pipe := NewConn(one)
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		defer c.Close()
		if err := task.Attach(closed); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed connection: %v", err)
		}
		if err := task.Attach(broken); err == nil || broken.task != nil {
			t.Errorf("a connection that is closed below: %v", err)
		}
		if err := task.Attach(pipe); !errors.Is(err, errNoDescriptor) || pipe.task != nil {
			t.Errorf("a pipe: %v", err)
		}
	}, noHangup, c))
	testwait.Receive(t, "the task", done)
	go func() { _, _ = other.Write([]byte("x")) }()
	if n, err := pipe.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the pipe: %d bytes, %v", n, err)
	}
	if err := (*Task)(nil).Attach(pipe); err != nil || pipe.owner != nil {
		t.Errorf("to no task: %v", err)
	}
}

// TestEvents translates events of the system.
func TestEvents(t *testing.T) {
	for events, want := range map[uint32]readiness{
		0: 0, unix.EPOLLIN: isReadable, unix.EPOLLOUT: isWritable, unix.EPOLLIN | unix.EPOLLOUT: isReadable | isWritable, unix.EPOLLRDHUP: isReadable | isHungUp,
		unix.EPOLLHUP: isReadable | isWritable | isHungUp | isClosed, unix.EPOLLERR: isReadable | isWritable | isHungUp | isClosed, unix.EPOLLPRI: 0,
	} {
		for _, id := range []uint64{0, 1, 1 << 31, 1<<32 - 1, 1 << 32, 7<<32 | 9, math.MaxUint64} {
			p := &poller{}
			p.events[3] = unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(id >> 32)}
			if gotID, got := p.event(3); gotID != id || got != want {
				t.Errorf("%x of %x: %x of %x, want %x", events, id, got, gotID, want)
			}
		}
	}
}

// TestWaits waits until the first timer, for an hour at most.
func TestWaits(t *testing.T) {
	g := &Group{base: time.Now().Add(-time.Minute)}
	if got := timers(nil).wait(g); got != -1 {
		t.Errorf("without a timer: %d ms", got)
	}
	for in, want := range map[time.Duration][2]int{-time.Hour: {0, 0}, time.Minute: {59_000, 60_000}, 24 * time.Hour: {3600_000, 3600_000}} {
		got := timers{{at: int64(time.Since(g.base) + in)}}.wait(g)
		if got < want[0] || got > want[1] {
			t.Errorf("in %v: %d ms", in, got)
		}
	}
	for at, want := range map[time.Time]int64{{}: 0, g.base: 1, g.base.Add(-time.Hour): 1, g.base.Add(5): 5} {
		if got := g.at(at); got != want {
			t.Errorf("%v: %d, want %d", at, got, want)
		}
	}
}
