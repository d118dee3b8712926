package netloop

import (
	"iter"
	"runtime/debug"
	"sync"
)

const (
	// budget is the work of a task before others get their turn: the bytes of its reads and writes, and
	// operation for each call.
	budget = 256 << 10

	// operation is charged to the budget for each read or write, besides its bytes.
	operation = 4 << 10
)

// state is the scheduling state of a task.
type state uint8

const (
	running state = iota
	waiting       // for a connection
	queued        // for its turn in the queue
	blocked       // for the function of Block
	ended
)

// A Task is a function that a loop runs, or an ordinary goroutine if there is no loop for it. Only the
// function itself may call its methods. A nil *Task has no loop.
type Task struct {
	loop *loop      // nil: the task is an ordinary goroutine
	mu   sync.Mutex // without a loop: locked while the task is not suspended
	body func(*Task)
	hung func(*Conn)

	next  func() (struct{}, bool)
	yield func(struct{}) bool

	state   state
	waitFor readiness
	waits   *Conn
	spent   int   // of the budget, since it was resumed
	armed   int64 // the earliest of the task's timers; 0: it has none
	failure *Panic
}

// A Panic is the value of a panic, or of runtime.Goexit, in the function of Block, raised again in the task.
type Panic struct {
	Value any
	Stack []byte
}

// main is the coroutine of a task.
func (t *Task) main(yield func(struct{}) bool) {
	t.yield = yield
	defer func() {
		if v := recover(); v != nil {
			t.loop.group.panicked(v, debug.Stack())
		}
	}()
	t.body(t)
}

// start creates the coroutine. stop is not required: a coroutine always runs to its end.
func (t *Task) start() { t.next, _ = iter.Pull(t.main) }

// suspend returns to the loop until it resumes the task.
func (t *Task) suspend() {
	if !t.yield(struct{}{}) {
		panic("BUG: a task was stopped")
	}
}

// await suspends the task until c is ready or another goroutine wakes it.
func (t *Task) await(c *Conn, is readiness, by int64) {
	t.check()
	if by != 0 {
		t.loop.arm(t, by)
	}
	t.waits, t.waitFor, t.state = c, is, waiting
	t.suspend()
	t.waits = nil
}

// pace lets other tasks run if this one has spent its budget.
func (t *Task) pace() {
	if t.spent >= budget {
		t.Yield()
	}
}

// Spend charges other work of the task than reads and writes, in bytes of the budget: the next Read or Write
// lets other tasks run if it is spent. It does not allocate.
func (t *Task) Spend(n int) {
	if t != nil {
		t.spent += n
	}
}

// Yield lets other tasks of the loop run. Read and Write do so when the task has spent its budget; a function
// that works for long between them calls Yield.
func (t *Task) Yield() {
	if t == nil || t.loop == nil {
		return
	}
	t.check()
	t.state = queued
	t.loop.queue = append(t.loop.queue, t)
	t.suspend()
}

// Block runs f on an ordinary goroutine and suspends the task until f returns: f may wait for things other
// than the task's connections, and use a deep stack. It must not use connections of the task that are on the
// loop. A panic in f is raised again in the task, with a *Panic as its value.
func (t *Task) Block(f func()) {
	if t == nil {
		f()
		return
	}
	if t.loop == nil {
		t.blockGoroutine(f)
		return
	}
	t.check()
	t.state = blocked
	go t.work(f)
	t.suspend()
	if p := t.failure; p != nil {
		t.failure = nil
		panic(p)
	}
}

func (t *Task) work(f func()) {
	returned := false
	defer func() {
		if v := recover(); !returned {
			t.failure = &Panic{Value: v, Stack: debug.Stack()}
		}
		t.loop.post(t, unblockTask)
	}()
	f()
	returned = true
}

// Attach moves a connection to the task's loop.
func (t *Task) Attach(c *Conn) error {
	if t == nil || t.loop == nil {
		c.owner = t
		return nil
	}
	t.check()
	if err := c.takeOver(t); err != nil {
		return err
	}
	t.loop.register(c)
	return nil
}

// Loop returns the number of the loop that runs the task, from 0 to one less than Group.Loops, and false
// for a task without a loop. Tasks of one loop run one at a time: data that only they use needs no lock.
func (t *Task) Loop() (number int, ok bool) {
	if t == nil || t.loop == nil {
		return 0, false
	}
	return t.loop.number, true
}

// check panics if a task is used from outside.
func (t *Task) check() {
	if t.state != running {
		panic("BUG: a task or its connection is used while the task is suspended")
	}
}
