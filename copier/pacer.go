package copier

import (
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
type pacer struct {
	share atomic.Uint64 // bits of the float64 that the throttle allows

	// mayGoOn is the caller's own question; nil: none.
	mayGoOn func() bool
	observe func(Event)
	waits   *waits // of the run
	sources []source

	mu     sync.Mutex
	core   *throttle
	values []reading // of the last look
	gate   gate
	told   string // what the last event was about

	joined int     // goroutines that obey
	steps  int     // of them, those within a step
	queue  []*pace // who waits for another's step to end, in order
}

func newPacer(o *Options) *pacer {
	limits, sources := o.Throttle.limits()
	p := &pacer{
		core: newThrottle(limits, o.Throttle.Patience), sources: sources, values: make([]reading, len(limits)),
		mayGoOn: o.MayGoOn, observe: o.Observe, gate: newGate(),
	}
	p.share.Store(math.Float64bits(p.core.allowed()))
	return p
}

// inherit takes over what was changed while the copy ran.
func (p *pacer) inherit(old *pacer) {
	old.mu.Lock()
	defer old.mu.Unlock()
	p.core.most, p.core.limits = old.core.most, old.core.limits
	p.share.Store(math.Float64bits(p.core.allowed()))
}

// allow publishes the core's decision. The caller holds mu.
func (p *pacer) allow() {
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

func (p *pacer) allowed() float64 { return math.Float64frombits(p.share.Load()) }

// start looks at the limits until the returned function is called. A source that stays silent
// for too long is told to fail.
func (p *pacer) start(ctx context.Context, fail func(error)) (end func()) {
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

func (p *pacer) lookOn(ctx context.Context) error {
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
func (p *pacer) ask(ctx context.Context, readings []reading) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, s := range p.sources {
		all.Go(func() { readings[i].value, readings[i].err = s.figure(ctx) })
	}
	all.Wait()
}

// look hands the readings to the core and tells what changed by it.
func (p *pacer) look(now time.Duration, readings []reading) error {
	p.mu.Lock()
	copy(p.values, readings)
	err := p.core.look(now, readings)
	p.allow()
	event, news := p.news()
	p.mu.Unlock()
	if news {
		p.observe(event)
	}
	return err
}

// news is the event about the core's state, unless the last one said the same. The caller holds mu.
func (p *pacer) news() (Event, bool) {
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
		return Event{}, false
	}
	p.told = about
	share, text := t.allowed(), t.reason()
	if text == "" {
		text = "all limits allow full speed"
	}
	return Event{Kind: EventThrottle, Share: &share, Text: text}, true
}

// A pace is how one goroutine of a run obeys.
type pace struct {
	p      *pacer
	step   bool // it is within a step
	within bool // it is let in, and does not rest
	timer  *time.Timer
}

func (p *pacer) join() *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	return &pace{p: p}
}

// abreast is how many may be within a step: the share of all, rounded up. Where few do the same work in more slices,
// a statement of the live traffic waits behind one of them instead of all. Who has begun a step is never kept from ending
// it, since others may wait for its locks. The caller holds mu.
func (p *pacer) abreast() int { return max(1, int(math.Ceil(p.allowed()*float64(p.joined)))) }

// begin waits until the goroutine may begin a step; end says that it has ended, if it was begun or not.
func (w *pace) begin(ctx context.Context) error {
	for !w.mayGoOn() {
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
func (w *pace) turn(ctx context.Context) error {
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
func (p *pacer) unqueue(w *pace) {
	at := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, at, at+1)
	if len(p.queue) > 0 {
		p.gate.wake()
	}
}

func (w *pace) end() {
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
func (w *pace) leave() {
	if !w.within {
		return
	}
	w.within = false
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.gate.leave(time.Now())
}

// mayGoOn is what the goroutine's tick.Throttle asks within a batch: the caller's question alone. Pauses
// are taken between batches.
func (w *pace) mayGoOn() bool { return w.p.mayGoOn == nil || w.p.mayGoOn() }

// due reports whether it is time to rest.
func (w *pace) due() bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	share := w.p.allowed()
	return share < 1 && w.p.gate.due(time.Now(), share)
}

// rest pauses after a batch, if it is time to; settle ends the statement that is under way, if there is
// one. At full speed it costs one atomic read.
func (w *pace) rest(ctx context.Context, settle func()) error {
	if w.p.allowed() == 1 || !w.due() {
		return nil
	}
	settle()
	w.leave()
	return w.pass(ctx)
}

// pass waits until the gate is open.
func (w *pace) pass(ctx context.Context) error {
	defer w.p.waits.begin("the throttle", w.p.reason(), 0)()
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
func (w *pace) after(d time.Duration) <-chan time.Time {
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
