package throttle

import (
	"fmt"
	"math"
	"time"
)

// The throttle is the pure core: readings of the limits' metrics go in, the fraction of full speed at which
// the copy may run comes out. It has no server and no clock (testdata/throttle).
//
// Far below all limits the rate doubles every second until a limit is first exceeded, and grows slower the nearer one is. From
// then on, each time that a limit is exceeded takes 15 % of the rate, and each second in which none is gives so much back that
// the two balance when the copy causes 2 % of the seconds to exceed a limit, besides those that exceed it without the copy; more
// while no metric was near its limit lately.
//
// When a limit is exceeded, half of the rate is used at once, half of that if it still is when the metric's window
// excludes the time before, and so on; the copy pauses above twice the limit, and at the minimum rate. These moments
// also show how often the limit is exceeded without the copy: traffic alone exceeds a limit near its own p99 now
// and then, and slowing down for that would gain nothing. If a limit is already exceeded at the start, the copy
// waits.
type throttle struct {
	limits   []Limit
	patience time.Duration // how long a source may be unavailable

	rate      float64 // learned, between minRate and 1
	dip       float64 // the fraction of rate that is used after a limit was exceeded; 1: all
	maxRate   float64 // permitted by the operator: 0 pauses, 1 is unlimited
	limitRate float64 // the rate at which a limit was last exceeded; 0: never
	faster    float64 // multiple of the growth, above limitRate
	peak      float64 // the greatest ratio of a metric to its limit lately: it halves in peakHalves seconds
	others    float64 // the part of the readings in which a limit is exceeded although the copy dips or is paused
	samples   float64 // readings that others is the mean of
	sampled   bool    // others has the reading after the last cut
	stopped   bool
	crossed   bool   // a limit is exceeded now, or its metric unknown
	because   string // the limit that last cut the rate; empty if none has, or the cut was recovered

	since   time.Duration   // when the limit was exceeded that is
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

	// frequent is the part of the readings that exceed a limit without the copy above which one more is no reason to dip: it
	// does so when the limit is still exceeded a second later.
	frequent  = 0.1
	oneSecond = time.Second

	excess       = 0.02 // of the seconds in which a limit is exceeded because of the copy
	theirs       = 0.6  // of others, which has some that the copy causes while it dips
	loss         = 0.15 // of the rate, each time that a limit is exceeded
	leastDip     = 1.0 / 16
	othersWeight = 0.05 // of one reading, at least
	mostOthers   = 0.4
	doubleFaster = 10.0 // seconds in which the growth doubles above limitRate
	peakHalves   = 8.0
	headGrowth   = 0.1 // of the rate per second, where the peak is 0; none where it is at roomLeft
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
	t := &throttle{limits: limits, patience: patience, rate: initialRate, dip: 1, maxRate: 1, faster: 1, holding: -1}
	t.silent, t.held = make([]time.Duration, len(limits)), make([]time.Duration, len(limits))
	for i := range t.silent {
		t.silent[i] = -1
	}
	if len(limits) == 0 {
		t.rate = 1
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
				return fmt.Errorf("the %s is not known for %v (option throttle-patience): %w", t.limits[i].Name, t.patience, r.err)
			}
			worst = i
			continue
		}
		t.silent[i] = -1
		if x := t.limits[i].ratio(r.value); x > ratio && (worst < 0 || readings[worst].err == nil) {
			worst, ratio = i, x
		}
	}
	t.peak = max(ratio, t.peak*math.Exp2(-since.Seconds()/peakHalves))
	switch {
	case worst >= 0 && readings[worst].err != nil:
		t.stopped, t.crossed, t.holding = true, true, worst
		t.because = fmt.Sprintf("the %s is not known: %v", t.limits[worst].Name, readings[worst].err)
	case ratio > 1:
		t.over(now, worst, ratio, readings[worst].value, first)
	default:
		t.under(now, since, ratio)
	}
	if t.limited() < 1 && worst >= 0 && t.because != "" {
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
	if !t.crossed {
		t.since = now
	}
	again := t.crossed
	t.because = fmt.Sprintf("the %s is %s, over %s", l.Name, l.text(value), l.text(l.Bound))
	t.crossed, t.holding = true, limit
	t.sample(now, 1)
	t.stopped = t.stopped || first
	hard := ratio >= hardRatio
	if t.stopped || !hard && now < t.settled {
		return
	}
	if t.dip == 1 || !again && t.others <= frequent { // in a dip a frequent exceedance is not that of the rate
		t.lose()
	}
	if t.others > frequent && now-t.since < oneSecond { // most likely without the copy
		t.settled = now + oneSecond
		return
	}
	t.stopped = hard || t.rate*t.dip <= minRate
	t.dip = max(leastDip, t.dip/2)
	t.settled, t.sampled = now+l.Memory, false
}

// lose takes a part of the rate because a limit is exceeded.
func (t *throttle) lose() {
	part := loss
	if t.limitRate == 0 || t.dip < 1 { // the rate has doubled until now, or even a fraction of it is too much
		part = 2 * loss
	}
	t.limitRate, t.faster = t.rate, 1
	t.rate = max(minRate, t.rate*(1-part))
}

// sample learns from the first reading that excludes the time before a cut: 1 if a limit is exceeded, otherwise 0.
func (t *throttle) sample(now time.Duration, exceeded float64) {
	if t.sampled || t.dip == 1 || now < t.settled {
		return
	}
	t.sampled = true
	t.samples++
	t.others = min(mostOthers, t.others+max(othersWeight, 1/(t.samples+9))*(exceeded-t.others))
}

// under processes metrics that are all within their limits.
func (t *throttle) under(now, since time.Duration, ratio float64) {
	t.crossed = false
	t.sample(now, 0)
	switch {
	case t.stopped:
		t.stopped = false // resume with the remaining rate
	case now < t.settled:
	case t.dip < 1:
		t.dip = min(1, t.dip*math.Exp2(since.Seconds()))
	case ratio > roomLeft:
		t.faster = 1
	default:
		t.grow(since.Seconds())
	}
	if t.rate >= 1 && t.dip == 1 {
		t.rate, t.because = 1, ""
	}
}

// grow raises the rate after a time in seconds below all limits.
func (t *throttle) grow(seconds float64) {
	room := max(0, 1-t.peak/roomLeft)
	if t.limitRate == 0 {
		t.rate *= math.Exp2(seconds * room)
		return
	}
	t.rate *= 1 + headGrowth*room*seconds
	if t.rate > t.limitRate {
		t.faster *= math.Exp2(seconds / doubleFaster)
	}
	permitted := theirs*t.others + excess
	t.rate *= math.Pow(1+loss*permitted/(1-permitted)*t.faster, seconds)
}

// limited returns the rate that the limits permit while the copy is not paused.
func (t *throttle) limited() float64 { return max(minRate, t.rate*t.dip) }

// allowed returns the current rate; 0 pauses the copy.
func (t *throttle) allowed() float64 {
	if t.stopped || len(t.limits) > 0 && !t.looked {
		return 0
	}
	return min(t.limited(), t.maxRate)
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
	case t.maxRate < t.limited():
		return fmt.Sprintf("held to %s of its speed by ctl throttle", percent(t.maxRate))
	case t.limited() == 1:
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
