package netloop

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testwait"
)

// TestPollWaits waits for an event that comes later, and for none.
func TestPollWaits(t *testing.T) {
	if !supported {
		t.Skip("no loops on this platform")
	}
	p := new(poller)
	must(t, p.open())
	defer p.close()
	for range 3 {
		wake := time.AfterFunc(10*time.Millisecond, p.wake)
		if n := p.wait(true, -1); n != 1 {
			t.Fatalf("%d events", n)
		}
		wake.Stop()
		if id, _ := p.event(0); id != wakeID {
			t.Errorf("the event of %d", id)
		}
		if n := p.wait(false, -1); n != 0 {
			t.Errorf("%d events without waiting", n)
		}
		if n := p.wait(true, 1); n != 0 {
			t.Errorf("%d events within the time", n)
		}
	}
}

// TestBudget spends the budget of a task in each way: others have their turn when it is spent, not before.
func TestBudget(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, peer := pair(t)
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		defer c.Close()
		for spend, want := range map[int]int{0: 0, 1: 1, budget - 1: budget - 1, budget: 0, budget + 1: 0} {
			task.spent = 0
			task.Spend(spend)
			if task.pace(); task.spent != want {
				t.Errorf("%d spent: %d after pace, want %d", spend, task.spent, want)
			}
		}
		for want := 0; want < budget; {
			task.Yield()
			if task.spent != 0 {
				t.Errorf("%d spent in the next turn", task.spent)
			}
			want = 4 * (operation + 100)
			for range 4 {
				if n, err := c.Write(make([]byte, 100)); n != 100 || err != nil {
					t.Errorf("%d bytes written: %v", n, err)
				}
			}
			if task.spent != want {
				t.Errorf("%d spent by writes, want %d", task.spent, want)
			}
			break
		}
		c.AwaitRead()
		task.spent = 0
		n, err := c.Read(make([]byte, 100))
		if err != nil || task.spent != n+operation {
			t.Errorf("%d spent by a read of %d bytes: %v", task.spent, n, err)
		}
		task.spent = budget
		if n, err := c.Read(nil); n != 0 || err != nil || task.spent != budget {
			t.Errorf("a read of nothing: %d, %v, %d spent", n, err, task.spent)
		}
	}, noHangup, c))
	_, err := peer.Write(make([]byte, 50))
	must(t, err)
	testwait.Receive(t, "the task", done)
	(*Task)(nil).Spend(1)
	(*Task)(nil).Yield()
}

// TestReadyAfterRead reads fewer bytes than there is room for, and as many: a TCP connection is ready again with the next bytes after a short
// read, unless the peer has hung up; others are ready until a read finds nothing.
func TestReadyAfterRead(t *testing.T) {
	for _, c := range []struct {
		network string
		room    int // for 10 bytes
		hungUp  bool
		want    bool
	}{
		{"tcp", 11, false, false}, {"tcp", 10, false, true}, {"tcp", 9, false, true}, {"tcp", 11, true, true},
		{"unix", 11, false, true}, {"unix", 10, false, true}, {"unix", 11, true, true},
	} {
		g := newGroup(t, 1)
		if g.Loops() == 0 {
			t.Skip("no loops on this platform")
		}
		nc, peer := pairOf(t, c.network)
		conn := NewConn(nc)
		_, err := peer.Write(make([]byte, 10))
		must(t, err)
		if c.hungUp {
			must(t, peer.(interface{ CloseWrite() error }).CloseWrite())
		}
		done := make(chan struct{})
		must(t, g.Go(func(*Task) {
			defer close(done)
			defer conn.Close()
			conn.AwaitRead()
			if n, err := conn.Read(make([]byte, c.room)); n != min(c.room, 10) || err != nil {
				t.Errorf("%+v: %d bytes, %v", c, n, err)
			}
			if got := conn.Ready(); got != c.want {
				t.Errorf("%+v: ready %t", c, got)
			}
		}, noHangup, conn))
		testwait.Receive(t, "the task", done)
	}
}

// TestAwaitReadDeadline waits for bytes until a deadline, which is past, set before and set by another goroutine.
func TestAwaitReadDeadline(t *testing.T) {
	g := newGroup(t, 1)
	c, _ := pair(t)
	waits, done := make(chan struct{}), make(chan struct{})
	expire := func() {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
	}
	must(t, g.Go(func(task *Task) {
		defer close(done)
		defer c.Close()
		for _, by := range []time.Time{time.Unix(1, 0), time.Now().Add(-time.Second), time.Now().Add(5 * time.Millisecond)} {
			_ = c.SetReadDeadline(by)
			c.AwaitRead()
			expire()
		}
		_ = c.SetDeadline(time.Time{})
		close(waits)
		c.AwaitRead()
		expire()
		// The deadlines are those of the loop.
		_ = c.SetDeadline(time.Unix(1, 0))
		if err := errors.Join(c.Detach(), task.Attach(c)); err != nil {
			t.Error(err)
		}
		if task.loop != nil && (c.readBy.Load() != 0 || c.writeBy.Load() != 0) {
			t.Error("a deadline is left")
		}
	}, noHangup, c))
	testwait.Receive(t, "the task to wait", waits)
	must(t, c.SetReadDeadline(time.Now()))
	testwait.Receive(t, "the task", done)
}

// TestOutside has a task call the methods of another one, which is suspended: each panics.
func TestOutside(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, _ := pair(t)
	other, _ := pair(t)
	suspended, done := make(chan *Task, 1), make(chan struct{})
	must(t, g.Go(func(task *Task) {
		suspended <- task
		task.Pause(time.Time{})
		c.Close()
	}, noHangup, c))
	task := testwait.Receive(t, "the other task", suspended)
	must(t, g.Go(func(self *Task) {
		defer close(done)
		for name, call := range map[string]func(){
			"Yield": task.Yield, "Pause": func() { task.Pause(time.Time{}) }, "Block": func() { task.Block(func() { t.Error("called") }) }, "Attach": func() { _ = task.Attach(other) },
			"Close": func() { _ = c.Close() }, "Detach": func() { _ = c.Detach() }, "Read": func() { _, _ = c.Read(make([]byte, 1)) },
			"Give": func() { self.Give(c, self) },
		} {
			func() {
				defer func() {
					if v := recover(); v == nil {
						t.Errorf("%s of another task", name)
					}
				}()
				call()
			}()
		}
		if c.task != task || task.state != waiting {
			t.Errorf("the other task is in state %d", task.state)
		}
		// Resume gives a task its turn once, and none to one that does not pause.
		for range 3 {
			task.Resume()
			self.Resume()
		}
		if n := len(self.loop.queue); n != 1 {
			t.Errorf("%d tasks have their turn", n)
		}
	}, noHangup))
	testwait.Receive(t, "the task", done)
	other.Close()
}

// TestResumeReader resumes a task that waits for a connection: it does not return from Read.
func TestResumeReader(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, peer := pair(t)
	var reader *Task
	read, done := make(chan error, 1), make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer c.Close()
		reader = task
		_, err := c.Read(make([]byte, 1))
		read <- err
	}, noHangup, c))
	must(t, g.Go(func(self *Task) {
		defer close(done)
		reader.Resume()
		if len(self.loop.queue) != 0 || reader.state != waiting {
			t.Errorf("%d tasks have their turn", len(self.loop.queue))
		}
	}, noHangup))
	testwait.Receive(t, "the task", done)
	_, err := peer.Write([]byte("x"))
	must(t, err)
	must(t, testwait.Receive(t, "the read", read))
}

// TestDetached leaves a loop: it has no events of the connection any more.
func TestDetached(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, peer := pair(t)
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		must(c.Detach())
		_, err := peer.Write([]byte("x"))
		must(err)
		_, err = c.Read(make([]byte, 1))
		must(err)
		for i := range task.loop.poll.wait(false, 0) {
			if id, is := task.loop.poll.event(i); id != wakeID {
				t.Errorf("an event %x of %d", is, id)
			}
		}
		if c.task != nil || c.Closed() || !c.Ready() || c.Silent() || c.WriteNow([]byte("x")) != 0 {
			t.Error("the connection is on a loop")
		}
		must(c.Close())
	}, noHangup, c))
	testwait.Receive(t, "the task", done)
}

// TestProcs has the number of threads for two of each loop and two more, and as many as before if these are more.
func TestProcs(t *testing.T) {
	if !supported {
		t.Skip("no loops on this platform")
	}
	before, started := runtime.GOMAXPROCS(0), CPUs()
	defer runtime.GOMAXPROCS(before)
	for loops, want := range map[int]int{0: 3, 1: 4, 3: 8} {
		runtime.GOMAXPROCS(3)
		g := newGroup(t, loops)
		if got := runtime.GOMAXPROCS(0); got != want || g.Loops() != loops || CPUs() != started {
			t.Errorf("%d loops: GOMAXPROCS %d, want %d", loops, got, want)
		}
	}
}

// TestTooFewDescriptors starts groups of three loops with too few file descriptors: none is left open, and nothing runs.
func TestTooFewDescriptors(t *testing.T) {
	if !supported {
		t.Skip("no loops on this platform")
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	restore := func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }
	defer restore()
	f, err := os.Open("/dev/null") // the next descriptors are those after it, if there is no gap
	must(t, err)
	next := uint64(f.Fd())
	defer f.Close()
	open := descriptors(t)
	failures := make(map[string]int)
	for free := range uint64(64) {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: next + 1 + free, Max: limit.Max}))
		g, err := New(Options{Loops: 3})
		restore()
		if err == nil {
			if g.Loops() != 3 {
				t.Errorf("%d loops", g.Loops())
			}
			g.Close()
			break
		}
		failures[strings.SplitAfter(err.Error(), "instance: ")[0]]++
		if !errors.Is(err, unix.EMFILE) || g != nil {
			t.Fatalf("%d descriptors: %v", free, err)
		}
		if got := descriptors(t); got != open {
			t.Fatalf("%d descriptors: %d are open after the error %v, %d before", free, got, err, open)
		}
	}
	if len(failures) != 2 || failures["start an event loop: create an epoll instance: "] < 3 {
		t.Errorf("failures for each descriptor: %v", failures)
	}
}

// TestGoAmongFails starts tasks with connections that cannot be watched: no loop has one more, and the connections are as before.
func TestGoAmongFails(t *testing.T) {
	g := newGroup(t, 3)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	one, _ := net.Pipe()
	pipe := NewConn(one)
	fine, peer := pair(t)
	closed, _ := pair(t)
	must(t, closed.inner.Close())
	body := func(*Task) { t.Error("the task was started") }
	if err := g.GoAmong(1, 2, body, noHangup, fine, pipe); !errors.Is(err, errNoDescriptor) {
		t.Errorf("a pipe: %v", err)
	}
	if err := g.GoAmong(1, 2, body, noHangup, fine, closed); err == nil {
		t.Error("a closed connection")
	}
	if err := g.start(&Task{loop: g.placeAmong(g.loops), body: body}, []*Conn{fine, closed}); err == nil {
		t.Error("a connection that is closed in the meantime")
	}
	for i, l := range g.loops {
		if n := l.tasks.Load(); n != 0 {
			t.Errorf("loop %d has %d tasks", i, n)
		}
	}
	if fine.task != nil || fine.Closed() {
		t.Error("the connection is on a loop")
	}
	_, err := fine.Write([]byte("x"))
	must(t, err)
	if _, err := peer.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	counts := make(map[int]int)
	for range 4 {
		c, peer := pair(t)
		on := make(chan int, 1)
		must(t, g.GoAmong(1, 2, func(task *Task) {
			n, _ := task.Loop()
			on <- n
			_ = echo(c)
			c.Close()
		}, noHangup, c))
		counts[testwait.Receive(t, "the task", on)]++
		t.Cleanup(func() { peer.Close() })
	}
	if counts[1] != 2 || counts[2] != 2 {
		t.Errorf("four tasks on loops 1 and 2: %v", counts)
	}
	fine.Close()
	pipe.Close()
}
