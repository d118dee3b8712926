package history

import (
	"context"
	"time"

	"github.com/taredb/tare/stmtstats"
)

// maxWalk bounds the samples that are read for one result.
const maxWalk = 4 << 20

// A step is the growth of a series from one sample to the next, or its loss.
type step struct {
	key    stmtstats.Key
	kind   stmtstats.Kind
	since  time.Time // of the calls: the sample before
	at     time.Time
	metric *metric
	class  stmtstats.ErrorClass
	grown  uint64
	spread *stmtstats.Histogram // of durations, valid during the call
	lost   bool                 // the counter starts at 0 again; grown or spread are now part of Evicted
}

// A walk visits the growth of series, sample by sample.
type walk struct {
	digests  [][16]byte // nil: all, Other and Evicted too
	from, to time.Time
	interval time.Duration // between two rounds
	metrics  []*metric
	limit    int // samples
}

// walk visits the samples of all instances within the time of w.
func (a *Archive) walk(ctx context.Context, w *walk, visit func(step)) error {
	for _, part := range a.sampledParts(w.from, w.to) {
		samples := sampleRange{
			db: part.db, from: part.from.UnixMilli() - lookback.Milliseconds() + 1, to: w.to.UnixMilli(),
			digests: w.digests, limit: w.limit,
		}
		s := &stepper{start: part.from.UnixMilli(), interval: w.interval.Milliseconds(), visit: visit}
		if err := samples.read(ctx, w.metrics, s.add); err != nil {
			return err
		}
	}
	return nil
}

// A stepper turns samples into steps.
type stepper struct {
	start    int64 // Unix milliseconds
	interval int64
	visit    func(step)
	spread   spreadGrowth
}

// add visits the steps of a series. A series that begins after start with another value than 0 continues after a
// pause: its first sample is no step.
func (w *stepper) add(s *sampleSeries) error {
	k, kind, class, err := s.id()
	if err != nil {
		return err
	}
	of := step{key: k, kind: kind, class: class, metric: s.metric}
	if s.count == nil {
		return w.durations(s, of)
	}
	g := growth{start: w.start}
	before := int64(0)
	for first := true; s.next(); first = false {
		if first && s.v > 0 && s.t > w.start {
			g.value, g.known = s.v, true
			before = s.t
			continue
		}
		grown, lost := g.grown, g.lost
		g.sample(s)
		if of.grown = g.lost - lost; of.grown > 0 {
			w.lose(of, s.t)
		}
		if of.grown = g.grown - grown; of.grown > 0 {
			w.grow(of, before, s.t)
		}
		before = s.t
	}
	return nil
}

func (w *stepper) durations(s *sampleSeries, of step) error {
	g := &w.spread
	g.begin()
	count, before := uint64(0), int64(0)
	for first := true; s.next(); first = false {
		if first && s.t > w.start && !s.stale && s.h.Count > 0 {
			if err := g.skip(s); err != nil {
				return err
			}
			count, before = s.h.Count, s.t
			continue
		}
		if err := g.sample(s, w.start); err != nil {
			return err
		}
		if of.spread = &g.lost; g.lost.Count() > 0 {
			w.lose(of, s.t)
			g.lost.Reset()
		}
		if !s.stale && s.t > w.start && s.h.Count != count {
			if err := g.settle(); err != nil {
				return err
			}
			if of.spread = &g.grown; g.grown.Count() > 0 {
				w.grow(of, before, s.t)
				g.grown.Reset()
			}
		}
		if count, before = s.h.Count, s.t; s.stale {
			count = 0
		}
	}
	return nil
}

// grow visits calls between the sample before and the one at a time. A round visits all Keys that were called since the last
// one: a sample that is much older only refreshed the series.
func (w *stepper) grow(of step, before, at int64) {
	switch {
	case of.kind == stmtstats.Evicted:
		before = at // its calls were others', which lose them now
	case at-before > 2*w.interval:
		before = at - w.interval
	}
	of.since, of.at = time.UnixMilli(before), time.UnixMilli(at)
	w.visit(of)
}

func (w *stepper) lose(of step, at int64) {
	of.lost, of.since, of.at = true, time.UnixMilli(at), time.UnixMilli(at)
	w.visit(of)
}
