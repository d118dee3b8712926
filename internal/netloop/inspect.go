package netloop

import "slices"

// inspectBatch is the number of tasks that a loop inspects between two of its turns.
const inspectBatch = 64

// A Suspension is the state in which Inspect finds a task.
type Suspension struct {
	Conn    *Conn // the task waits for this connection to be ready; nil: for its turn, or the function of Block
	Write   bool  // the connection is not writable
	Blocked bool  // the function of Block is running; it may be using what the task owns
}

// Inspect calls visit for each task that has not ended, with its index, while the task is suspended: by its loop, between
// two turns, so that visit may use what the task owns, and by the caller for a task without a loop. The calls are not
// concurrent. They must not block, and must not use the task or its connections, except to set deadlines. A loop is
// occupied by few tasks at a time. A panic of visit is reported as that of a task. Tasks must not call Inspect.
func (g *Group) Inspect(tasks []*Task, visit func(i int, s Suspension)) {
	byLoop := make(map[*loop][]int)
	for i, t := range tasks {
		if t.loop == nil {
			t.inspectGoroutine(i, visit)
			continue
		}
		byLoop[t.loop] = append(byLoop[t.loop], i)
	}
	for l, list := range byLoop {
		for part := range slices.Chunk(list, inspectBatch) {
			l.inspect(tasks, part, visit)
		}
	}
}

// inspect has the loop visit some of the tasks, and waits for it.
func (l *loop) inspect(tasks []*Task, list []int, visit func(int, Suspension)) {
	done := make(chan struct{})
	m := letter{what: inspectTasks, inspect: func() {
		defer close(done)
		for _, i := range list {
			if t := tasks[i]; t.state != ended && t.next != nil {
				visit(i, t.suspension())
			}
		}
	}}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.inbox = append(l.inbox, m)
	if !l.posted.Swap(true) {
		l.poll.wake()
	}
	l.mu.Unlock()
	select {
	case <-done:
	case <-l.stopped: // all tasks have ended
	}
}

func (t *Task) inspectGoroutine(i int, visit func(int, Suspension)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running && t.state != ended { // running: it has not started
		visit(i, t.suspension())
	}
}

func (t *Task) suspension() Suspension {
	s := Suspension{Blocked: t.state == blocked}
	if t.state == waiting {
		s.Conn, s.Write = t.waits, t.waitFor&isReadable == 0
	}
	return s
}

// runGoroutine runs a task without a loop. It has its lock, except while it is suspended.
func (t *Task) runGoroutine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.state = ended }()
	t.body(t)
}

// release marks a task without a loop as suspended. It reports whether regain has to follow: it is false within Block, and
// for a connection that is not a task's.
func (t *Task) release(c *Conn, is readiness) bool {
	if t == nil || t.state != running {
		return false
	}
	t.waits, t.waitFor, t.state = c, is, waiting
	t.mu.Unlock()
	return true
}

func (t *Task) regain() {
	t.mu.Lock()
	t.state, t.waits = running, nil
}

// blockGoroutine is Block for a task without a loop.
func (t *Task) blockGoroutine(f func()) {
	if t.state != running {
		f()
		return
	}
	t.state = blocked
	t.mu.Unlock()
	defer t.regain()
	f()
}
