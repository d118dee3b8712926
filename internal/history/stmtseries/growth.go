package stmtseries

import (
	"github.com/prometheus/prometheus/model/histogram"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A Growth adds up the increase of a counter between the samples of a series after Start. A counter that
// decreases belongs to a Key that returned after its eviction: it counts from 0 again.
type Growth struct {
	Start int64 // Unix milliseconds

	Grown, Lost uint64 // Lost is the Key's counter at its eviction
	Newest      int64  // time of the last sample of a round

	value float64 // of the last sample; 0 if the series has ended or not started
}

// Skip makes the current sample the base: its series continues after a pause.
func (g *Growth) Skip(s *Samples) { g.value = s.V }

// Add adds the increase up to a sample.
func (g *Growth) Add(s *Samples) {
	if s.T > g.Start && s.V > 0 { // zero samples have times between rounds
		g.Newest = s.T
	}
	switch {
	case s.Stale:
		if s.T > g.Start {
			g.Lost += uint64(g.value)
		}
		g.value = 0
		return
	case s.T <= g.Start:
		g.value = s.V
		return
	}
	grown := s.V - g.value
	if grown < 0 {
		g.Lost += uint64(g.value)
		grown = s.V
	}
	g.Grown += uint64(grown)
	g.value = s.V
}

// A SpreadGrowth is the increase of a histogram. Only the samples that Settle needs are converted.
type SpreadGrowth struct {
	Grown, Lost stmtstats.Histogram
	First, Last int64 // start of the series, if after the start; time of the last increase

	now         *histogram.Histogram // the last sample; nil if the series has ended or not started
	after       bool                 // now is after the start
	base        stmtstats.Histogram  // the part of now that does not count
	whole, part stmtstats.Histogram  // scratch
}

// Begin resets g for another series.
func (g *SpreadGrowth) Begin() {
	g.now, g.after, g.First, g.Last = nil, false, 0, 0
	g.base.Reset()
	g.Grown.Reset()
	g.Lost.Reset()
}

// Add adds a sample. Counts up to the time start do not count as growth.
func (g *SpreadGrowth) Add(s *Samples, start int64) error {
	if s.T > start {
		if !g.after && g.now != nil {
			if err := g.base.SetNative(g.now); err != nil {
				return err
			}
		}
		g.after = true
		g.times(s)
		if g.now != nil && (s.Stale || s.H.Count < g.now.Count || s.H.Sum < g.now.Sum) {
			if err := g.Settle(); err != nil {
				return err
			}
			g.Lost.Merge(&g.base)
			g.base.Reset()
		}
	}
	if g.now = s.H; s.Stale {
		g.now = nil
	}
	return nil
}

// times sets First and Last. The sum grows without the count while calls are in flight.
func (g *SpreadGrowth) times(s *Samples) {
	switch {
	case s.Stale:
	case g.now != nil:
		if s.H.Count != g.now.Count || s.H.Sum != g.now.Sum {
			g.Last = s.T
		}
	case s.H.Count == 0 && s.H.Sum == 0:
		if g.First == 0 {
			g.First = s.T + 1 // the zero sample is a millisecond before the first call
		}
	default:
		g.Last = s.T
	}
}

// Skip makes the current sample the base: its series continues after a pause.
func (g *SpreadGrowth) Skip(s *Samples) error {
	g.now, g.after = s.H, true
	return g.base.SetNative(g.now)
}

// Settle adds the increase up to the last sample, which becomes the base.
func (g *SpreadGrowth) Settle() error {
	if g.now == nil || !g.after {
		return nil
	}
	if err := g.whole.SetNative(g.now); err != nil {
		return err
	}
	g.part.Reset()
	g.part.Merge(&g.whole)
	g.part.Subtract(&g.base)
	g.Grown.Merge(&g.part)
	g.base, g.whole = g.whole, g.base
	return nil
}
