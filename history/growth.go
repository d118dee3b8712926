package history

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/taredb/tare/stmtstats"
)

// A growth sums up by how much a counter grows between the samples of a series after start. A counter that
// falls belongs to a Key that was evicted and is back: it counts from 0 again.
type growth struct {
	start int64 // Unix milliseconds

	value       float64 // of the last sample; 0 when the series has ended or not begun
	known       bool
	grown, lost uint64 // lost is the Key's counter at its eviction
	first, last int64  // when it began, if it did after start; when it grew last
	newest      int64  // sample of a round
}

func (g *growth) sample(s *sampleSeries) {
	if s.t > g.start && s.v > 0 { // zero samples have times between rounds
		g.newest = s.t
	}
	switch {
	case s.stale:
		if s.t > g.start {
			g.lost += uint64(g.value)
		}
		g.value, g.known = 0, false
		return
	case s.t <= g.start:
		g.value, g.known = s.v, true
		return
	}
	if !g.known && s.v == 0 && g.first == 0 {
		g.first = s.t + 1 // the zero sample is a millisecond before the first call
	}
	grown := s.v - g.value
	if grown < 0 {
		g.lost += uint64(g.value)
		grown = s.v
	}
	if grown > 0 {
		g.grown += uint64(grown)
		g.last = s.t
	}
	g.value, g.known = s.v, true
}

// A spreadGrowth is the growth of a histogram. Samples are converted when settle needs them, not all.
type spreadGrowth struct {
	now   *histogram.Histogram // the last sample; nil when the series has ended or not begun
	after bool                 // now is after start
	base  stmtstats.Histogram  // the part of now that does not count

	whole, part stmtstats.Histogram // scratch
	grown, lost stmtstats.Histogram
}

func (g *spreadGrowth) begin() {
	g.now, g.after = nil, false
	g.base.Reset()
	g.grown.Reset()
	g.lost.Reset()
}

func (g *spreadGrowth) sample(s *sampleSeries, start int64) error {
	if s.t > start {
		if !g.after && g.now != nil {
			if err := g.base.SetNative(g.now); err != nil {
				return err
			}
		}
		g.after = true
		if g.now != nil && (s.stale || s.h.Count < g.now.Count) {
			if err := g.settle(); err != nil {
				return err
			}
			g.lost.Merge(&g.base)
			g.base.Reset()
		}
	}
	if g.now = s.h; s.stale {
		g.now = nil
	}
	return nil
}

// skip makes the sample the base: its series continues after a pause.
func (g *spreadGrowth) skip(s *sampleSeries) error {
	g.now, g.after = s.h, true
	return g.base.SetNative(g.now)
}

// settle adds the growth up to the last sample, which becomes the base.
func (g *spreadGrowth) settle() error {
	if g.now == nil || !g.after {
		return nil
	}
	if err := g.whole.SetNative(g.now); err != nil {
		return err
	}
	g.part.Reset()
	g.part.Merge(&g.whole)
	g.part.Subtract(&g.base)
	g.grown.Merge(&g.part)
	g.base, g.whole = g.whole, g.base
	return nil
}
