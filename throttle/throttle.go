package throttle

import (
	"fmt"
	"math"
	"time"
)

// The throttle is the pure core of slowing down: readings of the limits' metrics go in, the
// fraction of its full speed that the copy may use comes out. It has no server and no clock
// (testdata/throttle).
//
// Below all limits the share doubles again and again until a limit is first met, in half the time that the limits' figures look
// back, so that a figure tells of a share before it is passed by far. After that it doubles up
// to three quarters of the share at which the limit was met last, grows slowly beyond, and faster again where
// nothing was met before. Above a limit it is halved, and not again before the source has
// forgotten the time before. Above twice a limit, or at the least share, the copy stops until the
// limit is kept again. So it runs near the limit and crosses it seldom and shortly. A limit that is
// crossed before the copy has done anything is not of its making: it waits.
type throttle struct {
	limits   []Limit
	patience time.Duration // how long a source may fail to answer

	share   float64 // that the limits allow, between leastShare and 1
	most    float64 // what a person allows: 0 stops, 1 leaves it to the limits
	met     float64 // the share at which a limit was last met; 0: none was
	growth  float64 // a second, beyond met
	double  float64 // seconds in which the share is doubled at most
	stopped bool
	crossed bool   // a limit is crossed now, or its figure not known
	because string // which limit cut the share last; empty when none has, or all was regrown

	settled time.Duration   // before it, a limit that is crossed does not cut again
	silent  []time.Duration // by limit: since when its source has not answered
	last    time.Duration   // of the last look
	looked  bool

	held    []time.Duration // by limit: how long it held the copy back
	holding int             // the limit that does now, or -1
}

const (
	// leastShare is the slowest that the copy is made to run before it stops.
	leastShare = 1.0 / 64

	// firstShare is what a copy with limits begins with: nobody knows yet what it costs.
	firstShare = 1.0 / 8

	// roomLeft is the part of a limit below which the share grows.
	roomLeft = 0.85

	// hardRatio is how far above a limit the copy stops at once.
	hardRatio = 2

	fastUpTo   = 0.75 // of the share at which a limit was met
	slowGrowth = 0.02 // a second
)

// A Limit is a figure that the copy keeps below a bound by slowing down.
type Limit struct {
	Kind   LimitKind
	Name   string        // for people, such as "lag of replica db3:3306"
	Unit   string        // "s", "ms" or nothing
	Bound  float64       // in the unit
	Memory time.Duration // how long the source's figure looks back, so that a cut shows late
}

// A reading is what the source of a limit said.
type reading struct {
	value float64
	err   error // it did not answer, or not with a figure
}

func newThrottle(limits []Limit, patience time.Duration) *throttle {
	t := &throttle{limits: limits, patience: patience, share: firstShare, most: 1, holding: -1, double: 1}
	t.silent, t.held = make([]time.Duration, len(limits)), make([]time.Duration, len(limits))
	for i := range t.silent {
		t.silent[i] = -1
	}
	if len(limits) == 0 {
		t.share = 1
	}
	for _, l := range limits {
		t.double = max(t.double, l.Memory.Seconds()/2)
	}
	return t
}

// look takes a reading of each limit at now, which is counted from the start. It fails when a
// source has not answered for longer than the patience.
func (t *throttle) look(now time.Duration, readings []reading) error {
	since, first := now-t.last, !t.looked
	if t.holding >= 0 {
		t.held[t.holding] += since
	}
	t.last, t.looked, t.holding = now, true, -1

	worst, ratio := -1, 0.0
	for i, r := range readings {
		if r.err != nil {
			if t.silent[i] < 0 {
				t.silent[i] = now
			}
			if now-t.silent[i] > t.patience {
				return fmt.Errorf("the %s is not known for %v (--throttle-patience): %w", t.limits[i].Name, t.patience, r.err)
			}
			worst = i
			continue
		}
		t.silent[i] = -1
		if x := t.limits[i].ratio(r.value); x > ratio && (worst < 0 || readings[worst].err == nil) {
			worst, ratio = i, x
		}
	}
	switch {
	case worst >= 0 && readings[worst].err != nil:
		t.stopped, t.crossed, t.holding = true, true, worst
		t.because = fmt.Sprintf("the %s is not known: %v", t.limits[worst].Name, readings[worst].err)
	case ratio > 1:
		t.over(now, worst, ratio, readings[worst].value, first)
	default:
		t.under(since, ratio)
	}
	if t.share < 1 && worst >= 0 && t.because != "" {
		t.holding = worst
	}
	return nil
}

// ratio is how far a figure is towards the bound: 1 is at it.
func (l *Limit) ratio(v float64) float64 {
	switch {
	case v <= l.Bound && l.Bound <= 0:
		return 0
	case l.Bound <= 0:
		return hardRatio // there is no little above nothing
	}
	return v / l.Bound
}

// over answers a figure above its limit, at the first look of all or later.
func (t *throttle) over(now time.Duration, limit int, ratio, value float64, first bool) {
	l := &t.limits[limit]
	t.because = fmt.Sprintf("the %s is %s, over %s", l.Name, l.text(value), l.text(l.Bound))
	t.crossed, t.holding = true, limit
	t.stopped = t.stopped || first
	hard := ratio >= hardRatio
	if t.stopped || !hard && now < t.settled {
		return
	}
	t.met, t.growth = t.share, slowGrowth
	t.stopped = hard || t.share == leastShare
	t.share = max(leastShare, t.share/2)
	t.settled = now + l.Memory
}

// under answers figures that are all within their limits.
func (t *throttle) under(since time.Duration, ratio float64) {
	t.crossed = false
	if t.stopped {
		t.stopped = false // go on with what was left of the share
		return
	}
	if ratio > roomLeft {
		t.growth = slowGrowth
		return
	}
	t.grow(since.Seconds())
	if t.share >= 1 {
		t.share, t.because = 1, ""
	}
}

// grow raises the share after so many seconds below all limits.
func (t *throttle) grow(seconds float64) {
	times := math.Exp2(seconds / t.double)
	switch fast := fastUpTo * t.met; {
	case t.met == 0:
		t.share *= times
	case t.share < fast:
		t.share = min(fast, t.share*times)
	case t.share < t.met:
		t.share += slowGrowth * seconds
	default:
		t.share += t.growth * seconds
		t.growth *= times
	}
}

// allowed is the share of full speed that the copy may use now; 0 stops it.
func (t *throttle) allowed() float64 {
	if t.stopped || len(t.limits) > 0 && !t.looked {
		return 0
	}
	return min(t.share, t.most)
}

// reason says why the copy is slower than it could be, empty when it is not.
func (t *throttle) reason() string {
	switch {
	case t.most == 0:
		return "stopped by tare copy ctl throttle"
	case len(t.limits) > 0 && !t.looked:
		return "the limits' first figures are waited for"
	case t.stopped:
		return t.because
	case t.most < t.share:
		return fmt.Sprintf("held to %s of its speed by tare copy ctl throttle", percent(t.most))
	case t.share == 1:
		return ""
	case t.crossed:
		return t.because
	case t.because != "":
		return "the speed is raised again slowly; what cut it: " + t.because
	}
	return "the speed is raised slowly, to find out what the limits allow"
}

// text is a figure with its unit.
func (l *Limit) text(v float64) string {
	if l.Unit == "" {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.4g %s", v, l.Unit)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
