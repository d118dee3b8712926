package netloop

import (
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
