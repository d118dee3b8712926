package statements

import (
	"context"
	"time"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// maxWalk bounds the samples that are read for one result.
const maxWalk = 4 << 20

// A step is the growth of a series from one sample to the next, or its loss.
type step struct {
	key    stmtstats.Key
	kind   stmtstats.Kind
	since  time.Time // of the calls: time of the previous sample
	at     time.Time
	metric stmtseries.Metric
	class  stmtstats.ErrorClass
	grown  uint64
	spread *stmtstats.Histogram // of durations, valid during the call
	lost   bool                 // the counter restarts from 0; grown or spread are now part of Evicted
}

// A walk visits the growth of series, sample by sample.
type walk struct {
	digests  [][16]byte // nil: all, including Other and Evicted
	from, to time.Time
	interval time.Duration // between two rounds
	metrics  []stmtseries.Metric
	limit    int // samples
}

// walk visits the samples of all instances within the range of w.
func (a *ArchiveReader) walk(ctx context.Context, w *walk, visit func(step)) error {
	for _, part := range a.sampledParts(w.from, w.to) {
		samples := stmtseries.Range{
			DB: part.Samples, From: part.from.UnixMilli() - stmtseries.Lookback.Milliseconds() + 1, To: w.to.UnixMilli(),
			Digests: w.digests, Limit: w.limit, Counts: readingOf(ctx).counts(),
		}
		s := &stepper{start: part.from.UnixMilli(), interval: w.interval.Milliseconds(), visit: visit}
		if err := samples.Read(ctx, w.metrics, s.add); err != nil {
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
	spread   stmtseries.SpreadGrowth
}

// add visits the steps of a series. A series that starts after start with a value other than 0 continues
// after a pause: its first sample is no step.
func (w *stepper) add(s *stmtseries.Samples) error {
	k, kind, class, err := s.ID()
	if err != nil {
		return err
	}
	of := step{key: k, kind: kind, class: class, metric: s.Metric}
	if s.Metric == stmtseries.Duration {
		return w.durations(s, of)
	}
	g := stmtseries.Growth{Start: w.start}
	before := int64(0)
	for first := true; s.Next(); first = false {
		if first && s.V > 0 && s.T > w.start {
			g.Skip(s)
			before = s.T
			continue
		}
		grown, lost := g.Grown, g.Lost
		g.Add(s)
		if of.grown = g.Lost - lost; of.grown > 0 {
			w.lose(of, s.T)
		}
		if of.grown = g.Grown - grown; of.grown > 0 {
			w.grow(of, before, s.T)
		}
		before = s.T
	}
	return nil
}

func (w *stepper) durations(s *stmtseries.Samples, of step) error {
	g := &w.spread
	g.Begin()
	count, total, before := uint64(0), 0.0, int64(0)
	for first := true; s.Next(); first = false {
		if first && s.T > w.start && !s.Stale && (s.H.Count > 0 || s.H.Sum > 0) {
			if err := g.Skip(s); err != nil {
				return err
			}
			count, total, before = s.H.Count, s.H.Sum, s.T
			continue
		}
		if err := g.Add(s, w.start); err != nil {
			return err
		}
		if of.spread = &g.Lost; g.Lost.Count() > 0 || g.Lost.Nanos > 0 {
			w.lose(of, s.T)
			g.Lost.Reset()
		}
		if !s.Stale && s.T > w.start && (s.H.Count != count || s.H.Sum != total) { // the sum has statements in flight, too
			if err := g.Settle(); err != nil {
				return err
			}
			if of.spread = &g.Grown; g.Grown.Count() > 0 || g.Grown.Nanos > 0 {
				w.grow(of, before, s.T)
				g.Grown.Reset()
			}
		}
		if count, total, before = s.H.Count, s.H.Sum, s.T; s.Stale {
			count, total = 0, 0
		}
	}
	return nil
}

// grow visits the calls between the previous sample and the one at a time. A round visits all Keys that were
// called since the last one: a sample that is much older only refreshed the series.
func (w *stepper) grow(of step, before, at int64) {
	switch {
	case of.kind == stmtstats.Evicted:
		before = at // its calls are those of other Keys, which lose them at this time
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
