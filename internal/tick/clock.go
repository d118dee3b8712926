package tick

import (
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the period of the process' clock: short enough to react to a throttle within a statement or
// two, long enough that the wake-ups are negligible.
const Interval = 250 * time.Millisecond

// A Tick is the time that a Clock wrote last, in nanoseconds since the clock's creation. Ticks only grow.
type Tick uint64

// Sub returns t - u, accurate to one interval.
func (t Tick) Sub(u Tick) time.Duration { return time.Duration(t - u) }

// A Clock writes the time into one word while it has holders. It is safe for concurrent use.
type Clock struct {
	now atomic.Uint64 // Tick
	_   [56]byte      // no other written value shares the word's cache line

	interval time.Duration
	origin   time.Time

	mu      sync.Mutex
	holders int           // under mu
	stop    chan struct{} // under mu; closed to stop the goroutine of the current holders
	ended   chan struct{} // under mu; closed when that goroutine has exited
}

// process is the one clock of the process: its throttles share one wake-up.
var process = New(Interval) //nolint:gochecknoglobals // the one that the architecture allows

// Process returns the clock shared by all throttles of a process.
func Process() *Clock { return process }

// New returns a clock that ticks every interval while it is held.
func New(interval time.Duration) *Clock {
	if interval <= 0 {
		panic("BUG: tick.New: interval is not positive")
	}
	c := &Clock{interval: interval, origin: time.Now()}
	c.now.Store(1)
	return c
}

// Now returns the time of the last tick. It costs one atomic read.
func (c *Clock) Now() Tick { return Tick(c.now.Load()) }

// Acquire keeps the clock ticking until release is called; calling release more than once has no further effect.
// Acquire itself writes a tick.
func (c *Clock) Acquire() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if c.holders++; c.holders == 1 {
		c.stop, c.ended = make(chan struct{}), make(chan struct{})
		go c.run(c.stop, c.ended)
	}
	return sync.OnceFunc(c.release)
}

func (c *Clock) release() {
	c.mu.Lock()
	var ended chan struct{}
	if c.holders--; c.holders == 0 {
		close(c.stop)
		ended = c.ended
	}
	c.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

func (c *Clock) run(stop, ended chan struct{}) {
	defer close(ended)
	t := time.NewTicker(c.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.advance()
		case <-stop:
			return
		}
	}
}

// advance writes the time. Each call writes a later Tick, even with a coarse system clock.
func (c *Clock) advance() {
	t := uint64(time.Since(c.origin))
	for {
		old := c.now.Load()
		if c.now.CompareAndSwap(old, max(t, old+1)) {
			return
		}
	}
}
