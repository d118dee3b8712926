package statements

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/parallel"
)

// A Series has one value per point for one statement, or for all statements together, including those without
// an entry, whatever the filter. All slices except Times are empty, with a note, if there are too many
// samples to read.
type Series struct {
	Times []time.Time   // start of each point, also of the rows' points
	Step  time.Duration // between two points
	End   time.Time     // of the last point

	Calls, Errors, Load []float64                        // per second; load in seconds
	Effects             [stmtstats.NumCounters][]float64 // per second, by counter of an effect; of one statement
	P50, P99, P999      []float64                        // seconds; 0 if there was no call
}

// maxTotalWalk bounds the samples read for a TopSeries of many Keys in the first minutes of a process, before
// sums exist: about 2 seconds of work.
const maxTotalWalk = 1 << 20

// A totalPoint has the counts of all statements in a point. A call may be divided among points, so counts are
// fractional.
type totalPoint struct {
	errors  float64
	nanos   float64
	zero    float64
	used    uint64 // octaves, as in Histogram
	buckets [stmtstats.NumBuckets]float64
}

// add adds a fraction of the counts in h.
func (p *totalPoint) add(h *stmtstats.Histogram, part float64) {
	p.nanos += part * float64(h.Nanos)
	p.zero += part * float64(h.Zero)
	p.used |= h.Octaves
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * stmtstats.PerOctave; b < (o+1)*stmtstats.PerOctave; b++ {
			p.buckets[b] += part * float64(h.Buckets[b])
		}
	}
}

// carryOver carries negative counts to the next point: a statement that returns after its eviction counts from 0
// some seconds before Evicted includes its earlier counts.
func (p *totalPoint) carryOver(next *totalPoint) {
	carry := func(from, to *float64) {
		if *from < 0 {
			*to += *from
			*from = 0
		}
	}
	carry(&p.errors, &next.errors)
	carry(&p.nanos, &next.nanos)
	carry(&p.zero, &next.zero)
	next.used |= p.used
	for i := range p.buckets {
		carry(&p.buckets[i], &next.buckets[i])
	}
}

func (p *totalPoint) calls() float64 {
	n := p.zero
	for used := p.used; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for _, c := range p.buckets[o*stmtstats.PerOctave : (o+1)*stmtstats.PerOctave] {
			n += c
		}
	}
	return n
}

// leastCalls is the fraction of a call that may remain after rounding.
const leastCalls = 1e-6

// quantile is like Histogram.Quantile, in seconds.
func (p *totalPoint) quantile(q, calls float64) float64 {
	if calls < leastCalls {
		return 0
	}
	rank := min(max(math.Ceil(q*calls-leastCalls), min(1, calls)), calls) - leastCalls
	seen := p.zero
	if seen >= rank {
		return 0
	}
	last := 0.0
	for used := p.used; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * stmtstats.PerOctave; b < (o+1)*stmtstats.PerOctave; b++ {
			if p.buckets[b] > 0 {
				last = math.Sqrt(stmtstats.BoundOf(b-1) * stmtstats.BoundOf(b))
			}
			if seen += p.buckets[b]; seen >= rank {
				return last
			}
		}
	}
	return last
}

// fill computes rates and quantiles of the points.
func (s *Series) fill(x axis, points []totalPoint) {
	var rest totalPoint
	for i := range points {
		next := &rest // counts carried beyond the end are dropped
		if i+1 < len(points) {
			next = &points[i+1]
		}
		p := &points[i]
		p.carryOver(next)
		length := x.length(i).Seconds()
		calls := p.calls()
		s.Calls = append(s.Calls, calls/length)
		s.Errors = append(s.Errors, p.errors/length)
		s.Load = append(s.Load, p.nanos/1e9/length)
		s.P50 = append(s.P50, p.quantile(0.5, calls))
		s.P99 = append(s.P99, p.quantile(0.99, calls))
		s.P999 = append(s.P999, p.quantile(0.999, calls))
	}
}

// points fills in the points of each row and of all statements.
func (a *ArchiveReader) points(ctx context.Context, q *TopQuery, top *Top, responded *plan) error {
	if top.Source == SourceSamples {
		return a.pointsOfSamples(ctx, q, top, a.axisOf(responded, q.Points))
	}
	p, err := a.plan(ctx, planQuery{from: top.From, to: top.To, all: q.AllInstances, hours: true, like: responded})
	if err != nil {
		return err
	}
	x := a.axisOf(p, q.Points)
	var all []totalPoint
	err = p.try(func() error {
		all = make([]totalPoint, x.n)
		top.resetPoints(x)
		// The files of the two halves of the range have no point in common.
		var halves [2]plan
		for _, file := range p.files {
			half := &halves[0]
			if 2*x.point(file.begin) >= x.n {
				half = &halves[1]
			}
			half.files = append(half.files, file)
		}
		return parallel.ForEach(ctx, runtime.GOMAXPROCS(0), halves[:], func(ctx context.Context, half plan) error {
			return half.addPoints(ctx, top, x, all)
		})
	})
	if err == nil {
		top.Series.fill(x, all)
	}
	return err
}

// addPoints adds the counts in the plan's files to the points of all statements and of top's rows.
func (p *plan) addPoints(ctx context.Context, top *Top, x axis, all []totalPoint) error {
	details := top.details()
	reader := rollup.NewDetailReader(details)
	defer reader.Close()
	rows := make(map[*rollup.Detail]*TopRow, len(details))
	for i, d := range details {
		rows[d] = &top.Rows[i]
	}
	return p.each(ctx, func(f *rollup.File, file *planned) error {
		point := x.point(file.begin)
		if err := all[point].addTotals(f); err != nil {
			return err
		}
		if any, err := reader.Find(f); err != nil || !any {
			return err
		}
		return reader.Each(f, rollup.ColumnOf(stmtstats.Nanos), func(i int, n uint64) {
			rows[reader.Of[i]].Points[point] += float64(n) / 1e9 / x.length(point).Seconds()
		})
	})
}

// resetPoints resets the points.
func (top *Top) resetPoints(x axis) {
	top.Series = x.series()
	for i := range top.Rows {
		top.Rows[i].Points = make([]float64, x.n)
	}
}

// addTotals adds the counts of all rows of a file.
func (p *totalPoint) addTotals(f *rollup.File) error {
	var c stmtstats.Counts
	var spread stmtstats.Histogram
	if err := f.AddTotals(&c, &spread); err != nil {
		return err
	}
	p.add(&spread, 1)
	p.errors += float64(c.Failed())
	return nil
}

// pointsOfSamples reads the samples of all statements, or only of the rows if there are too many.
func (a *ArchiveReader) pointsOfSamples(ctx context.Context, q *TopQuery, top *Top, x axis) error {
	rows := make(map[stmtstats.Key]*TopRow, len(top.Rows))
	digests := make([][16]byte, len(top.Rows))
	for i := range top.Rows {
		rows[top.Rows[i].Key] = &top.Rows[i]
		digests[i] = top.Rows[i].Digest
	}
	addRow := func(s *step) {
		row := rows[s.key]
		if row == nil || s.kind != stmtstats.Tracked || s.lost || s.metric != stmtseries.Duration {
			return
		}
		x.divide(s.since, s.at, func(i int, from, to float64) {
			row.Points[i] += (to - from) * s.spread.Sum() / x.length(i).Seconds()
		})
	}
	top.resetPoints(x)
	if x.n == 0 {
		return nil
	}
	w := walk{from: top.From, to: top.To, interval: a.options.Interval, metrics: []stmtseries.Metric{stmtseries.Duration}}
	var of []history.Sum
	if !q.RowPointsOnly {
		of = a.sumsFor(x.from, x.end)
	}
	if of != nil { // no point ends after the newest sum
		x = evenAxis(x.from, time.UnixMilli(of[len(of)-1].At), q.Points, a.options.Interval)
		if top.resetPoints(x); x.n == 0 {
			return nil
		}
		if err := top.seriesOfSums(x, of); err != nil {
			return err
		}
	}
	if q.RowPointsOnly || of != nil {
		if w.digests, w.limit = digests, maxWalk; len(digests) == 0 {
			return nil
		}
		return a.walk(ctx, &w, func(s step) { addRow(&s) })
	}
	w.metrics, w.limit = []stmtseries.Metric{stmtseries.Errors, stmtseries.Duration}, maxTotalWalk // durations also count the calls
	all := make([]totalPoint, x.n)
	err := a.walk(ctx, &w, func(s step) {
		addRow(&s)
		sign := 1.0
		if s.lost {
			sign = -1
		}
		x.divide(s.since, s.at, func(i int, from, to float64) {
			if part := sign * (to - from); s.metric == stmtseries.Duration {
				all[i].add(s.spread, part)
			} else {
				all[i].errors += part * float64(s.grown)
			}
		})
	})
	if errors.Is(err, stmtseries.ErrTooMany) {
		top.Notes = append(top.Notes, fmt.Sprintf("no chart of all statements together: there are more than %d samples; ask for a shorter time", maxTotalWalk))
		q.RowPointsOnly = true
		return a.pointsOfSamples(ctx, q, top, x)
	}
	if err == nil {
		top.Series.fill(x, all)
	}
	return err
}

// addGrowth adds the counts between two consecutive sums. A Key that is evicted during a round may be missing
// from it: then the second sum is smaller, and owe carries the difference over.
func (x axis) addGrowth(points []totalPoint, a, b *history.Sum) error {
	var before, after stmtstats.Histogram
	if err := errors.Join(before.AddSpread(a.Spread), after.AddSpread(b.Spread)); err != nil {
		return err
	}
	x.divide(time.UnixMilli(a.At), time.UnixMilli(b.At), func(i int, from, to float64) {
		part, p := to-from, &points[i]
		grown := func(b, a uint64) float64 { return part * float64(int64(b-a)) }
		p.errors += grown(b.Counts.Failed(), a.Counts.Failed())
		p.nanos += grown(b.Counts[stmtstats.Nanos], a.Counts[stmtstats.Nanos])
		p.zero += grown(after.Zero, before.Zero)
		p.used |= after.Octaves | before.Octaves
		for n := range p.buckets {
			if after.Buckets[n] != before.Buckets[n] {
				p.buckets[n] += grown(after.Buckets[n], before.Buckets[n])
			}
		}
	})
	return nil
}

// fewMinutes is the number of minutes × Keys up to which samples are added up for a chart, which are more
// precise than one sum per minute: some 100,000 samples if all Keys are called in each interval of 15
// seconds.
const fewMinutes = 16 << 10

// sumsFor returns the sums for a chart, nil if samples are added up: because they are few, or because there
// are no sums.
func (a *ArchiveReader) sumsFor(from, to time.Time) []history.Sum {
	if minutes := int64(to.Sub(from) / history.RefreshAge); a.archive.Keys()*max(minutes, 1) <= a.few {
		return nil
	}
	if of := a.archive.Sums(from, to); len(of) > 1 {
		return of
	}
	return nil
}

// seriesOfSums computes the chart of all statements, on the axis of the rows.
func (top *Top) seriesOfSums(x axis, of []history.Sum) error {
	all := make([]totalPoint, x.n)
	for i := range of[1:] {
		if err := x.addGrowth(all, &of[i], &of[i+1]); err != nil {
			return err
		}
	}
	if begin := time.UnixMilli(of[0].At).UTC(); begin.After(x.from.Add(history.RefreshAge)) {
		top.Notes = append(top.Notes, fmt.Sprintf("the chart of all statements starts at %s, when this process started", begin.Format(time.DateTime)))
	}
	top.Series.fill(x, all)
	return nil
}
