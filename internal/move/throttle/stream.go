package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/taredb/tare/internal/tick"
)

// A Stream applies the throttle to the changes of a follower: a batch waits until it may be applied, and is
// followed by a pause according to the rate. It does not use the workers' gate: workers that verify wait for
// changes, and each would wait for the other.
//
// A limit that is exceeded independently of the copy must not delay changes until the source has purged its
// log: then one batch is applied every longestHold. No batch is applied while an operator has paused the
// copy, or while a metric is unknown, which ends the copy after the patience. During a cutover clients wait
// for the changes, and nothing delays them (Suspend).
type Stream struct {
	p        *Pacer
	throttle *tick.Throttle
	resumed  time.Time // when the batch was started

	mu       sync.Mutex
	held     time.Duration // total time that changes have waited for the throttle, without the current wait
	since    time.Time     // start of the current wait; zero if there is none
	reported time.Time     // when the wait was last reported

	lifted    bool               // nothing waits
	interrupt context.CancelFunc // ends the current wait; nil if there is none
}

const (
	longestHold  = 10 * time.Second
	reportAfter  = time.Second // duration of a wait before it is reported
	reportAgain  = 30 * time.Second
	longestPause = 2 * time.Second // after a batch
)

// Stream returns the pace of a stream of changes. The caller must close it.
func (p *Pacer) Stream(clock *tick.Clock) *Stream {
	f := &Stream{p: p}
	f.throttle = tick.NewThrottle(clock, func() bool { return p.allowed() > 0 && p.o.MayRun() })
	return f
}

// Close releases the clock.
func (f *Stream) Close() { f.throttle.Close() }

// Begin blocks until a batch may be applied.
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
	if share == 1 || share == 0 { // Begin waits for a rate above 0
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

// wait calls how with a context that Suspend cancels.
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

// Suspend lets all batches pass until the returned function is called.
func (f *Stream) Suspend() (lower func()) {
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
		if waited >= reportAfter {
			f.report()
		}
	}
}

// Waited returns how long changes have waited for the throttle, and why it is not at full speed.
func (f *Stream) Waited() (held time.Duration, reason string) {
	f.mu.Lock()
	held = f.held
	if !f.since.IsZero() {
		held += time.Since(f.since)
	}
	f.mu.Unlock()
	return held, f.p.reason()
}

// report reports at intervals that changes wait.
func (f *Stream) report() {
	f.mu.Lock()
	now := time.Now()
	due := f.reported.IsZero() || now.Sub(f.reported) >= reportAgain
	if due {
		f.reported = now
	}
	f.mu.Unlock()
	if due {
		f.p.o.Observe(f.p.allowed(), "changes wait to be applied: "+f.p.reason())
	}
}

// crossed reports whether a limit whose metric is known has paused the copy.
func (p *Pacer) crossed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.core
	return t.stopped && t.maxRate > 0 && t.holding >= 0 && p.values[t.holding].err == nil && p.o.MayRun()
}

func (p *Pacer) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.reason()
}
