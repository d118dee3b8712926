package throttle

import (
	"fmt"
	"slices"
)

// A Status is the rate of a copy, and its reason.
type Status struct {
	Share   float64       `json:"share"`   // current rate, a fraction of full speed; 0: paused
	Most    float64       `json:"most"`    // the maximum rate set by ctl throttle; 1: unlimited
	Stopped bool          `json:"stopped"` // share is 0
	Reason  string        `json:"reason"`  // why it is not at full speed; empty if it is
	Limits  []LimitStatus `json:"limits"`
}

// A LimitStatus is a limit with the last value of its metric.
type LimitStatus struct {
	Kind        LimitKind `json:"kind"`
	Name        string    `json:"name"`
	Unit        string    `json:"unit"` // s, ms or empty
	Bound       float64   `json:"bound"`
	Value       float64   `json:"value"`
	Error       string    `json:"error,omitempty"` // why the value is unknown
	HeldSeconds float64   `json:"held_seconds"`    // how long it has delayed the copy
}

// A LimitChange changes limits while a copy runs; nil fields are unchanged.
type LimitChange struct {
	Share          *float64 `json:"share,omitempty"` // maximum fraction of full speed: 0 pauses it, 1 removes the maximum
	Lag            *float64 `json:"max_lag_seconds,omitempty"`
	ThreadsRunning *float64 `json:"max_threads_running,omitempty"`
	Above          *float64 `json:"throttle_above,omitempty"`
	P99            *float64 `json:"max_p99_ms,omitempty"`
}

// change applies a change atomically.
func (t *throttle) change(c LimitChange) error {
	if c.Share != nil && !(*c.Share >= 0 && *c.Share <= 1) {
		return fmt.Errorf("a share of %v: use 0 to 1", *c.Share)
	}
	limits := slices.Clone(t.limits)
	for _, wanted := range []struct {
		kind  LimitKind
		bound *float64
		flag  string
	}{{LimitLag, c.Lag, "option max-lag"}, {LimitThreads, c.ThreadsRunning, "option max-threads-running"}, {LimitQuery, c.Above, "option throttle-above"}, {LimitP99, c.P99, "option max-p99"}} {
		if wanted.bound == nil {
			continue
		}
		if !(*wanted.bound >= 0) {
			return fmt.Errorf("%s %v: use 0 or more", wanted.flag, *wanted.bound)
		}
		found := false
		for i := range limits {
			if limits[i].Kind == wanted.kind {
				limits[i].Bound, found = *wanted.bound, true
			}
		}
		if !found {
			return fmt.Errorf("the copy was started without %s, so it does not know that figure: stop it and run it again with it", wanted.flag)
		}
	}
	t.limits = limits
	if c.Share != nil {
		t.maxRate = *c.Share
	}
	return nil
}

// SetLimits applies a change of limits atomically, with immediate effect.
func (p *Pacer) SetLimits(c LimitChange) error {
	p.mu.Lock()
	err := p.core.change(c)
	p.allow()
	rate, reason, news := p.unreported()
	p.mu.Unlock()
	if news {
		p.o.Observe(rate, reason)
	}
	return err
}

// Status returns the rate and the limits.
func (p *Pacer) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.core
	s := Status{Share: t.allowed(), Most: t.maxRate, Reason: t.reason(), Limits: []LimitStatus{}}
	s.Stopped = s.Share == 0
	for i, l := range t.limits {
		ls := LimitStatus{Kind: l.Kind, Name: l.Name, Unit: l.Unit, Bound: l.Bound, Value: p.values[i].value, HeldSeconds: t.held[i].Seconds()}
		if err := p.values[i].err; err != nil {
			ls.Error, ls.Value = err.Error(), 0
		}
		s.Limits = append(s.Limits, ls)
	}
	return s
}
