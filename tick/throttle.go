package tick

import (
	"context"
	"time"
)

// A Throttle asks a question at most once a tick and remembers a yes until the next one. It
// is for one goroutine; several goroutines have a Throttle each, with the same question.
type Throttle struct {
	clock   *Clock
	yes     Tick // the tick at which the answer was yes; never 0 for a clock
	ask     func() bool
	release func()
}

// NewThrottle holds c and asks ask, which answers whether work may go on. Close lets go.
func NewThrottle(c *Clock, ask func() bool) *Throttle {
	return &Throttle{clock: c, ask: ask, release: c.Hold()}
}

// OK reports whether work may go on. Within a tick that has answered yes it costs one
// atomic read; it does not allocate. After a no each call asks again: use Wait.
func (t *Throttle) OK() bool { return t.clock.Now() == t.yes || t.asked() }

// asked puts the question and keeps a yes.
func (t *Throttle) asked() bool {
	now := t.clock.Now()
	if !t.ask() {
		t.yes = 0
		return false
	}
	t.yes = now
	return true
}

// Wait returns when work may go on, asking once an interval, or with ctx's cause when ctx is
// done first. Within a tick that has answered yes it costs one atomic read.
func (t *Throttle) Wait(ctx context.Context) error {
	if t.clock.Now() == t.yes {
		return nil
	}
	return t.wait(ctx)
}

func (t *Throttle) wait(ctx context.Context) error {
	if t.asked() {
		return nil
	}
	pause := time.NewTicker(t.clock.interval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
			if t.asked() {
				return nil
			}
		}
	}
}

// Close lets go of the clock. The throttle must not be asked afterwards.
func (t *Throttle) Close() { t.release() }
