package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/taredb/tare/tick"
)

// A Stream makes the changes that a follower applies obey the throttle: a batch waits until
// it may be applied, and after it comes a pause as the share asks. It does not go through the
// workers' gate: those that verify wait for changes, so that each of them would wait for the other.
//
// A limit that is crossed whatever the copy does must not keep the changes back until the
// source has removed its log: then a batch is applied every longestHold. Nothing is when
// a person has stopped the copy, or when a figure is not known, which ends it after a while.
// While the clients themselves wait for the changes, at a cutover, nothing holds these back.
type Stream struct {
	p        *Pacer
	throttle *tick.Throttle
	resumed  time.Time // when the batch was begun

	mu    sync.Mutex
	held  time.Duration // that changes have waited for the throttle, without the present wait
	since time.Time     // of the present wait; zero when there is none
	told  time.Time     // when it was last said that they wait

	lifted    bool               // nothing waits
	interrupt context.CancelFunc // ends the present wait; nil when there is none
}

const (
	longestHold  = 10 * time.Second
	tellHold     = time.Second // of a wait, before it is observed
	tellAgain    = 30 * time.Second
	longestPause = 2 * time.Second // after a batch
)

// Stream returns the pace of a stream of changes, which is to be closed.
func (p *Pacer) Stream(clock *tick.Clock) *Stream {
	f := &Stream{p: p}
	f.throttle = tick.NewThrottle(clock, func() bool { return p.allowed() > 0 && p.o.MayGoOn() })
	return f
}

// Close ends its use of the clock.
func (f *Stream) Close() { f.throttle.Close() }

// Begin waits until a batch may be applied.
func (f *Stream) Begin(ctx context.Context) error {
	if !f.throttle.OK() {
		if err := f.wait(ctx, f.await); err != nil {
			return err
		}
	}
	f.resumed = time.Now()
	return nil
}

// End pauses after a batch.
func (f *Stream) End(ctx context.Context) error {
	share := f.p.allowed()
	if share == 1 || share == 0 { // which begin waits for
		return nil
	}
	return f.wait(ctx, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(min(longestPause, pauseAfter(time.Since(f.resumed), share))):
		}
		return context.Cause(ctx)
	})
}

// wait waits in a way that Lift ends.
func (f *Stream) wait(ctx context.Context, how func(context.Context) error) error {
	defer f.p.o.Wait("the throttle, to apply changes", f.p.reason(), longestHold)()
	waiting, end := context.WithCancel(ctx)
	defer end()
	f.mu.Lock()
	f.since, f.interrupt = time.Now(), end
	if f.lifted {
		end()
	}
	f.mu.Unlock()
	err := how(waiting)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += time.Since(f.since)
	f.since, f.interrupt = time.Time{}, nil
	if f.lifted && ctx.Err() == nil {
		return nil
	}
	return err
}

// Lift lets all batches pass until the returned function is called.
func (f *Stream) Lift() (lower func()) {
	set := func(lifted bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.lifted = lifted; lifted && f.interrupt != nil {
			f.interrupt()
		}
	}
	set(true)
	return func() { set(false) }
}

func (f *Stream) await(ctx context.Context) error {
	begun := time.Now()
	again := time.NewTicker(tick.Interval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
		waited := time.Since(begun)
		if f.throttle.OK() || waited >= longestHold && f.p.crossed() {
			return nil
		}
		if waited >= tellHold {
			f.tell()
		}
	}
}

// Held returns how long changes have waited for the throttle, and why it is not at full speed.
func (f *Stream) Held() (held time.Duration, reason string) {
	f.mu.Lock()
	held = f.held
	if !f.since.IsZero() {
		held += time.Since(f.since)
	}
	f.mu.Unlock()
	return held, f.p.reason()
}

// tell says that changes wait, once in a while.
func (f *Stream) tell() {
	f.mu.Lock()
	now := time.Now()
	due := f.told.IsZero() || now.Sub(f.told) >= tellAgain
	if due {
		f.told = now
	}
	f.mu.Unlock()
	if due {
		f.p.o.Observe(f.p.allowed(), "changes wait to be applied: "+f.p.reason())
	}
}

// crossed reports whether a limit, by a figure that is known, has stopped the copy.
func (p *Pacer) crossed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.core
	return t.stopped && t.most > 0 && t.holding >= 0 && p.values[t.holding].err == nil && p.o.MayGoOn()
}

func (p *Pacer) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.reason()
}
