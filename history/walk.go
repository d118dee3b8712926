package history

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/stmtstats"
)

// maxWalk bounds the samples that are looked at for one answer.
const maxWalk = 4 << 20

var errWalk = errors.New("too many samples: ask for a shorter time")

// A step is what a series has grown by at one sample, or has lost.
type step struct {
	key    stmtstats.Key
	kind   stmtstats.Kind
	since  time.Time // of the calls: the sample before
	at     time.Time
	count  int // of derivedCounters; -1: durations
	class  stmtstats.ErrorClass
	grown  uint64
	spread *stmtstats.Histogram // of durations, valid during the call
	lost   bool                 // it counts from 0 again, and had counted so much: that is Evicted's
}

// A walk is a way through the samples of a time.
type walk struct {
	db       storage.Queryable
	digests  [][16]byte // nil: all, Other and Evicted too
	from, to time.Time
	interval time.Duration // between two rounds
	counters []derivedCounter
	most     int // samples; more are errWalk
}

// visit visits the growth of the series, sample by sample.
func (w *walk) visit(ctx context.Context, visit func(step)) error {
	q, err := w.db.Querier(w.from.UnixMilli()-lookback.Milliseconds()+1, w.to.UnixMilli())
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	var of []*labels.Matcher
	if w.digests != nil {
		names := make([]string, len(w.digests))
		for i, d := range w.digests {
			names[i] = hex.EncodeToString(d[:])
		}
		of = append(of, labels.MustNewMatcher(labels.MatchRegexp, labelDigest, strings.Join(names, "|")))
	}
	s := &walker{start: w.from.UnixMilli(), interval: w.interval.Milliseconds(), left: w.most, visit: visit, now: new(stmtstats.Histogram), was: new(stmtstats.Histogram)}
	for i, c := range w.counters {
		set := selectName(ctx, q, c.name, of...)
		for set.Next() {
			if err := s.counter(set.At(), i); err != nil {
				return err
			}
		}
		if err := set.Err(); err != nil {
			return fmt.Errorf("read %s: %w", c.name, err)
		}
	}
	set := selectName(ctx, q, nameDuration, of...)
	for set.Next() {
		if err := s.durations(set.At()); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("read %s: %w", nameDuration, err)
	}
	return nil
}

// walk visits the samples of all instances within the time of w.
func (a *Archive) walk(ctx context.Context, w *walk, visit func(step)) error {
	for _, part := range a.sampledParts(w.from, w.to) {
		of := *w
		of.db, of.from = part.db, part.from
		if err := of.visit(ctx, visit); err != nil {
			return err
		}
	}
	return nil
}

// A walker goes through series.
type walker struct {
	start    int64
	interval int64
	left     int // samples
	visit    func(step)
	it       chunkenc.Iterator
	h        histogram.Histogram
	now, was *stmtstats.Histogram
	grown    stmtstats.Histogram
}

// since is when that what a sample adds to the one before has happened. A round looks at all that was called since the last: a
// sample that is much older was the last of a rest.
func (w *walker) since(before, at int64, kind stmtstats.Kind) time.Time {
	switch {
	case kind == stmtstats.Evicted:
		before = at // it is what others had, and they lose it then
	case at-before > 2*w.interval:
		before = at - w.interval
	}
	return time.UnixMilli(before)
}

func (w *walker) counter(s storage.Series, count int) error {
	k, kind, class, err := keyOfSeries(s.Labels())
	if err != nil {
		return err
	}
	w.it = s.Iterator(w.it)
	d := hourDeriver{start: w.start}
	var g growth
	before := int64(0)
	for first := true; w.it.Next() == chunkenc.ValFloat; first = false {
		if w.left--; w.left < 0 {
			return errWalk
		}
		t, v := w.it.At()
		if first && v > 0 && t > w.start && !value.IsStaleNaN(v) {
			g.value, g.known = v, true // it goes on after a pause: what begins does so with a 0
			before = t
			continue
		}
		grown, lost := g.grown, g.lost
		g.sample(&d, t, v)
		at := time.UnixMilli(t)
		if g.lost > lost {
			w.visit(step{key: k, kind: kind, since: at, at: at, count: count, class: class, grown: g.lost - lost, lost: true})
		}
		if g.grown > grown {
			w.visit(step{key: k, kind: kind, since: w.since(before, t, kind), at: at, count: count, class: class, grown: g.grown - grown})
		}
		before = t
	}
	return w.it.Err()
}

func (w *walker) durations(s storage.Series) error {
	k, kind, _, err := keyOfSeries(s.Labels())
	if err != nil {
		return err
	}
	w.it = s.Iterator(w.it)
	w.was.Reset()
	count, before := uint64(0), int64(0)
	h := &w.h
	for first := true; w.it.Next() == chunkenc.ValHistogram; first = false {
		if w.left--; w.left < 0 {
			return errWalk
		}
		var t int64
		t, h = w.it.AtHistogram(h)
		stale := value.IsStaleNaN(h.Sum)
		if !stale && h.Count == count && t > w.start {
			before = t
			continue
		}
		at := time.UnixMilli(t)
		if stale || h.Count < count {
			if count > 0 && t > w.start {
				w.visit(step{key: k, kind: kind, since: at, at: at, count: -1, spread: w.was, lost: true})
			}
			w.was.Reset()
			if count = 0; stale {
				h, before = &w.h, t
				continue
			}
		}
		if err := w.now.SetNative(h); err != nil {
			return err
		}
		count = h.Count
		if t > w.start && (!first || h.Count == 0) { // else it goes on after a pause
			w.grown.Reset()
			w.grown.Merge(w.now)
			if w.grown.Subtract(w.was); w.grown.Count() > 0 {
				w.visit(step{key: k, kind: kind, since: w.since(before, t, kind), at: at, count: -1, spread: &w.grown})
			}
		}
		w.now, w.was = w.was, w.now
		before = t
	}
	return w.it.Err()
}
