package netloop

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A loop runs tasks, one at a time. Only its goroutine uses the fields, except the inbox.
type loop struct {
	group  *Group
	number int
	poll   poller
	tasks  atomic.Int64

	conns []*Conn  // by slot; nil: the slot is free
	gens  []uint32 // by slot: number of times it was freed
	free  []uint32 // slots

	queue  []*Task // tasks that have spent their budget
	timers timers
	peeked [1]byte // of Conn.Silent

	// State of the turn. It survives a panic in a task, after which the turn is resumed.
	events, event int
	letters       []letter
	letter        int
	turns         int // tasks of queue to resume
	warmed        int // result of warm
	current       *Task
	breathed      int64 // time of the last call of the scheduler
	stopping      bool
	stopped       chan struct{}

	mu     sync.Mutex
	inbox  []letter // guarded by mu, as closed
	closed bool     // the poller is closed
	posted atomic.Bool
}

// A letter is a message from another goroutine.
type letter struct {
	task  *Task
	conns []*Conn // for startTask
	what  order

	inspect func() // for inspectTasks
}

type order uint8

const (
	startTask   order = iota
	wakeTask          // a deadline was set
	unblockTask       // the function of Block has returned
	stopLoop
	inspectTasks
)

func (l *loop) post(t *Task, what order) { l.send(letter{task: t, what: what}) }

func (l *loop) send(m letter) {
	l.mu.Lock()
	l.inbox = append(l.inbox, m)
	l.mu.Unlock()
	if !l.posted.Swap(true) {
		l.poll.wake()
	}
}

// run runs tasks until it is stopped.
func (l *loop) run() {
	defer l.exit()
	for {
		for ; l.event < l.events; l.event++ {
			l.handle(l.poll.event(l.event))
		}
		if l.posted.Load() {
			l.collect()
		}
		for ; l.letter < len(l.letters); l.letter++ {
			l.deliver(&l.letters[l.letter])
		}
		if l.stopping {
			return
		}
		for l.turns = len(l.queue); l.turns > 0; {
			l.turns--
			t := l.queue[0]
			l.queue = l.queue[:copy(l.queue, l.queue[1:])]
			l.resume(t)
		}
		l.expire()
		l.breathe()
		l.events, l.event = l.poll.wait(len(l.queue) == 0 && !l.posted.Load(), l.timers.wait(l.group)), 0
		l.warmed = l.warm()
	}
}

// warm reads the connections and tasks of the turn's events. Where there are many, they are in no cache of the CPU, which
// fetches them here all at once; in handle each would be waited for. The result keeps the compiler from omitting the
// reads.
func (l *loop) warm() (n int) {
	for i := range l.events {
		id, _ := l.poll.event(i)
		if c := l.conns[uint32(id)]; c != nil {
			n += int(c.ready) + int(c.task.state)
		}
	}
	return n
}

// breatheEvery is the interval at which a busy loop calls the scheduler.
const breatheEvery = int64(5 * time.Millisecond)

// breathe shows the scheduler that the loop's CPU is not stuck. A loop that waits by raw system calls never
// returns to the scheduler, which considers a P stuck after 10 ms and then retakes it at each of these calls,
// by a thread that checks every 20 µs.
func (l *loop) breathe() {
	if now := l.group.now(); now-l.breathed >= breatheEvery {
		l.breathed = now
		runtime.Gosched()
	}
}

// exit runs at the end of run. runtime.Goexit in a task ends the loop's goroutine too: another one continues
// the turn.
func (l *loop) exit() {
	if l.stopping {
		close(l.stopped)
		return
	}
	if v := recover(); v != nil {
		l.group.panicked(v, debug.Stack())
	}
	if t := l.current; t != nil {
		l.finish(t)
	}
	if l.event < l.events {
		l.event++
	} else if l.letter < len(l.letters) {
		l.letter++
	}
	go l.run()
}

// handle handles an event of a connection.
func (l *loop) handle(id uint64, is readiness) {
	slot := uint32(id)
	if id == wakeID || l.gens[slot] != uint32(id>>32) {
		return // the inbox is checked anyway; or the slot has another connection now
	}
	c := l.conns[slot]
	if c == nil {
		return
	}
	first := is&^c.ready&(isHungUp|isClosed) != 0
	c.ready |= is
	t := c.task
	if first && t.hung != nil {
		l.hangUp(t, c)
	}
	if t.state == waiting && t.waits == c && t.waitFor&is != 0 {
		l.resume(t)
	}
}

// hangUp reports a hang-up. A panic of the callback does not end the task.
func (l *loop) hangUp(t *Task, c *Conn) {
	defer func() {
		if v := recover(); v != nil {
			l.group.panicked(v, debug.Stack())
		}
	}()
	t.hung(c)
}

func (l *loop) resume(t *Task) {
	t.state, t.spent = running, 0
	l.current = t
	_, alive := t.next()
	l.current = nil
	if !alive {
		l.finish(t)
	}
}

func (l *loop) finish(t *Task) {
	t.state = ended
	l.current = nil
	l.tasks.Add(-1)
	l.group.tasks.Done()
}

// collect empties the inbox.
func (l *loop) collect() {
	l.posted.Store(false)
	clear(l.letters)
	l.mu.Lock()
	l.letters, l.inbox = l.inbox, l.letters[:0]
	l.mu.Unlock()
	l.letter = 0
}

func (l *loop) deliver(m *letter) {
	t := m.task
	switch m.what {
	case startTask:
		for _, c := range m.conns {
			l.register(c)
		}
		t.start()
		l.resume(t)
	case wakeTask:
		if t.state == waiting {
			l.resume(t)
		}
	case unblockTask:
		l.resume(t)
	case stopLoop:
		l.stopping = true
	case inspectTasks:
		m.inspect()
	}
}

// register gives a connection a slot and has its events reported.
func (l *loop) register(c *Conn) {
	if n := len(l.free); n > 0 {
		c.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		c.slot = uint32(len(l.conns))
		l.conns, l.gens = append(l.conns, nil), append(l.gens, 0)
	}
	l.conns[c.slot] = c
	if err := l.poll.add(c.fd, uint64(c.slot)|uint64(l.gens[c.slot])<<32); err != nil {
		c.err = err
		c.ready |= isReadable | isWritable // the next call reports the error
	}
}

// removeConn frees a connection's slot. Pending events carry an earlier generation.
func (l *loop) removeConn(c *Conn) {
	l.conns[c.slot] = nil
	l.gens[c.slot]++
	l.free = append(l.free, c.slot)
}

// arm sets a timer that wakes t at a time.
func (l *loop) arm(t *Task, at int64) {
	if t.armed != 0 && t.armed <= at {
		return
	}
	t.armed = at
	l.timers.add(timer{at, t})
}

// expire wakes the tasks whose timers have expired.
func (l *loop) expire() {
	if len(l.timers) == 0 {
		return
	}
	now := l.group.now()
	for len(l.timers) > 0 && l.timers[0].at <= now {
		t := l.timers.pop()
		if t.armed == 0 {
			continue
		}
		t.armed = 0
		if t.state == waiting {
			l.resume(t)
		}
	}
}

// panicked reports a panic that no task has recovered.
func (g *Group) panicked(v any, stack []byte) {
	if g.onPanic != nil {
		g.onPanic(v, stack)
	}
}

// now returns the time since the group's start in nanoseconds.
func (g *Group) now() int64 { return int64(time.Since(g.base)) }

// at returns t on the scale of now; 0 for the zero time.
func (g *Group) at(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(int64(t.Sub(g.base)), 1)
}
