package tick

import (
	"sync"
	"sync/atomic"
	"time"
)

// Interval is how often the process' clock ticks: often enough to react to a throttle
// within a statement or two, seldom enough that the wake-ups do not show.
const Interval = 250 * time.Millisecond

// A Tick is the time that a Clock last wrote, as nanoseconds since the clock was made.
// Ticks only grow.
type Tick uint64

// Sub is how much later t is than u, to within one interval.
func (t Tick) Sub(u Tick) time.Duration { return time.Duration(t - u) }

// A Clock writes the time into one word while somebody holds it. It is safe for concurrent
// use.
type Clock struct {
	now atomic.Uint64 // Tick
	_   [56]byte      // nothing else that is written shares the word's cache line

	interval time.Duration
	origin   time.Time

	mu      sync.Mutex
	holders int           // under mu
	stop    chan struct{} // under mu; closed to end the goroutine of the present holders
	ended   chan struct{} // under mu; closed when that goroutine has ended
}

// process is the one clock of the process: what many throttles share is one wake-up.
var process = New(Interval) //nolint:gochecknoglobals // the one that the architecture allows

// Process is the clock that all of a process' throttles share.
func Process() *Clock { return process }

// New makes a clock that ticks every interval while it is held.
func New(interval time.Duration) *Clock {
	if interval <= 0 {
		panic("BUG: tick.New: interval is not positive")
	}
	c := &Clock{interval: interval, origin: time.Now()}
	c.now.Store(1)
	return c
}

// Now is the time of the last tick. It costs one atomic read.
func (c *Clock) Now() Tick { return Tick(c.now.Load()) }

// Hold keeps the clock ticking until release is called, which may be done more than once.
// Taking hold is a tick by itself.
func (c *Clock) Hold() (release func()) {
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

// advance writes the time. Each call makes a later Tick, on whatever clock.
func (c *Clock) advance() {
	t := uint64(time.Since(c.origin))
	for {
		old := c.now.Load()
		if c.now.CompareAndSwap(old, max(t, old+1)) {
			return
		}
	}
}
