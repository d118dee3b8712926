package netloop

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// kinds are a group with loops and one without: both have the same contract.
var kinds = map[string]int{"loops": 2, "goroutines": 0}

// echo returns each byte until the peer closes.
func echo(c *Conn) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := c.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// TestEcho runs tasks that respond to many peers concurrently, with writes of all sizes.
func TestEcho(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			var peers sync.WaitGroup
			for i := range 20 {
				c, peer := pair(t)
				must(t, g.Go(func(*Task) {
					defer c.Close()
					if err := echo(c); err != nil {
						t.Error(err)
					}
				}, noHangup, c))
				peers.Go(func() {
					for n := range 200 {
						sent := bytes.Repeat([]byte{byte(n), byte(i)}, 1+n*37)
						if _, err := peer.Write(sent); err != nil {
							t.Error(err)
							return
						}
						got := make([]byte, len(sent))
						if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, sent) {
							t.Errorf("peer %d, message %d: %v, the same bytes: %t", i, n, err, bytes.Equal(got, sent))
							return
						}
					}
					peer.Close()
				})
			}
			testwait.Group(t, "the peers", &peers)
		})
	}
}

// TestTasksAreSpread starts tasks whose number differs by one at most between the loops.
func TestTasksAreSpread(t *testing.T) {
	g := newGroup(t, 3)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	for range 8 {
		c, peer := pair(t)
		must(t, g.Go(func(*Task) { _ = echo(c); c.Close() }, noHangup, c))
		t.Cleanup(func() { peer.Close() })
	}
	for i, l := range g.loops {
		if n := l.tasks.Load(); n < 2 || n > 3 {
			t.Errorf("loop %d has %d tasks of 8", i, n)
		}
	}
}

// TestBackpressure has a task write more than a socket holds to a peer that reads late: others run in
// the meantime, and all bytes arrive.
func TestBackpressure(t *testing.T) {
	const size = 32 << 20
	g := newGroup(t, 1)
	full, slow := pair(t)
	other, peer := pair(t)
	must(t, g.Go(func(*Task) {
		defer full.Close()
		if n, err := full.Write(make([]byte, size)); n != size || err != nil {
			t.Errorf("%d bytes were written: %v", n, err)
		}
	}, noHangup, full))
	must(t, g.Go(func(*Task) { _ = echo(other); other.Close() }, noHangup, other))
	for range 10 {
		roundTrip(t, peer)
	}
	peer.Close()
	if n, err := io.Copy(io.Discard, slow); n != size || err != nil {
		t.Errorf("%d bytes arrived: %v", n, err)
	}
}

func roundTrip(t *testing.T, peer net.Conn) {
	t.Helper()
	must(t, peer.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := io.ReadFull(peer, b[:]); err != nil || b[0] != 'x' {
		t.Fatalf("got %q, %v", b, err)
	}
}

// TestHangUpBehindData sends data and closes immediately: the task reads all data, then the end, and the
// hang-up is reported once. The FIN is in the same event as the data.
func TestHangUpBehindData(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			for size := 1; size <= 1<<18; size *= 8 {
				c, peer := pair(t)
				sent := bytes.Repeat([]byte("x"), size)
				_, err := peer.Write(sent)
				must(t, err)
				peer.Close()
				var hangups atomic.Int32
				read := make(chan []byte, 1)
				must(t, g.Go(func(*Task) {
					defer c.Close()
					got, err := io.ReadAll(c)
					if err != nil {
						t.Error(err)
					}
					read <- got
				}, func(of *Conn) {
					if of != c {
						t.Error("another connection's hang-up")
					}
					hangups.Add(1)
				}, c))
				if got := testwait.Receive(t, "the data", read); !bytes.Equal(got, sent) {
					t.Errorf("%d bytes of %d were read", len(got), size)
				}
				if n := hangups.Load(); loops > 0 && n != 1 {
					t.Errorf("%d hang-ups were reported", n)
				}
			}
		})
	}
}

// TestHangUpWakesReader has a callback wake a task that waits for another connection, like a session whose
// client disconnects during a statement.
func TestHangUpWakesReader(t *testing.T) {
	g := newGroup(t, 1)
	client, clientPeer := pair(t)
	server, _ := pair(t)
	read := make(chan error, 1)
	must(t, g.Go(func(*Task) {
		defer client.Close()
		defer server.Close()
		_, err := server.Read(make([]byte, 1))
		read <- err
	}, func(c *Conn) {
		if c == client {
			_ = server.SetReadDeadline(time.Unix(1, 0))
		}
	}, client, server))
	clientPeer.Close()
	if err := testwait.Receive(t, "the read to return", read); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the read returned %v", err)
	}
}

// TestDeadlines checks that reads and writes wait until their deadline, that a deadline set by another
// goroutine takes effect, and that a removed one does not.
func TestDeadlines(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, loops)
			c, peer := pair(t)
			results := make(chan error)
			must(t, g.Go(func(task *Task) {
				defer c.Close()
				var b [1]byte
				report := func(err error) { task.Block(func() { results <- err }) }
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				_, err := c.Read(b[:])
				report(err)
				_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
				_, err = c.Write(make([]byte, 64<<20))
				report(err)
				_ = c.SetDeadline(time.Time{})
				report(nil)
				_, err = c.Read(b[:]) // the peer's goroutine interrupts it
				report(err)
				_, err = c.Read(b[:]) // the deadline is still set
				report(err)
				_ = c.SetDeadline(time.Now().Add(time.Hour))
				_, err = c.Read(b[:])
				report(err)
			}, noHangup, c))
			next := func(what string) error { return testwait.Receive(t, what, results) }
			for _, what := range []string{"the read to time out", "the write to time out"} {
				if err := next(what); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
			}
			must(t, next("the deadlines to be off"))
			must(t, c.SetReadDeadline(time.Unix(1, 0)))
			for range 2 {
				if err := next("the interrupted read"); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the interrupted read: %v", err)
				}
			}
			_, err := peer.Write([]byte("x"))
			must(t, err)
			if err := next("a read after that"); err != nil {
				t.Errorf("a read before its deadline: %v", err)
			}
		})
	}
}

// TestBlock checks that other tasks of the loop run while a function of Block does, and that the
// function's panics and calls of runtime.Goexit reach the task.
func TestBlock(t *testing.T) {
	for name, loops := range kinds {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, min(loops, 1))
			c, peer := pair(t)
			other, otherPeer := pair(t)
			release, done := make(chan struct{}), make(chan any)
			must(t, g.Go(func(task *Task) {
				defer c.Close()
				task.Block(func() { <-release })
				if err := echo(c); err != nil {
					t.Error(err)
				}
				if _, onLoop := task.Loop(); !onLoop {
					close(done)
					return
				}
				for _, f := range []func(){func() { panic("a worker's") }, func() { runtime.Goexit() }} {
					func() {
						defer func() {
							v := recover()
							task.Block(func() { done <- v })
						}()
						task.Block(f)
					}()
				}
				close(done)
			}, noHangup, c))
			must(t, g.Go(func(*Task) { _ = echo(other); other.Close() }, noHangup, other))
			roundTrip(t, otherPeer)
			otherPeer.Close()
			close(release)
			roundTrip(t, peer)
			peer.Close()
			if loops == 0 {
				testwait.Receive(t, "the task to end", done)
				return
			}
			p, ok := testwait.Receive(t, "the panic", done).(*Panic)
			if !ok || p.Value != "a worker's" || !strings.Contains(string(p.Stack), "netloop_test.go") {
				t.Errorf("recovered %v", p)
			}
			if p, ok := testwait.Receive(t, "the Goexit", done).(*Panic); !ok || p.Value != nil {
				t.Errorf("recovered %v after runtime.Goexit", p)
			}
			testwait.Receive(t, "the task to end", done)
		})
	}
}

// TestPanicEndsOneTask checks that a panic or runtime.Goexit ends only its task: other tasks of the loop
// keep running, and receive all events of that turn.
func TestPanicEndsOneTask(t *testing.T) {
	var panics atomic.Int32
	g, err := New(Options{Loops: 1, Panic: func(v any, stack []byte) {
		if v != "a task's" && v != "a callback's" || !strings.Contains(string(stack), "netloop_test.go") {
			t.Errorf("panic %v reported with the stack %s", v, stack)
		}
		panics.Add(1)
	}})
	must(t, err)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	closeGroup(t, g)
	var peers []*net.TCPConn
	for range 5 {
		c, peer := pair(t)
		must(t, g.Go(func(*Task) { _ = echo(c); c.Close() }, noHangup, c))
		peers = append(peers, peer)
	}
	for _, bad := range []func(){func() { panic("a task's") }, runtime.Goexit, func() {}} {
		c, peer := pair(t)
		must(t, g.Go(func(*Task) {
			defer c.Close()
			_, _ = c.Read(make([]byte, 1))
			bad()
		}, func(*Conn) { panic("a callback's") }, c))
		_, err := peer.Write([]byte("x"))
		must(t, err)
		for _, p := range peers {
			roundTrip(t, p)
		}
	}
	c, peer := pair(t)
	must(t, g.Go(func(*Task) { _ = echo(c); c.Close() }, func(*Conn) { panic("a callback's") }, c))
	peer.Close() // a panic of the loop: the task still sees the end of its connection
	testwait.Equal(t, "both panics to be reported", 2, panics.Load)
	for _, p := range peers {
		roundTrip(t, p)
		p.Close()
	}
}

// TestWorkIsBounded streams through one task while another task of the loop takes its turns: between two of
// them the first moves at most its budget and one more operation.
func TestWorkIsBounded(t *testing.T) {
	const turns = 2000
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	stream, source := pair(t)
	sink, drain := pair(t)
	var moved int // by the loop
	must(t, g.Go(func(*Task) {
		defer stream.Close()
		defer sink.Close()
		buf := make([]byte, 1<<20)
		for {
			n, err := stream.Read(buf)
			if err != nil {
				return
			}
			moved += n
			if _, err := sink.Write(buf[:n]); err != nil {
				return
			}
			moved += n
		}
	}, noHangup, stream, sink))
	most := make(chan int, 1)
	must(t, g.Go(func(task *Task) {
		longest, last, seen := 0, moved, 0
		for seen < turns {
			task.Yield()
			longest = max(longest, moved-last)
			if moved > last {
				seen++
			}
			last = moved
		}
		most <- longest
	}, noHangup))
	go func() { _, _ = io.Copy(io.Discard, drain) }()
	stop := make(chan struct{})
	go func() {
		defer source.Close()
		b := make([]byte, 1<<20)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = source.Write(b)
			}
		}
	}()
	if n := testwait.Receive(t, "the turns", most); n > 3*budget {
		t.Errorf("a task moved %d bytes in one turn, want at most %d", n, 3*budget)
	}
	close(stop)
}

// TestReusedSlot delivers an event of a closed connection to the loop after its slot was reused: the new
// connection does not receive it.
func TestReusedSlot(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	first, _ := pair(t)
	second, peer := pair(t)
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		l := task.loop
		old := uint64(first.slot) | uint64(l.gens[first.slot])<<32
		slot := first.slot
		first.Close()
		must(t, task.Attach(second))
		defer second.Close()
		if second.slot != slot {
			t.Errorf("slot %d was not used again", slot)
		}
		l.handle(old, isReadable|isHungUp)
		if second.ready&(isReadable|isHungUp) != 0 {
			t.Error("a connection has the event of another one")
		}
		now := uint64(second.slot) | uint64(l.gens[second.slot])<<32
		l.handle(now, isReadable)
		if second.ready&isReadable == 0 {
			t.Error("a connection does not have its own event")
		}
	}, noHangup, first))
	testwait.Receive(t, "the task", done)
	peer.Close()
}
