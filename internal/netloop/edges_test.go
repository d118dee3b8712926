package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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
		task.Yield()
		if task.spent != 0 {
			t.Errorf("%d spent in the next turn", task.spent)
		}
		for range 4 {
			if n, err := c.Write(make([]byte, 100)); n != 100 || err != nil {
				t.Errorf("%d bytes written: %v", n, err)
			}
		}
		if want := 4 * (operation + 100); task.spent != want {
			t.Errorf("%d spent by writes, want %d", task.spent, want)
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
		{"tcp", 11, false, false},
		{"tcp", 10, false, true},
		{"tcp", 9, false, true},
		{"tcp", 11, true, true},
		{"unix", 11, false, true},
		{"unix", 10, false, true},
		{"unix", 11, true, true},
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
		if len(self.loop.queue) != 0 || reader.state != waiting || len(self.loop.timers) != 0 {
			t.Errorf("%d tasks have their turn, %d wait for a time", len(self.loop.queue), len(self.loop.timers))
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

// TestEndsWithinLetter has tasks end by runtime.Goexit when they start, and after Block, Pause and a deadline, and a visit of Inspect panic: each
// happens once, and the loop delivers what follows.
func TestEndsWithinLetter(t *testing.T) {
	var panics atomic.Int32
	g, err := New(Options{Loops: 1, Panic: func(v any, _ []byte) {
		if v != "of a visit" {
			t.Errorf("panic: %v", v)
		}
		panics.Add(1)
	}})
	must(t, err)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	closeGroup(t, g)
	next := func(after string) {
		t.Helper()
		ran := make(chan struct{})
		must(t, g.Go(func(*Task) { close(ran) }, noHangup))
		testwait.Receive(t, "the next task after "+after, ran)
	}
	for name, end := range map[string]func(*Task){
		"start": func(*Task) {}, "Yield": (*Task).Yield, "Block": func(task *Task) { task.Block(func() {}) }, "Pause": func(task *Task) { go task.Wake(); task.Pause(time.Time{}) },
		"a time": func(task *Task) { task.Pause(time.Now().Add(time.Millisecond)) },
	} {
		var runs atomic.Int32
		ended := make(chan struct{})
		must(t, g.Go(func(task *Task) {
			defer func() {
				if runs.Add(1) == 1 {
					close(ended)
				}
			}()
			end(task)
			runtime.Goexit()
		}, noHangup))
		testwait.Receive(t, "the task", ended)
		next(name)
		next(name)
		if n := runs.Load(); n != 1 {
			t.Errorf("%s: the task ran %d times", name, n)
		}
	}
	paused := make(chan *Task, 1)
	must(t, g.Go(func(task *Task) { paused <- task; task.Pause(time.Time{}) }, noHangup))
	task := testwait.Receive(t, "the task", paused)
	visits := 0
	g.Inspect([]*Task{task, task}, func(int, Suspension) {
		visits++
		panic("of a visit")
	})
	next("Inspect")
	if visits != 1 || panics.Load() != 1 {
		t.Errorf("%d visits, %d panics are reported", visits, panics.Load())
	}
	task.Wake()
}

// TestNotWatched has a connection that the loop cannot watch: each call reports that and none waits.
func TestNotWatched(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, _ := pair(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		if err := c.takeOver(task); err != nil {
			t.Error(err)
			return
		}
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // epoll refuses files
		if err != nil {
			t.Error(err)
			return
		}
		if err := closeDescriptor(c.fd); err != nil {
			t.Error(err)
		}
		c.fd = int32(fd)
		task.loop.register(c)
		c.AwaitRead()
		if _, err := c.Read(make([]byte, 1)); err != unix.EPERM { //nolint:errorlint // the error itself
			t.Errorf("Read: %v", err)
		}
		if _, err := c.Write([]byte("x")); err != unix.EPERM { //nolint:errorlint // likewise
			t.Errorf("Write: %v", err)
		}
		if !c.Ready() || c.Silent() || c.WriteNow([]byte("x")) != 0 {
			t.Errorf("ready %t, silent %t", c.Ready(), c.Silent())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}, noHangup))
	testwait.Receive(t, "the task", done)
}

// A brokenConn has a descriptor that cannot be used.
type brokenConn struct {
	net.Conn
	raw syscall.RawConn
	err error
}

func (b *brokenConn) SyscallConn() (syscall.RawConn, error) { return b.raw, b.err }

// A badDescriptor is the descriptor -1.
type badDescriptor struct {
	syscall.RawConn
	err error
}

func (b badDescriptor) Control(f func(uintptr)) error {
	f(^uintptr(0))
	return b.err
}

// TestTakeDescriptorFails has connections without a descriptor, and connections whose descriptor is not available or cannot be duplicated: none is moved to a loop.
func TestTakeDescriptorFails(t *testing.T) {
	fails := errors.New("it fails")
	one, _ := net.Pipe()
	defer one.Close()
	for name, c := range map[string]struct {
		conn net.Conn
		want error
	}{
		"none":          {one, errNoDescriptor},
		"not to be had": {&brokenConn{Conn: one, err: fails}, fails},
		"no control":    {&brokenConn{Conn: one, raw: badDescriptor{err: fails}}, fails},
		"no duplicate":  {&brokenConn{Conn: one, raw: badDescriptor{}}, unix.EBADF},
	} {
		conn := NewConn(c.conn)
		if err := conn.takeOver(new(Task)); !errors.Is(err, c.want) || conn.task != nil || conn.inner == nil || conn.fd != -1 {
			t.Errorf("%s: %v, %+v", name, err, conn.task)
		}
	}
}

// TestDetachDescriptors counts descriptors: Detach and Attach leave none open, also if the connection cannot be returned to the runtime.
func TestDetachDescriptors(t *testing.T) {
	g := newGroup(t, 1)
	if g.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	c, _ := pair(t)
	lost, _ := pair(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	done := make(chan struct{})
	must(t, g.Go(func(task *Task) {
		defer close(done)
		socket, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", c.fd))
		if err != nil {
			t.Error(err)
			return
		}
		expect := func(file string, want int) {
			t.Helper()
			got := 0
			list, _ := os.ReadDir("/proc/self/fd")
			for _, e := range list {
				if is, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && is == file {
					got++
				}
			}
			if got != want {
				t.Errorf("%d descriptors of %s, want %d", got, file, want)
			}
		}
		for range 3 {
			if err := c.Detach(); err != nil {
				t.Error(err)
			}
			expect(socket, 1)
			if err := task.Attach(c); err != nil {
				t.Error(err)
			}
			expect(socket, 1)
		}
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // no socket
		if err != nil {
			t.Error(err)
			return
		}
		if err := closeDescriptor(lost.fd); err != nil {
			t.Error(err)
		}
		lost.fd = int32(fd)
		if err := lost.Detach(); err == nil || lost.inner != nil {
			t.Errorf("no socket: %v", err)
		}
		expect(f.Name(), 1)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		expect(socket, 0)
	}, noHangup, c, lost))
	testwait.Receive(t, "the task", done)
}
