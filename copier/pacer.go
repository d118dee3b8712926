package copier

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/tick"
)

// lookEvery is how often the limits' sources are asked.
const lookEvery = 500 * time.Millisecond

// A pacer makes everything that a run does to the servers obey the throttle: of a share of 0.3
// and four workers, two may begin a step, each working 60 % of the time, in slices of a batch. Slices
// are short, so that a statement of the live traffic waits behind one batch at most. Who has begun a
// step goes on with it, more slowly if need be: its transaction has locks that others may wait for,
// such as the one on AUTO_INCREMENT that LOAD DATA keeps to its end.
type pacer struct {
	share atomic.Uint64 // bits of the float64 that the throttle allows

	// mayGoOn is the caller's own question; nil: none.
	mayGoOn func() bool
	observe func(Event)
	sources []source

	mu     sync.Mutex
	core   *throttle
	values []reading // of the last look
	turns  uint64
	busy   map[*pace]uint64 // who works or wants to, by when they came
	within int              // how many of them are within a step
	told   string           // what the last event was about
}

func newPacer(o *Options) *pacer {
	limits, sources := o.Throttle.limits()
	p := &pacer{
		core: newThrottle(limits, o.Throttle.Patience), sources: sources, values: make([]reading, len(limits)),
		mayGoOn: o.MayGoOn, observe: o.Observe, busy: make(map[*pace]uint64),
	}
	p.allow()
	return p
}

// allow publishes the core's decision. The caller holds mu, or is alone.
func (p *pacer) allow() { p.share.Store(math.Float64bits(p.core.allowed())) }

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

// A pace is how one goroutine of a run obeys. Those that came first begin first.
type pace struct {
	p       *pacer
	within  bool // a step: it was let in since it began to want to
	resumed time.Time
	timer   *time.Timer
}

func (p *pacer) join() *pace { return &pace{p: p} }

// begin waits until the goroutine may begin a step; end says that it has ended, if it was begun or not.
func (w *pace) begin(ctx context.Context) error {
	w.want()
	for !w.mayGoOn() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick.Interval):
		}
	}
	return nil
}

// want takes a turn among those that want to work.
func (w *pace) want() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.turns++
	w.p.busy[w] = w.p.turns
	w.resumed = time.Now()
}

func (w *pace) end() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	delete(w.p.busy, w)
	if w.within {
		w.within = false
		w.p.within--
	}
}

// mayGoOn is what the goroutine's tick.Throttle asks.
func (w *pace) mayGoOn() bool {
	if w.p.mayGoOn != nil && !w.p.mayGoOn() {
		return false
	}
	share := w.p.allowed()
	return share > 0 && (w.within || w.enter(share))
}

// enter lets the goroutine into its step when few enough came before it.
func (w *pace) enter(share float64) bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	turn, wants := w.p.busy[w]
	before := 0
	for _, t := range w.p.busy {
		if t < turn {
			before++
		}
	}
	if float64(before) >= share*float64(max(1, len(w.p.busy))) {
		return false
	}
	if wants {
		w.within = true
		w.p.within++
	}
	return true
}

// company is how many are at work or want to be, and how many of them are within a step.
func (w *pace) company() (busy, within int) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return max(1, len(w.p.busy)), max(1, w.p.within)
}

const (
	longestSlice = 250 * time.Millisecond // of work that is paid for by a pause
	longestPause = 2 * time.Second
)

// rest pauses after a slice of work, for as long as the share asks. At full speed it costs one
// atomic read.
func (w *pace) rest(ctx context.Context) error {
	share := w.p.allowed()
	if share == 1 {
		return nil
	}
	now := time.Now()
	defer func() { w.resumed = time.Now() }()
	busy, within := w.company()
	pause := restAfter(now.Sub(w.resumed), share, busy, within)
	if pause == 0 {
		return nil
	}
	if w.timer == nil {
		w.timer = time.NewTimer(pause)
	} else {
		w.timer.Reset(pause)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.timer.C:
		return nil
	}
}

// restAfter is the pause after a slice of work: those within a step go on, each so much of the time
// that they make share × busy together.
func restAfter(worked time.Duration, share float64, busy, within int) time.Duration {
	if share <= 0 {
		return 0 // the throttle holds it
	}
	each := min(1, share*float64(busy)/float64(within))
	return min(longestPause, time.Duration(float64(min(worked, longestSlice))*(1/each-1)))
}
