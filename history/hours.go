package history

import (
	"context"
	"math"
	"time"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// An hourDeriver sums up the increases of each Key's samples in a time range (start, end]: a sample at a
// boundary belongs to the range before it, as in PromQL.
//
// Between two samples of a series, either its counter has grown, or its Key was evicted, has returned and has
// counted from 0. The counts of an evicted Key are included in Evicted, so an increase of Evicted without an
// increase of a Key consists of calls counted by Keys after their last sample. This is Evicted's row, and the
// sum over all rows equals the increase of the sum over all series. A Key that returns is written some
// seconds before Evicted is. If the hour ends in between, the rollup records the difference as a carry, and
// the next hour's Evicted does not count it again.
type hourDeriver struct {
	start, end int64 // Unix milliseconds
	rows       map[stmtstats.Key]*rollup.Row
	other      rollup.Row
	evicted    rollup.Row       // except the durations, which are in spread
	owed       rollup.Carry     // by the previous hour
	lost       stmtstats.Counts // counts of evicted Keys
	lostSpread stmtstats.Histogram
	gained     stmtstats.Histogram // of Evicted
	last       int64               // of the newest sample
	spread     stmtseries.SpreadGrowth
}

// hourSamples are the samples of an instance.
type hourSamples struct{ *instance }

var _ rollup.HourSource = hourSamples{}

// Start implements rollup.HourSource.
func (s hourSamples) Start() int64 { return localdb.Start(s.db.Current()) }

// Next implements rollup.HourSource.
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

// Derive implements rollup.HourSource. Samples up to the base of the instance include earlier counts.
func (s hourSamples) Derive(ctx context.Context, start time.Time, since int64, before rollup.Carry) (*rollup.Rollup, error) {
	d := &hourDeriver{
		start: max(start.UnixMilli(), s.base), end: start.Add(rollup.Hour).UnixMilli(),
		rows: make(map[stmtstats.Key]*rollup.Row), owed: before,
	}
	samples := stmtseries.Range{DB: s.db, From: min(since, d.start), To: d.end}
	if err := samples.Read(ctx, stmtseries.OfKey, d.add); err != nil {
		return nil, err
	}
	if d.last == 0 {
		return nil, nil
	}
	texts, err := samples.Texts(ctx)
	if err != nil {
		return nil, err
	}
	r := &rollup.Rollup{Start: start.UTC(), Span: rollup.Hour, Last: d.last}
	for k, row := range d.rows {
		if !row.Counts.Any() {
			continue
		}
		row.Print, row.Key, row.Text = rollup.PrintOf(&k), k, texts[k.Digest]
		r.Rows = append(r.Rows, *row)
	}
	return r, d.sums(r)
}

// roundedSums is less than what the sums of series, in seconds, can differ by from the sum of their differences.
const roundedSums = time.Millisecond

// sums adds the rows of Other and Evicted.
func (d *hourDeriver) sums(r *rollup.Rollup) error {
	if d.other.Counts.Any() {
		d.other.Print = rollup.OtherPrint()
		r.Rows = append(r.Rows, d.other)
	}
	e := &d.evicted
	e.Counts[stmtstats.Nanos], d.lost[stmtstats.Nanos] = d.gained.Nanos, d.lostSpread.Nanos
	before := &stmtstats.Histogram{Nanos: d.owed.Counts[stmtstats.Nanos]}
	if err := before.AddSpread(d.owed.Spread); err != nil {
		return err
	}
	e.Counts.Subtract(&d.owed.Counts)
	d.gained.Subtract(before)

	r.Carry.Counts = d.lost
	r.Carry.Counts.Subtract(&e.Counts)
	left := d.lostSpread
	left.Subtract(&d.gained)
	r.Carry.Spread = left.AppendSpread(nil)

	e.Counts.Subtract(&d.lost)
	d.gained.Subtract(&d.lostSpread)
	if e.Counts[stmtstats.Calls] > 0 || e.Counts[stmtstats.Nanos] > uint64(roundedSums) {
		e.Spread = d.gained.AppendSpread(nil)
		e.Print = rollup.EvictedPrint()
		r.Rows = append(r.Rows, *e)
	}
	return nil
}

// row returns the row that a series' increase is added to.
func (d *hourDeriver) row(k stmtstats.Key, kind stmtstats.Kind) *rollup.Row {
	switch kind {
	case stmtstats.Other:
		return &d.other
	case stmtstats.Evicted:
		return &d.evicted
	}
	row := d.rows[k]
	if row == nil {
		row = &rollup.Row{}
		d.rows[k] = row
	}
	return row
}

// add adds one series.
func (d *hourDeriver) add(s *stmtseries.Samples) error {
	k, kind, class, err := s.ID()
	if err != nil {
		return err
	}
	if s.Metric == stmtseries.Duration {
		return d.addDurations(s, k, kind)
	}
	g := stmtseries.Growth{Start: d.start}
	for s.Next() {
		g.Add(s)
	}
	d.last = max(d.last, g.Newest)
	if g.Grown == 0 && g.Lost == 0 {
		return nil
	}
	row := d.row(k, kind)
	row.Counts[s.Metric.Counter(class)] += g.Grown
	if kind == stmtstats.Tracked {
		d.lost[s.Metric.Counter(class)] += g.Lost
	}
	return nil
}

func (d *hourDeriver) addDurations(s *stmtseries.Samples, k stmtstats.Key, kind stmtstats.Kind) error {
	g := &d.spread
	g.Begin()
	for s.Next() {
		if err := g.Add(s, d.start); err != nil {
			return err
		}
	}
	if err := g.Settle(); err != nil {
		return err
	}
	if kind == stmtstats.Tracked {
		d.lostSpread.Merge(&g.Lost)
	}
	if kind == stmtstats.Evicted {
		d.gained.Merge(&g.Grown)
		d.evicted.First, d.evicted.Last = g.First, g.Last
		return nil
	}
	if g.Grown.Count() == 0 && g.Grown.Nanos == 0 {
		return nil
	}
	d.last = max(d.last, g.Last)
	row := d.row(k, kind)
	row.First, row.Last = g.First, g.Last // the counters of a Key start later than its durations, if its first call is in flight
	row.Counts[stmtstats.Nanos] = g.Grown.Nanos
	row.Spread = g.Grown.AppendSpread(nil)
	return nil
}
