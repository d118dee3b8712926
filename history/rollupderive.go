package history

import (
	"context"
	"math"
	"time"

	"github.com/taredb/tare/history/localdb"
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
	spread     spreadGrowth
}

// hourSamples are the samples of an instance.
type hourSamples struct{ *instance }

var _ hourSource = hourSamples{}

// Start implements hourSource.
func (s hourSamples) Start() int64 { return localdb.Start(s.db.Current()) }

// Next implements hourSource.
func (s hourSamples) Next(from int64) int64 {
	db := s.db.Current()
	next := int64(math.MaxInt64)
	if head := db.Head(); head.NumSeries() > 0 && head.MaxTime() >= from {
		next = max(head.MinTime(), from)
	}
	for _, m := range db.BlockMetas() {
		if m.MaxTime > from {
			next = min(next, max(m.MinTime, from))
		}
	}
	return next
}

// Derive implements hourSource. Samples up to the base of the instance include earlier counts.
func (s hourSamples) Derive(ctx context.Context, start time.Time, since int64, before owed) (*rollup, error) {
	d := &hourDeriver{
		start: max(start.UnixMilli(), s.base), end: start.Add(rollupHour).UnixMilli(),
		rows: make(map[stmtstats.Key]*rollupRow), owed: before,
	}
	samples := sampleRange{db: s.db, from: min(since, d.start), to: d.end}
	if err := samples.read(ctx, allMetrics, d.add); err != nil {
		return nil, err
	}
	if d.last == 0 {
		return nil, nil
	}
	texts, err := samples.texts(ctx)
	if err != nil {
		return nil, err
	}
	r := &rollup{start: start.UTC(), span: rollupHour, last: d.last}
	for k, row := range d.rows {
		if row.counts.calls == 0 {
			continue
		}
		row.print, row.key, row.text = printOf(&k), k, texts[k.Digest]
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

// add adds up one series.
func (d *hourDeriver) add(s *sampleSeries) error {
	k, kind, class, err := s.id()
	if err != nil {
		return err
	}
	if s.count == nil {
		return d.addDurations(s, k, kind)
	}
	g := growth{start: d.start}
	for s.next() {
		g.sample(s)
	}
	d.last = max(d.last, g.newest)
	if g.grown == 0 && g.lost == 0 {
		return nil
	}
	row := d.row(k, kind)
	*s.count(&row.counts, class) += g.grown
	if kind == stmtstats.Tracked {
		*s.count(&d.lost, class) += g.lost
	}
	if s.name == nameQueries {
		row.first, row.last = g.first, g.last
	}
	return nil
}

func (d *hourDeriver) addDurations(s *sampleSeries, k stmtstats.Key, kind stmtstats.Kind) error {
	g := &d.spread
	g.begin()
	for s.next() {
		if err := g.sample(s, d.start); err != nil {
			return err
		}
	}
	if err := g.settle(); err != nil {
		return err
	}
	if kind == stmtstats.Tracked {
		d.lostSpread.Merge(&g.lost)
	}
	if kind == stmtstats.Evicted {
		d.gained.Merge(&g.grown)
		return nil
	}
	if g.grown.Count() == 0 {
		return nil
	}
	row := d.row(k, kind)
	row.counts.nanos = g.grown.Nanos
	row.spread = g.grown.AppendSpread(nil)
	return nil
}
