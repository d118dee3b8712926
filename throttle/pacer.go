package throttle

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/tick"
)

// lookEvery is how often the limits' sources are asked.
const lookEvery = 500 * time.Millisecond

// A pacer makes everything that a run does to the servers obey the throttle: the share's part of the workers
// works for a slice, and then nobody (gate). Slices are short, a batch of one worker where the share is low, so that a
// statement of the live traffic is not held up for long. Who rests is within no statement, and so keeps no lock that others
// wait for, such as the one on AUTO_INCREMENT that LOAD DATA has to its end.
type Pacer struct {
	share atomic.Uint64 // bits of the float64 that the throttle allows

	o       PacerOptions
	sources []source

	mu     sync.Mutex
	core   *throttle
	values []reading // of the last look
	gate   gate
	told   string // what the last event was about

	joined int     // goroutines that obey
	steps  int     // of them, those within a step
	queue  []*Pace // workers that wait for another's step to end, in order
}

// PacerOptions are the limits of a pacer, and its callers' functions.
type PacerOptions struct {
	Limits Options // validated

	MayGoOn func() bool                                                 // reports whether the caller lets work continue; nil: always
	Observe func(rate float64, reason string)                           // is called when the rate is changed for another reason than before
	Wait    func(what, detail string, limit time.Duration) (end func()) // starts a wait; nil: waits are not reported
}

// NewPacer returns a pacer that polls no limit before Start.
func NewPacer(o PacerOptions) *Pacer {
	if o.Observe == nil {
		o.Observe = func(float64, string) {}
	}
	if o.MayGoOn == nil {
		o.MayGoOn = func() bool { return true }
	}
	if o.Wait == nil {
		o.Wait = func(string, string, time.Duration) func() { return func() {} }
	}
	limits, sources := o.Limits.limits()
	p := &Pacer{core: newThrottle(limits, o.Limits.Patience), sources: sources, values: make([]reading, len(limits)), o: o, gate: newGate()}
	p.share.Store(math.Float64bits(p.core.allowed()))
	return p
}

// Inherit takes over the changes that were made to another pacer.
func (p *Pacer) Inherit(old *Pacer) {
	old.mu.Lock()
	defer old.mu.Unlock()
	p.core.most, p.core.limits = old.core.most, old.core.limits
	p.share.Store(math.Float64bits(p.core.allowed()))
}

// allow publishes the core's decision. The caller holds mu.
func (p *Pacer) allow() {
	before, now := p.allowed(), p.core.allowed()
	if before == now {
		return
	}
	p.share.Store(math.Float64bits(now))
	if before == 1 { // what was done at full speed asks for no pause
		p.gate.begin(time.Now())
	}
	p.gate.wake()
}

func (p *Pacer) allowed() float64 { return math.Float64frombits(p.share.Load()) }

// Start polls the limits until the returned function is called. It calls fail when a metric is unavailable for longer than the
// patience.
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
			if err := p.lookOn(ctx); err != nil && ctx.Err() == nil {
				fail(err)
			}
		})
	}
	return func() {
		cancel()
		looking.Wait()
	}
}

func (p *Pacer) lookOn(ctx context.Context) error {
	begun := time.Now()
	next := time.NewTicker(lookEvery)
	defer next.Stop()
	readings := make([]reading, len(p.sources))
	for {
		p.ask(ctx, readings)
		if ctx.Err() != nil {
			return nil
		}
		if err := p.look(time.Since(begun), readings); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// ask asks all sources at once.
func (p *Pacer) ask(ctx context.Context, readings []reading) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, s := range p.sources {
		all.Go(func() { readings[i].value, readings[i].err = s.figure(ctx) })
	}
	all.Wait()
}

// look hands the readings to the core and tells what changed by it.
func (p *Pacer) look(now time.Duration, readings []reading) error {
	p.mu.Lock()
	copy(p.values, readings)
	err := p.core.look(now, readings)
	p.allow()
	rate, reason, news := p.news()
	p.mu.Unlock()
	if news {
		p.o.Observe(rate, reason)
	}
	return err
}

// news returns the rate and its reason, unless they were observed last. The caller holds mu.
func (p *Pacer) news() (rate float64, reason string, news bool) {
	t := p.core
	about := "full speed"
	switch {
	case t.most == 0:
		about = "told to stop"
	case t.stopped || t.crossed:
		about = "crossed"
		if t.holding >= 0 {
			about += t.limits[t.holding].Name
		}
		if t.stopped {
			about += ", stopped"
		}
	case t.most < t.share:
		about = "told to be slow"
	case t.share < 1:
		about = "raised"
	}
	if about == p.told || p.told == "" && about == "full speed" {
		return 0, "", false
	}
	p.told = about
	return t.allowed(), cmp.Or(t.reason(), "all limits allow full speed"), true
}

// A Pace is one goroutine's part in a pacer.
type Pace struct {
	p      *Pacer
	step   bool // it is within a step
	within bool // it is let in, and does not rest
	timer  *time.Timer
}

// Join adds a goroutine to those that share the rate.
func (p *Pacer) Join() *Pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	return &Pace{p: p}
}

// abreast is how many may be within a step: the share of all, rounded up. Where few do the same work in more slices,
// a statement of the live traffic waits behind one of them instead of all. Who has begun a step is never kept from ending
// it, since others may wait for its locks. The caller holds mu.
func (p *Pacer) abreast() int { return max(1, int(math.Ceil(p.allowed()*float64(p.joined)))) }

// Begin waits until the goroutine may start a step.
func (w *Pace) Begin(ctx context.Context) error {
	for !w.p.o.MayGoOn() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick.Interval):
		}
	}
	if err := w.turn(ctx); err != nil {
		return err
	}
	w.due()
	return w.pass(ctx)
}

// turn waits until there are not too many within a step. Those that came first begin first.
func (w *Pace) turn(ctx context.Context) error {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	for p.queue[0] != w || p.steps >= p.abreast() {
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

// unqueue takes w out of the queue, and has the others look whether it is their turn. The caller holds mu.
func (p *Pacer) unqueue(w *Pace) {
	at := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, at, at+1)
	if len(p.queue) > 0 {
		p.gate.wake()
	}
}

// End ends a step, if one was started.
func (w *Pace) End() {
	w.leave()
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

// leave says that the goroutine rests.
func (w *Pace) leave() {
	if !w.within {
		return
	}
	w.within = false
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.gate.leave(time.Now())
}

// MayGoOn reports whether the caller of the pacer lets work continue within a batch. Pauses of the pacer are taken between batches.
func (w *Pace) MayGoOn() bool { return w.p.o.MayGoOn() }

// Due reports whether a pause is due, which Rest takes: the caller ends the statement under way before it. At full speed it
// costs one atomic read.
func (w *Pace) Due() bool { return w.p.allowed() != 1 && w.due() }

func (w *Pace) due() bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	share := w.p.allowed()
	return share < 1 && w.p.gate.due(time.Now(), share)
}

// Rest pauses until the gate is open.
func (w *Pace) Rest(ctx context.Context) error {
	w.leave()
	return w.pass(ctx)
}

// pass waits until the gate is open.
func (w *Pace) pass(ctx context.Context) error {
	defer w.p.o.Wait("the throttle", w.p.reason(), 0)()
	for {
		w.p.mu.Lock()
		now := time.Now()
		opened, wait := w.p.gate.open(now, w.p.allowed())
		if opened {
			w.p.gate.enter(now)
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

// after is time.After with the goroutine's own timer; nil, which is never ready, after nothing.
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
