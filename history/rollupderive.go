package history

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/stmtstats"
)

// An hourDeriver adds up what the samples of a time say that each Key has counted in it: (start, end],
// since a sample at a border belongs to the time before it, as PromQL has it.
//
// Between two samples of a series its counter has grown, or a Key has made room and is back and has counted from 0. What a Key
// had when it made room is in Evicted; so what Evicted gains and no Key had is what Keys counted
// after their last sample. That is Evicted's row, and the sum over all rows is by how much the sum
// over all series grew. A Key that is back is written some seconds before Evicted is: where the hour ends
// between the two, the rollup says what it is owed, and the next hour's Evicted does not count that again.
type hourDeriver struct {
	start, end int64 // Unix milliseconds
	rows       map[stmtstats.Key]*rollupRow
	other      rollupRow
	evicted    rollupRow // of its spread, in spread
	owed       owed      // by the hour before
	lost       counts    // what Keys had that made room
	lostSpread stmtstats.Histogram
	gained     stmtstats.Histogram // Evicted's
	last       int64               // of the newest sample
	texts      map[[16]byte]string
}

// An owed is what Keys had that made room, and Evicted has only in the next hour.
type owed struct {
	counts counts
	spread []byte
}

// baseMargin is how long before the newest sample of a process each of its series has one for sure.
const baseMargin = 10 * time.Minute

// deriveHour returns the rollup of the hour from start, or nil if the hour has no samples. Samples before since are not
// needed, those up to base include earlier counts, and before holds the counts that the hour before left.
func deriveHour(ctx context.Context, db storage.Queryable, start time.Time, since, base int64, before owed) (*rollup, error) {
	d := &hourDeriver{
		start: max(start.UnixMilli(), base), end: start.Add(rollupHour).UnixMilli(),
		rows: make(map[stmtstats.Key]*rollupRow), texts: make(map[[16]byte]string),
		owed: before,
	}
	q, err := db.Querier(min(since, d.start), d.end)
	if err != nil {
		return nil, fmt.Errorf("read the samples of an hour: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	for _, c := range derivedCounters {
		if err := d.counters(ctx, q, c); err != nil {
			return nil, err
		}
	}
	if err := d.durations(ctx, q); err != nil {
		return nil, err
	}
	if d.last == 0 {
		return nil, nil
	}
	if err := d.infos(ctx, q); err != nil {
		return nil, err
	}
	r := &rollup{start: start.UTC(), span: rollupHour, last: d.last}
	for k, row := range d.rows {
		if row.counts.calls == 0 {
			continue
		}
		row.print, row.key, row.text = printOf(&k), k, d.texts[k.Digest]
		r.rows = append(r.rows, *row)
	}
	return r, d.sums(r)
}

// sums adds the rows of Other and Evicted.
func (d *hourDeriver) sums(r *rollup) error {
	if d.other.counts.calls > 0 {
		d.other.print = otherPrint()
		r.rows = append(r.rows, d.other)
	}
	e := &d.evicted
	e.counts.nanos, d.lost.nanos = d.gained.Nanos, d.lostSpread.Nanos
	before := &stmtstats.Histogram{Nanos: d.owed.counts.nanos}
	if err := before.AddSpread(d.owed.spread); err != nil {
		return err
	}
	e.counts.subtract(&d.owed.counts)
	d.gained.Subtract(before)

	r.owed.counts = d.lost
	r.owed.counts.subtract(&e.counts)
	left := d.lostSpread
	left.Subtract(&d.gained)
	r.owed.spread = left.AppendSpread(nil)

	e.counts.subtract(&d.lost)
	d.gained.Subtract(&d.lostSpread)
	if e.counts.calls > 0 {
		e.spread = d.gained.AppendSpread(nil)
		e.print = evictedPrint()
		r.rows = append(r.rows, *e)
	}
	return nil
}

// subtract takes away what o has; of what is less than that nothing remains.
func (c *counts) subtract(o *counts) {
	v, w := c.values(), o.values()
	for i := range v {
		v[i] -= min(v[i], w[i])
	}
	*c = countsFrom(&v)
}

// A derivedCounter is a metric and which count it is.
type derivedCounter struct {
	name  string
	count func(c *counts, class stmtstats.ErrorClass) *uint64
}

// The counters that rows have; the time is the histograms'.
var derivedCounters = []derivedCounter{
	{nameQueries, func(c *counts, _ stmtstats.ErrorClass) *uint64 { return &c.calls }},
	{nameRowsSent, func(c *counts, _ stmtstats.ErrorClass) *uint64 { return &c.rowsSent }},
	{nameRowsAffected, func(c *counts, _ stmtstats.ErrorClass) *uint64 { return &c.rowsAffected }},
	{nameBytesSent, func(c *counts, _ stmtstats.ErrorClass) *uint64 { return &c.bytesSent }},
	{nameErrors, func(c *counts, class stmtstats.ErrorClass) *uint64 { return &c.errors[class] }},
}

// row is where a series' growth belongs.
func (d *hourDeriver) row(k stmtstats.Key, kind stmtstats.Kind) *rollupRow {
	switch kind {
	case stmtstats.Other:
		return &d.other
	case stmtstats.Evicted:
		return &d.evicted
	}
	row := d.rows[k]
	if row == nil {
		row = &rollupRow{}
		d.rows[k] = row
	}
	return row
}

func selectName(ctx context.Context, q storage.Querier, name string, more ...*labels.Matcher) storage.SeriesSet {
	return q.Select(ctx, false, nil, append(more, labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, name))...)
}

// counters adds up one metric.
func (d *hourDeriver) counters(ctx context.Context, q storage.Querier, c derivedCounter) error {
	set := selectName(ctx, q, c.name)
	var it chunkenc.Iterator
	for set.Next() {
		k, kind, class, err := keyOfSeries(set.At().Labels())
		if err != nil {
			return err
		}
		it = set.At().Iterator(it)
		var g growth
		for at := it.Next(); at != chunkenc.ValNone; at = it.Next() {
			if at != chunkenc.ValFloat {
				return fmt.Errorf("%s: %w", c.name, errForeignSample)
			}
			t, v := it.At()
			g.sample(d, t, v)
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read %s: %w", c.name, err)
		}
		d.last = max(d.last, g.newest)
		if g.grown == 0 && g.lost == 0 {
			continue
		}
		row := d.row(k, kind)
		*c.count(&row.counts, class) += g.grown
		if kind == stmtstats.Tracked {
			*c.count(&d.lost, class) += g.lost
		}
		if c.name == nameQueries {
			row.first, row.last = g.first, g.last
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("read %s: %w", c.name, err)
	}
	return nil
}

var errForeignSample = errors.New("a sample is of a kind that the history does not write")

// growth follows a counter through the samples of one series.
type growth struct {
	value       float64 // of the last sample; 0 when the series has ended or not begun
	known       bool
	grown, lost uint64
	first, last int64 // when it began, if it did in the time; when it grew last
	newest      int64
}

func (g *growth) sample(d *hourDeriver, t int64, v float64) {
	stale := value.IsStaleNaN(v)
	if t > d.start {
		g.newest = t
	}
	switch {
	case t <= d.start:
		g.known = !stale
		if g.value = v; stale {
			g.value = 0
		}
		return
	case stale:
		g.lost += uint64(g.value)
		g.value, g.known = 0, false
		return
	}
	if !g.known && v == 0 && g.first == 0 {
		g.first = t + 1 // the 0 is a millisecond before the first call
	}
	grown := v - g.value
	if grown < 0 { // it is back, and counts from 0
		g.lost += uint64(g.value)
		grown = v
	}
	if grown > 0 {
		g.grown += uint64(grown)
		g.last = t
	}
	g.value, g.known = v, true
}

// durations adds up the histograms.
func (d *hourDeriver) durations(ctx context.Context, q storage.Querier) error {
	set := selectName(ctx, q, nameDuration)
	var it chunkenc.Iterator
	var g spreadGrowth
	for set.Next() {
		k, kind, _, err := keyOfSeries(set.At().Labels())
		if err != nil {
			return err
		}
		it = set.At().Iterator(it)
		g.begin()
		for at := it.Next(); at != chunkenc.ValNone; at = it.Next() {
			if at != chunkenc.ValHistogram {
				return fmt.Errorf("%s: %w", nameDuration, errForeignSample)
			}
			if err := g.sample(d, it); err != nil {
				return err
			}
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read %s: %w", nameDuration, err)
		}
		if err := g.end(); err != nil {
			return err
		}
		if kind == stmtstats.Tracked {
			d.lostSpread.Merge(&g.lost)
		}
		if kind == stmtstats.Evicted {
			d.gained.Merge(&g.grown)
			continue
		}
		if g.grown.Count() == 0 {
			continue
		}
		row := d.row(k, kind)
		row.counts.nanos = g.grown.Nanos
		row.spread = g.grown.AppendSpread(nil)
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("read %s: %w", nameDuration, err)
	}
	return nil
}

// spreadGrowth is growth of a histogram.
type spreadGrowth struct {
	now, next *histogram.Histogram // now is the last sample
	live      bool                 // now counts
	moved     bool                 // now is in the time
	base      stmtstats.Histogram  // what is not to be counted of now
	scratch   stmtstats.Histogram

	grown, lost stmtstats.Histogram
}

func (g *spreadGrowth) begin() {
	if g.now == nil {
		g.now, g.next = &histogram.Histogram{}, &histogram.Histogram{}
	}
	g.live, g.moved = false, false
	g.base.Reset()
	g.grown.Reset()
	g.lost.Reset()
}

func (g *spreadGrowth) sample(d *hourDeriver, it chunkenc.Iterator) error {
	t, h := it.AtHistogram(g.next)
	stale := value.IsStaleNaN(h.Sum)
	if t <= d.start {
		g.now, g.next, g.live = h, g.now, !stale
		return nil
	}
	if !g.moved {
		g.moved = true
		if g.live {
			if err := g.base.SetNative(g.now); err != nil {
				return err
			}
		}
	}
	if g.live && (stale || h.Count < g.now.Count) {
		if err := g.settle(true); err != nil {
			return err
		}
	}
	g.now, g.next, g.live = h, g.now, !stale
	return nil
}

// settle counts what now has more than base.
func (g *spreadGrowth) settle(gone bool) error {
	if err := g.scratch.SetNative(g.now); err != nil {
		return err
	}
	if gone {
		g.lost.Merge(&g.scratch)
	}
	g.scratch.Subtract(&g.base)
	g.grown.Merge(&g.scratch)
	g.base.Reset()
	return nil
}

func (g *spreadGrowth) end() error {
	if !g.live || !g.moved {
		return nil
	}
	return g.settle(false)
}

// infos reads the texts of the digests.
func (d *hourDeriver) infos(ctx context.Context, q storage.Querier) error {
	set := selectName(ctx, q, nameInfo)
	for set.Next() {
		ls := set.At().Labels()
		digest, err := parseDigest(ls.Get(labelDigest))
		if err != nil {
			return err
		}
		d.texts[digest] = strings.Clone(ls.Get(labelText))
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("read %s: %w", nameInfo, err)
	}
	return nil
}

// keyOfSeries is the Key that a series is of.
func keyOfSeries(ls labels.Labels) (k stmtstats.Key, kind stmtstats.Kind, class stmtstats.ErrorClass, err error) {
	ls.Range(func(l labels.Label) {
		switch l.Name {
		case labelDigest:
			switch {
			case l.Value == stmtstats.Other.String():
				kind = stmtstats.Other
			case l.Value == stmtstats.Evicted.String():
				kind = stmtstats.Evicted
			case len(l.Value) != 2*len(k.Digest):
				err = fmt.Errorf("series %v: digest %q", ls, l.Value)
			default:
				if _, decodeErr := hex.Decode(k.Digest[:], []byte(l.Value)); decodeErr != nil {
					err = fmt.Errorf("series %v: digest %q", ls, l.Value)
				}
			}
		case labelSchema:
			k.Schema = strings.Clone(l.Value)
		case labelUser:
			k.User = strings.Clone(l.Value)
		case labelBackend:
			k.Backend = strings.Clone(l.Value)
		case labelClass:
			class, _ = stmtstats.ParseErrorClass(l.Value)
		}
	})
	return k, kind, class, err
}
