package tick

import (
	"context"
	"time"
)

// A Throttle polls a condition at most once per tick and caches a positive result until the next tick. It is
// not safe for concurrent use; several goroutines have a Throttle each, with the same condition.
type Throttle struct {
	clock   *Clock
	lastYes Tick // the tick of the last positive result; 0, which no clock has: there was none
	ask     func() bool
	release func()
}

// NewThrottle returns a throttle that holds c and polls ask, which reports whether work may continue. Close
// releases the clock.
func NewThrottle(c *Clock, ask func() bool) *Throttle {
	return &Throttle{clock: c, ask: ask, release: c.Acquire()}
}

// OK reports whether work may continue. After a positive result in the current tick it costs one atomic read;
// it does not allocate. After a negative result each call polls again: use Wait.
func (t *Throttle) OK() bool { return t.clock.Now() == t.lastYes || t.poll() }

// poll polls the condition and caches a positive result.
func (t *Throttle) poll() bool {
	now := t.clock.Now()
	if !t.ask() {
		return false // lastYes is that of an earlier tick
	}
	t.lastYes = now
	return true
}

// Wait blocks until work may continue, polling once per interval, and returns ctx's cause if ctx is done
// first. After a positive result in the current tick it costs one atomic read.
func (t *Throttle) Wait(ctx context.Context) error {
	if t.clock.Now() == t.lastYes {
		return nil
	}
	return t.wait(ctx)
}

func (t *Throttle) wait(ctx context.Context) error {
	if t.poll() {
		return nil
	}
	pause := time.NewTicker(t.clock.interval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
			if t.poll() {
				return nil
			}
		}
	}
}

// Close releases the clock. The throttle must not be used afterwards.
func (t *Throttle) Close() { t.release() }
