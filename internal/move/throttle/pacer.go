package throttle

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/tick"
)

// pollInterval is the polling interval of the limits' sources.
const pollInterval = 500 * time.Millisecond

// A Pacer applies the rate of the throttle to all work of a run on the servers: a fraction of the workers
// works for a slice, and then none (gate). Slices are short, a single batch of one worker at a low rate, so
// that statements of other clients are not delayed for long. A paused worker has no open statement, hence no
// locks that others wait for, such as the AUTO_INCREMENT lock that LOAD DATA keeps until its end.
type Pacer struct {
	rate atomic.Uint64 // bits of the current duty, a float64

	o       PacerOptions
	sources []source

	mu       sync.Mutex
	core     *throttle
	values   []reading // of the last poll
	gate     gate
	reported string // subject of the last event

	joined  int     // goroutines that have joined
	workers int     // that may be within a step, as of the last change
	steps   int     // within a step
	queue   []*Pace // workers that wait for another's step to end, in order
}

// PacerOptions are the limits of a pacer, and functions of its caller.
type PacerOptions struct {
	Limits Options // validated

	MayRun  func() bool                                                 // reports whether the caller permits work; nil: always
	Observe func(rate float64, reason string)                           // called when the rate changes for another reason than before
	Wait    func(what, detail string, limit time.Duration) (end func()) // starts a wait; nil: waits are not reported
}

// NewPacer returns a pacer that polls no limit before Start.
func NewPacer(o PacerOptions) *Pacer {
	if o.Observe == nil {
		o.Observe = func(float64, string) {}
	}
	if o.MayRun == nil {
		o.MayRun = func() bool { return true }
	}
	if o.Wait == nil {
		o.Wait = func(string, string, time.Duration) func() { return func() {} }
	}
	limits, sources := o.Limits.limits()
	p := &Pacer{core: newThrottle(limits, o.Limits.Patience), sources: sources, values: make([]reading, len(limits)), o: o, gate: newGate()}
	p.rate.Store(math.Float64bits(p.duty()))
	return p
}

// Inherit copies the changes that were made to another pacer.
func (p *Pacer) Inherit(old *Pacer) {
	old.mu.Lock()
	defer old.mu.Unlock()
	p.core.maxRate, p.core.limits = old.core.maxRate, old.core.limits
	p.rate.Store(math.Float64bits(p.duty()))
}

// allow publishes the rate of the core. The caller holds mu.
func (p *Pacer) allow() {
	workers := p.workers
	p.workers = p.maxInStep()
	before, now := p.allowed(), p.duty()
	if before == now && workers == p.workers {
		return
	}
	p.rate.Store(math.Float64bits(now))
	if before == 1 && now < 1 { // work done at full speed requires no pause
		p.gate.start(time.Now())
	}
	p.gate.wake()
}

// duty returns the fraction of the time in which the admitted workers work. Limits first reduce how many workers work
// at a time, and then the time of the last one: two workers that alternate delay clients less than two that work together for half
// of the time. A bound of the operator is that fraction itself. The caller holds mu, or is the only user.
func (p *Pacer) duty() float64 {
	t, rate := p.core, p.core.allowed()
	if rate == 0 || p.joined == 0 || t.maxRate <= t.limited() {
		return rate
	}
	return min(t.maxRate, rate*float64(p.joined)/float64(p.maxInStep()))
}

// allowed returns duty as of the last reading.
func (p *Pacer) allowed() float64 { return math.Float64frombits(p.rate.Load()) }

// Start polls the limits until the returned function is called. It calls fail if a metric is unavailable for
// longer than the patience.
func (p *Pacer) Start(ctx context.Context, fail func(error)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	if len(p.sources) > 0 {
		looking.Go(func() {
			defer func() {
				for _, s := range p.sources {
					s.close()
				}
			}()
			if err := p.pollLoop(ctx); err != nil && ctx.Err() == nil {
				fail(err)
			}
		})
	}
	return func() {
		cancel()
		looking.Wait()
	}
}

func (p *Pacer) pollLoop(ctx context.Context) error {
	begun := time.Now()
	next := time.NewTicker(pollInterval)
	defer next.Stop()
	readings := make([]reading, len(p.sources))
	for {
		p.poll(ctx, readings)
		if ctx.Err() != nil {
			return nil
		}
		if err := p.update(time.Since(begun), readings); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// poll polls all sources concurrently.
func (p *Pacer) poll(ctx context.Context, readings []reading) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, s := range p.sources {
		all.Go(func() { readings[i].value, readings[i].err = s.value(ctx) })
	}
	all.Wait()
}

// update passes the readings to the core and reports the resulting changes.
func (p *Pacer) update(now time.Duration, readings []reading) error {
	p.mu.Lock()
	copy(p.values, readings)
	err := p.core.update(now, readings)
	p.allow()
	rate, reason, news := p.unreported()
	p.mu.Unlock()
	if news {
		p.o.Observe(rate, reason)
	}
	return err
}

// unreported returns the rate and its reason, unless they were reported last. The caller holds mu.
func (p *Pacer) unreported() (rate float64, reason string, news bool) {
	t := p.core
	about := "full speed"
	switch {
	case t.maxRate == 0:
		about = "told to stop"
	case t.stopped || t.crossed:
		about = "crossed"
		if t.holding >= 0 {
			about += t.limits[t.holding].Name
		}
		if t.stopped {
			about += ", stopped"
		}
	case t.maxRate < t.limited():
		about = "told to be slow"
	case t.limited() < 1:
		about = "raised"
	}
	if about == p.reported || p.reported == "" && about == "full speed" {
		return 0, "", false
	}
	p.reported = about
	return t.allowed(), cmp.Or(t.reason(), "all limits allow full speed"), true
}

// A Pace is the handle of one goroutine that shares a pacer's rate. It must not be used concurrently.
type Pace struct {
	p      *Pacer
	step   bool // it is within a step
	within bool // it is admitted and not paused
	timer  *time.Timer
}

// Join adds a goroutine that shares the rate.
func (p *Pacer) Join() *Pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	p.allow()
	return &Pace{p: p}
}

// maxInStep returns how many workers may be within a step: the rate times all of them, rounded up. If few
// workers do the same work in more slices, a client's statement waits for one of them instead of all. A
// worker that has started a step is never prevented from ending it, since others may wait for its locks. The
// caller holds mu.
func (p *Pacer) maxInStep() int { return max(1, int(math.Ceil(p.core.allowed()*float64(p.joined)))) }

// Begin blocks until the goroutine may start a step.
func (w *Pace) Begin(ctx context.Context) error {
	for !w.p.o.MayRun() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick.Interval):
		}
	}
	if err := w.waitTurn(ctx); err != nil {
		return err
	}
	w.due()
	return w.waitGate(ctx)
}

// waitTurn blocks while too many workers are within a step. Workers are admitted in the order of their arrival.
func (w *Pace) waitTurn(ctx context.Context) error {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	for p.queue[0] != w || p.steps >= p.maxInStep() {
		changed := p.gate.changed
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			p.unqueue(w)
			return context.Cause(ctx)
		}
	}
	p.unqueue(w)
	p.steps++
	w.step = true
	return nil
}

// unqueue removes w from the queue and wakes the others. The caller holds mu.
func (p *Pacer) unqueue(w *Pace) {
	at := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, at, at+1)
	if len(p.queue) > 0 {
		p.gate.wake()
	}
}

// End ends a step, if one was started.
func (w *Pace) End() {
	w.leaveGate()
	if !w.step {
		return
	}
	w.step = false
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.steps--
	if len(w.p.queue) > 0 {
		w.p.gate.wake()
	}
}

// leaveGate marks the goroutine as paused.
func (w *Pace) leaveGate() {
	if !w.within {
		return
	}
	w.within = false
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.gate.remove(time.Now())
}

// MayRun reports whether the caller of the pacer permits work within a batch. Pauses of the pacer are
// between batches.
func (w *Pace) MayRun() bool { return w.p.o.MayRun() }

// Slowed reports whether the rate is below full speed.
func (w *Pace) Slowed() bool { return w.p.allowed() != 1 }

// Due reports whether a pause is due. The caller then completes its current statement and calls Wait. At full
// speed Due costs one atomic read.
func (w *Pace) Due() bool { return w.Slowed() && w.due() }

func (w *Pace) due() bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	share := w.p.allowed()
	return share < 1 && w.p.gate.due(time.Now(), share)
}

// Wait pauses until the gate is open.
func (w *Pace) Wait(ctx context.Context) error {
	w.leaveGate()
	return w.waitGate(ctx)
}

// waitGate blocks until the gate is open.
func (w *Pace) waitGate(ctx context.Context) error {
	defer w.p.o.Wait("the throttle", w.p.reason(), 0)()
	for {
		w.p.mu.Lock()
		now := time.Now()
		opened, wait := w.p.gate.open(now, w.p.allowed())
		if opened {
			w.p.gate.admit(now)
		}
		changed := w.p.gate.changed
		w.p.mu.Unlock()
		if opened {
			w.within = true
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-w.after(wait):
		}
	}
}

// after is time.After with a reused timer; it returns nil, which is never ready, if d is 0.
func (w *Pace) after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}
