package netloop

import (
	"io"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestGive passes a connection between two tasks of a loop, which wait for each other.
func TestGive(t *testing.T) {
	g := newGroup(t, 2)
	c, peer := pair(t)
	var keeper, user *Task
	hungUp := make(chan string, 2)
	done := make(chan struct{})
	kept := make(chan struct{})
	must(t, g.GoAmong(1, 1, func(task *Task) {
		keeper = task
		close(kept)
		for user == nil {
			task.Pause(time.Time{})
		}
		task.Give(c, user)
		user.Resume()
		task.Pause(time.Now().Add(time.Hour)) // until Wake
	}, func(*Conn) { hungUp <- "keeper" }, c))
	testwait.Receive(t, "the keeper", kept)
	must(t, g.GoAmong(1, 1, func(task *Task) {
		defer close(done)
		if n, _ := task.Loop(); n != 1 {
			t.Errorf("loop %d", n)
		}
		user = task
		keeper.Resume()
		task.Pause(time.Time{})
		if !c.Silent() {
			t.Error("a connection without bytes is not silent")
		}
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		for c.Silent() {
			task.Yield()
		}
		var b [4]byte
		if n, err := c.Read(b[:]); n != 1 || err != nil {
			t.Errorf("read %d bytes: %v", n, err)
		}
		if err := peer.CloseWrite(); err != nil {
			t.Error(err)
		}
		c.AwaitRead()
		if c.Silent() {
			t.Error("a closed connection is silent")
		}
		start := time.Now()
		for until := start.Add(10 * time.Millisecond); time.Now().Before(until); {
			task.Pause(until)
		}
		keeper.Wake()
		c.Close()
	}, func(*Conn) { hungUp <- "user" }))
	testwait.Receive(t, "the task", done)
	if who := testwait.Receive(t, "a hang-up", hungUp); who != "user" {
		t.Errorf("%s was notified of the hang-up", who)
	}
}

// TestWriteNow has another task than the connection's write until the socket takes no more: the peer reads what was reported as written.
func TestWriteNow(t *testing.T) {
	g := newGroup(t, 1)
	c, peer := pair(t)
	holds, done := make(chan struct{}), make(chan int)
	must(t, g.GoAmong(0, 1, func(task *Task) {
		close(holds)
		task.Pause(time.Time{})
		c.Close()
	}, func(*Conn) {}, c))
	testwait.Receive(t, "the holder", holds)
	must(t, g.GoAmong(0, 1, func(task *Task) {
		text := make([]byte, 1<<20)
		for i := range text {
			text[i] = byte(i % 251)
		}
		sum := 0
		for range 100 { // until the socket's buffers are full
			n := c.WriteNow(text[sum%251:])
			sum += n
			if n < len(text)-251 {
				break
			}
		}
		if c.WriteNow(text) != 0 {
			t.Error("a full socket takes more")
		}
		c.task.Wake()
		done <- sum
	}, func(*Conn) {}))
	want := testwait.Receive(t, "the writer", done)
	if want == 0 || want >= 100<<20 {
		t.Fatalf("%d bytes were written", want)
	}
	got, err := io.ReadAll(peer)
	must(t, err)
	if len(got) != want {
		t.Errorf("the peer has read %d bytes, want %d", len(got), want)
	}
	for i, b := range got {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}
