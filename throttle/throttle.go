package throttle

import (
	"fmt"
	"math"
	"time"
)

// The throttle is the pure core: readings of the limits' metrics go in, the fraction of full speed at which
// the copy may run comes out. It has no server and no clock (testdata/throttle).
//
// Below all limits the rate doubles repeatedly until a limit is first reached, each time in half the time
// window of the metrics, so that a metric reflects a rate before it is exceeded by far. After that it doubles
// up to three quarters of the rate at which a limit was last reached, grows slowly beyond, and faster again
// above it if no limit is reached. Above a limit the rate is halved, and not again before the metric's window
// excludes the time before. Above twice a limit, or at the minimum rate, the copy pauses until the metric is
// within the limit again. So it runs near the limit and exceeds it rarely and briefly. If a limit is already
// exceeded at the start, the copy waits.
type throttle struct {
	limits   []Limit
	patience time.Duration // how long a source may be unavailable

	rate      float64 // permitted by the limits, between minRate and 1
	maxRate   float64 // permitted by the operator: 0 pauses, 1 is unlimited
	limitRate float64 // the rate at which a limit was last reached; 0: never
	growth    float64 // per second, beyond met
	double    float64 // minimum time in seconds to double the rate
	stopped   bool
	crossed   bool   // a limit is exceeded now, or its metric unknown
	because   string // the limit that last cut the rate; empty if none has, or the cut was recovered

	settled time.Duration   // before this time, an exceeded limit does not cut again
	silent  []time.Duration // by limit: since when its source has been unavailable
	last    time.Duration   // time of the last reading
	looked  bool

	held    []time.Duration // by limit: how long it delayed the copy
	holding int             // the limit that delays now, or -1
}

const (
	// minRate is the minimum rate before the copy pauses.
	minRate = 1.0 / 64

	// initialRate is the initial rate of a copy with limits: its cost is not known yet.
	initialRate = 1.0 / 8

	// roomLeft is the fraction of a limit below which the rate grows.
	roomLeft = 0.85

	// hardRatio is the multiple of a limit above which the copy pauses immediately.
	hardRatio = 2

	fastUpTo   = 0.75 // of the rate at which a limit was reached
	slowGrowth = 0.02 // per second
)

// A Limit is the bound of a metric that the copy respects by slowing down.
type Limit struct {
	Kind   LimitKind
	Name   string        // for messages, such as "lag of replica db3:3306"
	Unit   string        // "s", "ms" or empty
	Bound  float64       // in the unit
	Memory time.Duration // time window of the metric, after which a cut is fully visible
}

// A reading is the result of polling a source.
type reading struct {
	value float64
	err   error // the metric is unavailable
}

func newThrottle(limits []Limit, patience time.Duration) *throttle {
	t := &throttle{limits: limits, patience: patience, rate: initialRate, maxRate: 1, holding: -1, double: 1}
	t.silent, t.held = make([]time.Duration, len(limits)), make([]time.Duration, len(limits))
	for i := range t.silent {
		t.silent[i] = -1
	}
	if len(limits) == 0 {
		t.rate = 1
	}
	for _, l := range limits {
		t.double = max(t.double, l.Memory.Seconds()/2)
	}
	return t
}

// update processes a reading of each limit at now, the time since the start. It fails if a source has been
// unavailable for longer than the patience.
func (t *throttle) update(now time.Duration, readings []reading) error {
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
	if t.rate < 1 && worst >= 0 && t.because != "" {
		t.holding = worst
	}
	return nil
}

// ratio returns the ratio of a value to the bound: 1 is at the bound.
func (l *Limit) ratio(v float64) float64 {
	switch {
	case v <= l.Bound && l.Bound <= 0:
		return 0
	case l.Bound <= 0:
		return hardRatio // every positive value is far above a bound of 0
	}
	return v / l.Bound
}

// over processes a metric above its limit; first reports the first reading of all.
func (t *throttle) over(now time.Duration, limit int, ratio, value float64, first bool) {
	l := &t.limits[limit]
	t.because = fmt.Sprintf("the %s is %s, over %s", l.Name, l.text(value), l.text(l.Bound))
	t.crossed, t.holding = true, limit
	t.stopped = t.stopped || first
	hard := ratio >= hardRatio
	if t.stopped || !hard && now < t.settled {
		return
	}
	t.limitRate, t.growth = t.rate, slowGrowth
	t.stopped = hard || t.rate == minRate
	t.rate = max(minRate, t.rate/2)
	t.settled = now + l.Memory
}

// under processes metrics that are all within their limits.
func (t *throttle) under(since time.Duration, ratio float64) {
	t.crossed = false
	if t.stopped {
		t.stopped = false // resume with the remaining rate
		return
	}
	if ratio > roomLeft {
		t.growth = slowGrowth
		return
	}
	t.grow(since.Seconds())
	if t.rate >= 1 {
		t.rate, t.because = 1, ""
	}
}

// grow raises the rate after a time in seconds below all limits.
func (t *throttle) grow(seconds float64) {
	times := math.Exp2(seconds / t.double)
	switch fast := fastUpTo * t.limitRate; {
	case t.limitRate == 0:
		t.rate *= times
	case t.rate < fast:
		t.rate = min(fast, t.rate*times)
	case t.rate < t.limitRate:
		t.rate += slowGrowth * seconds
	default:
		t.rate += t.growth * seconds
		t.growth *= times
	}
}

// allowed returns the current rate; 0 pauses the copy.
func (t *throttle) allowed() float64 {
	if t.stopped || len(t.limits) > 0 && !t.looked {
		return 0
	}
	return min(t.rate, t.maxRate)
}

// reason returns why the copy is not at full speed; empty if it is.
func (t *throttle) reason() string {
	switch {
	case t.maxRate == 0:
		return "paused by ctl pause or throttle"
	case len(t.limits) > 0 && !t.looked:
		return "the limits' first figures are waited for"
	case t.stopped:
		return t.because
	case t.maxRate < t.rate:
		return fmt.Sprintf("held to %s of its speed by ctl throttle", percent(t.maxRate))
	case t.rate == 1:
		return ""
	case t.crossed:
		return t.because
	case t.because != "":
		return "the speed is raised again slowly; what cut it: " + t.because
	}
	return "the speed is raised slowly, to find out what the limits allow"
}

// text formats a value with its unit.
func (l *Limit) text(v float64) string {
	if l.Unit == "" {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.4g %s", v, l.Unit)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
