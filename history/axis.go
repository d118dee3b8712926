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
)

// An axis divides a time into points of one length.
type axis struct {
	from time.Time
	step time.Duration
	n    int
}

// newAxis divides a time into at most n points of a whole number of units.
func newAxis(from, to time.Time, n int, unit time.Duration) axis {
	units := max(1, int64((to.Sub(from)+unit-1)/unit))
	each := (units + int64(n) - 1) / int64(n)
	return axis{from: from, step: time.Duration(each) * unit, n: int((units + each - 1) / each)}
}

// axisOf are the points of an answer. Those of rollups are whole hours, or days where hours are no longer kept.
func (a *Archive) axisOf(p *plan, n int) axis {
	unit := time.Second
	if p.source == SourceRollups {
		if unit = rollupHour; a.options.Now().Sub(p.from) > hourAge {
			unit = rollupDay
		}
	}
	return newAxis(p.from, p.to, n, unit)
}

// point is the one that a time is in. Both ends belong to the axis.
func (x axis) point(t time.Time) int {
	return min(max(int(t.Sub(x.from)/x.step), 0), x.n-1)
}

// maxWalk bounds the samples that are looked at for one answer.
const maxWalk = 4 << 20

var errWalk = errors.New("too many samples: ask for a shorter time")

// A step is what a series has grown by at one sample.
type step struct {
	key    Key
	at     time.Time
	count  int // of derivedCounters; -1: durations
	class  ErrorClass
	grown  uint64
	spread *Histogram // of durations, valid during the call
}

// walk visits the growth of digests' series in a time, sample by sample.
func walk(ctx context.Context, db storage.Queryable, digests [][16]byte, from, to time.Time, counters bool, visit func(step)) error {
	q, err := db.Querier(from.UnixMilli()-lookback.Milliseconds()+1, to.UnixMilli())
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	var names []string
	for _, d := range digests {
		names = append(names, hex.EncodeToString(d[:]))
	}
	of := labels.MustNewMatcher(labels.MatchRegexp, labelDigest, strings.Join(names, "|"))
	w := walker{start: from.UnixMilli(), left: maxWalk, visit: visit}
	if counters {
		for i, c := range derivedCounters {
			set := selectName(ctx, q, c.name, of)
			for set.Next() {
				if err := w.counter(set.At(), i); err != nil {
					return err
				}
			}
			if err := set.Err(); err != nil {
				return fmt.Errorf("read %s: %w", c.name, err)
			}
		}
	}
	set := selectName(ctx, q, nameDuration, of)
	for set.Next() {
		if err := w.durations(set.At()); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("read %s: %w", nameDuration, err)
	}
	return nil
}

// A walker goes through series.
type walker struct {
	start int64
	left  int // samples
	visit func(step)
	it    chunkenc.Iterator
	now   Histogram
	was   Histogram
}

func (w *walker) counter(s storage.Series, count int) error {
	k, _, class, err := keyOfSeries(s.Labels())
	if err != nil {
		return err
	}
	w.it = s.Iterator(w.it)
	d := hourDeriver{start: w.start}
	var g growth
	for first := true; w.it.Next() == chunkenc.ValFloat; first = false {
		if w.left--; w.left < 0 {
			return errWalk
		}
		t, v := w.it.At()
		if first && v > 0 && t > w.start && !value.IsStaleNaN(v) {
			g.value, g.known = v, true // it goes on after a pause: what begins does so with a 0
			continue
		}
		before := g.grown
		if g.sample(&d, t, v); g.grown > before {
			w.visit(step{key: k, at: time.UnixMilli(t), count: count, class: class, grown: g.grown - before})
		}
	}
	return w.it.Err()
}

func (w *walker) durations(s storage.Series) error {
	k, _, _, err := keyOfSeries(s.Labels())
	if err != nil {
		return err
	}
	w.it = s.Iterator(w.it)
	w.was.Reset()
	count := uint64(0)
	h := &histogram.Histogram{}
	for first := true; w.it.Next() == chunkenc.ValHistogram; first = false {
		if w.left--; w.left < 0 {
			return errWalk
		}
		var t int64
		t, h = w.it.AtHistogram(h)
		stale := value.IsStaleNaN(h.Sum)
		if !stale && h.Count == count && t > w.start {
			continue
		}
		if stale || h.Count < count {
			w.was.Reset()
			if count = 0; stale {
				h = &histogram.Histogram{}
				continue
			}
		}
		if err := w.now.setNative(h); err != nil {
			return err
		}
		count = h.Count
		if t > w.start && (!first || h.Count == 0) { // else it goes on after a pause
			grown := w.now
			if grown.subtract(&w.was); grown.Count() > 0 {
				w.visit(step{key: k, at: time.UnixMilli(t), count: -1, spread: &grown})
			}
		}
		w.was = w.now
	}
	return w.it.Err()
}

// points fills in the load of each row over the time.
func (a *Archive) points(ctx context.Context, q *TopQuery, top *Top) error {
	p := &plan{from: top.From, to: top.To, source: top.Source}
	x := a.axisOf(p, q.Points)
	for i := range top.Rows {
		top.Rows[i].Points = make([]float64, x.n)
	}
	if top.Source == SourceSamples {
		rows := make(map[Key]*TopRow)
		var digests [][16]byte
		for i := range top.Rows {
			rows[top.Rows[i].Key] = &top.Rows[i]
			digests = append(digests, top.Rows[i].Digest)
		}
		if len(digests) == 0 {
			return nil
		}
		return walk(ctx, a.db, digests, top.From, top.To, false, func(s step) {
			if row := rows[s.key]; row != nil {
				row.Points[x.point(s.at)] += s.spread.Sum() / x.step.Seconds()
			}
		})
	}
	p, err := a.plan(ctx, top.From, top.To, q.AllInstances, true)
	if err != nil {
		return err
	}
	return p.try(func() error {
		for i := range top.Rows {
			clear(top.Rows[i].Points)
		}
		return p.each(ctx, func(f *rollupFile, file *planned) error {
			prints, err := f.whole(colPrints, nil)
			if err != nil {
				return err
			}
			nanos, err := f.raw(colNanos)
			if err != nil {
				return err
			}
			for i := range top.Rows {
				if row := findPrint(prints, f.count, printOf(&top.Rows[i].Key)); row >= 0 {
					top.Rows[i].Points[x.point(file.begin)] += float64(nanos.at(row)) / 1e9 / x.step.Seconds()
				}
			}
			return nil
		})
	})
}
