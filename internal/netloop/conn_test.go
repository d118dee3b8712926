package netloop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestDetach moves a connection on a loop, back to the runtime's poller, and to a loop again.
func TestDetach(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			c, peer := pair(t)
			must(t, g.Go(func(task *Task) {
				defer c.Close()
				serve := func() {
					var b [1]byte
					if _, err := c.Read(b[:]); err != nil {
						t.Error(err)
					}
					if _, err := c.Write(b[:]); err != nil {
						t.Error(err)
					}
				}
				serve()
				if err := c.Detach(); err != nil {
					t.Error(err)
				}
				task.Block(serve)
				if err := task.Attach(c); err != nil {
					t.Error(err)
				}
				serve()
			}, noHangup, c))
			for range 3 {
				roundTrip(t, peer)
			}
		})
	}
}

// TestTLS wraps a connection in crypto/tls before a loop has it, and leaves whole records buffered in it
// while the descriptor is drained: one write of the peer is many records.
func TestTLS(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			c, peer := pair(t)
			server := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
			client := tls.Client(peer, &tls.Config{InsecureSkipVerify: true})
			shook := make(chan error, 1)
			go func() { shook <- server.Handshake() }()
			must(t, client.Handshake())
			must(t, testwait.Receive(t, "the handshake", shook))
			must(t, g.Go(func(*Task) {
				defer server.Close()
				buf := make([]byte, 1000)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					if _, err := server.Write(buf[:n]); err != nil {
						t.Error(err)
					}
				}
			}, noHangup, c))
			sent := bytes.Repeat([]byte("abcdefgh"), 20_000)
			got := make([]byte, len(sent))
			go func() { _, _ = client.Write(sent) }()
			must(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
			if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%v; the same bytes: %t", err, bytes.Equal(got, sent))
			}
			client.Close()
		})
	}
}

// TestNoDescriptor runs a task over a pipe as an ordinary goroutine.
func TestNoDescriptor(t *testing.T) {
	g := newGroup(t, 1)
	one, other := net.Pipe()
	c := NewConn(one)
	must(t, g.Go(func(task *Task) {
		defer c.Close()
		if _, onLoop := task.Loop(); onLoop {
			t.Error("a task over a pipe is on a loop")
		}
		_ = echo(c)
	}, noHangup, c))
	roundTrip(t, other)
	other.Close()
}

// TestClosedConn checks that a closed connection reports that, and that Go refuses it.
func TestClosedConn(t *testing.T) {
	g := newGroup(t, 1)
	c, _ := pair(t)
	open, peer := pair(t)
	must(t, c.Close())
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	if err := c.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDeadline: %v", err)
	}
	broken, _ := pair(t)
	must(t, broken.inner.Close())
	if err := g.Go(func(*Task) { t.Error("the task was started") }, noHangup, open, broken); err == nil {
		t.Error("Go started a task with a connection that is closed")
	}
	if _, err := open.Write([]byte("x")); err != nil { // Go returned it to the runtime
		t.Error(err)
	}
	var b [1]byte
	_, err := io.ReadFull(peer, b[:])
	must(t, err)
	open.Close()
}

// TestReset reports a reset by the peer as an error, to a read and to a write.
func TestReset(t *testing.T) {
	g := newGroup(t, 1)
	c, peer := pair(t)
	result := make(chan error, 2)
	must(t, g.Go(func(*Task) {
		defer c.Close()
		_, err := c.Read(make([]byte, 1))
		result <- err
		_, err = c.Write([]byte("x"))
		result <- err
	}, noHangup, c))
	must(t, peer.SetLinger(0))
	peer.Close()
	if err := testwait.Receive(t, "the read", result); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read: %v, want a reset", err)
	}
	if err := testwait.Receive(t, "the write", result); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Write: %v, want a broken pipe", err)
	}
}

// TestNothingLeaks starts and ends tasks: the numbers of goroutines, descriptors and slots are unchanged.
func TestNothingLeaks(t *testing.T) {
	g := newGroup(t, 2)
	run := func(n int) {
		for range n {
			c, peer := pair(t)
			must(t, g.Go(func(*Task) { _ = echo(c); c.Close() }, noHangup, c))
			roundTrip(t, peer)
			peer.Close()
		}
		testwait.Equal(t, "the tasks to end", 0, func() (n int64) {
			for _, l := range g.loops {
				n += l.tasks.Load()
			}
			return n
		})
	}
	run(10)
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	run(500)
	testwait.UntilState(t, "no more goroutines and descriptors than before", func() (string, bool) {
		n, f := runtime.NumGoroutine(), descriptors(t)
		return fmt.Sprintf("%d goroutines and %d descriptors, before: %d and %d", n, f, goroutines, files), n <= goroutines && f <= files
	})
	for i, l := range g.loops {
		if len(l.conns) > 11 {
			t.Errorf("loop %d has %d slots for one connection at a time", i, len(l.conns))
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
