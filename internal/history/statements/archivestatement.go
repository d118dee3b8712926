package statements

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/spans"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A gathering collects the data of a Statement.
type gathering struct {
	axis   axis
	points []pointCounts
	spread []stmtstats.Histogram
	parts  map[stmtstats.Key]*rollup.Detail
}

func newGathering(x axis) *gathering {
	return &gathering{axis: x, points: make([]pointCounts, x.n), spread: make([]stmtstats.Histogram, x.n), parts: make(map[stmtstats.Key]*rollup.Detail)}
}

// pointCounts are the counts of a point. Calls are divided among points, so counts are fractional.
type pointCounts [stmtstats.NumCounters]float64

func (p *pointCounts) add(c *stmtstats.Counts, part float64) {
	for i, n := range c {
		p[i] += part * float64(n)
	}
}

func (p *pointCounts) failed() (n float64) {
	for _, e := range p[stmtstats.Errors:] {
		n += e
	}
	return n
}

func (g *gathering) part(k stmtstats.Key) *rollup.Detail {
	d := g.parts[k]
	if d == nil {
		d = &rollup.Detail{Key: k, Spread: new(stmtstats.Histogram)}
		g.parts[k] = d
	}
	return d
}

// Statement describes a digest of this gateway within a time range, from the same sources as Top.
func (a *ArchiveReader) Statement(ctx context.Context, q StatementQuery) (st *Statement, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if cause := a.archive.Waiting(); cause != nil {
		st, err := TableReader{a.table}.Statement(ctx, q)
		if err == nil {
			st.Notes = append(st.Notes, waitingNote(cause))
		}
		return st, err
	}
	ctx, read := startReading(ctx, "read statement")
	defer func() {
		if st != nil {
			read.set(spans.Source.String(st.Source))
		}
		read.finish(err)
	}()
	digest, _ := stmtseries.ParseDigest(q.Digest) // Validate has parsed it
	now := a.archive.Now()
	p, err := a.planOfStatement(ctx, &q, now)
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", q.Digest, err)
	}
	var g *gathering
	err = p.try(func() error {
		g = newGathering(a.axisOf(p, max(q.Points, 1)))
		if p.source != SourceSamples {
			reader := rollup.NewDigestReader(digest)
			defer reader.Close()
			return p.each(ctx, func(f *rollup.File, file *planned) error { return g.add(reader, f, file) })
		}
		if err := g.walk(ctx, a, digest, p); err != nil {
			return err
		}
		var live *snapshot
		if p.to.Equal(now) && p.from.Before(now) {
			var err error
			if live, err = a.snapshotNow(a.current(), now, digest); err != nil {
				return err
			}
		}
		rows, err := a.sampled(ctx, p.from, p.to, live, &digest)
		if err != nil {
			return err
		}
		return g.count(rows)
	})
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", q.Digest, err)
	}
	st = &Statement{Digest: digest, From: p.from, To: p.to, Source: p.source, Notes: p.notes}
	a.live(ctx, &q, st)
	if len(g.parts) == 0 {
		return nil, ErrNoStatement
	}
	g.fill(st, q.Points)
	return st, nil
}

// planOfStatement returns a plan with only the files that are needed.
func (a *ArchiveReader) planOfStatement(ctx context.Context, q *StatementQuery, now time.Time) (*plan, error) {
	if from, to, ok := a.short(q.From, q.To, now); ok {
		return &plan{from: from, to: a.upToNow(to, now), source: SourceSamples}, nil
	}
	return a.plan(ctx, planQuery{from: q.From, to: q.To, hours: true})
}

// live adds data that only the table has: the complete text, and the slowest calls.
func (a *ArchiveReader) live(ctx context.Context, q *StatementQuery, st *Statement) {
	if now, err := (TableReader{a.table}).Statement(ctx, *q); err == nil {
		st.Text, st.TextCut, st.Slow, st.First, st.Last = now.Text, now.TextCut, now.Slow, now.First, now.Last
	}
}

// walk reads the samples of a digest.
func (g *gathering) walk(ctx context.Context, a *ArchiveReader, digest [16]byte, p *plan) error {
	w := walk{
		digests: [][16]byte{digest}, from: p.from, to: p.to, interval: a.options.Interval, metrics: stmtseries.OfKey, limit: maxWalk,
	}
	err := a.walk(ctx, &w, func(s step) {
		if s.lost {
			return
		}
		d := g.part(s.key)
		d.Last = max(d.Last, s.at.UnixMilli())
		if s.metric == stmtseries.Duration {
			d.Counts[stmtstats.Nanos] += s.spread.Nanos
			d.Spread.Merge(s.spread)
			g.axis.divide(s.since, s.at, func(i int, from, to float64) {
				g.points[i][stmtstats.Nanos] += (to - from) * float64(s.spread.Nanos)
				g.spread[i].MergePart(s.spread, from, to)
			})
			return
		}
		counter := s.metric.Counter(s.class)
		d.Counts[counter] += s.grown
		g.axis.divide(s.since, s.at, func(i int, from, to float64) { g.points[i][counter] += (to - from) * float64(s.grown) })
	})
	if err != nil || len(g.parts) == 0 {
		return err
	}
	texts, err := a.texts(ctx, p.from, p.to, digest)
	for _, d := range g.parts {
		d.Text = texts[digest]
	}
	return err
}

// count sets the counts of each Key to those of a Top. Samples alone end at the newest round.
func (g *gathering) count(rows []rollup.Row) error {
	for i := range rows {
		row := &rows[i]
		d := g.part(row.Key)
		d.Counts = row.Counts
		d.Spread.Reset()
		if err := d.Spread.AddSpread(row.Spread); err != nil {
			return err
		}
		d.Last = max(d.Last, row.Last)
		if d.Text == "" {
			d.Text = row.Text
		}
	}
	return nil
}

// add adds the rows of the reader's digest in a file.
func (g *gathering) add(reader *rollup.DigestReader, f *rollup.File, file *planned) error {
	point := g.axis.point(file.begin)
	return reader.Read(f, func(d *rollup.Detail) {
		g.points[point].add(&d.Counts, 1)
		g.spread[point].Merge(d.Durations())
		to := g.part(d.Key)
		to.Counts.Add(&d.Counts)
		to.Spread.Merge(d.Durations())
		if d.First > 0 && (to.First == 0 || d.First < to.First) {
			to.First = d.First
		}
		to.Last = max(to.Last, d.Last)
		if to.Text == "" {
			to.Text = d.Text
		}
	})
}

// fill fills in the statement from the collected data.
func (g *gathering) fill(st *Statement, points int) {
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	milli := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	for k, d := range g.parts {
		all.Add(&d.Counts)
		spread.Merge(d.Spread)
		st.Parts = append(st.Parts, StatementPart{Key: k, Totals: newTotals(&d.Counts, d.Spread), First: milli(d.First), Last: milli(d.Last)})
		st.seen(milli(d.First), milli(d.Last))
		if st.Text == "" {
			st.Text, st.TextCut = d.Text, isCut(d.Text, k.Digest)
		}
	}
	st.finish(&all, &spread)
	if points == 0 {
		return
	}
	s, effects := &st.Series, stmtstats.Effects()
	*s = g.axis.series()
	for i := range g.points {
		c, h := &g.points[i], &g.spread[i]
		length := g.axis.length(i).Seconds()
		s.Calls = append(s.Calls, c[stmtstats.Calls]/length)
		s.Errors = append(s.Errors, c.failed()/length)
		for _, e := range effects {
			s.Effects[e] = append(s.Effects[e], c[e]/length)
		}
		s.Load = append(s.Load, c[stmtstats.Nanos]/1e9/length)
		s.P50 = append(s.P50, h.Quantile(0.5).Seconds())
		s.P99 = append(s.P99, h.Quantile(0.99).Seconds())
		s.P999 = append(s.P999, h.Quantile(0.999).Seconds())
	}
	st.Heat = heatOf(g.spread)
}

// heatOf returns the durations in the octaves that any point has.
func heatOf(points []stmtstats.Histogram) Heat {
	var used uint64
	zero := false
	for i := range points {
		used |= points[i].Octaves
		zero = zero || points[i].Zero > 0
	}
	var heat Heat
	heat.Counts = make([][]uint64, len(points))
	add := func(bound float64, of func(h *stmtstats.Histogram) uint64) {
		heat.Bounds = append(heat.Bounds, time.Duration(bound*1e9))
		for i := range points {
			heat.Counts[i] = append(heat.Counts[i], of(&points[i]))
		}
	}
	if zero {
		add(stmtstats.ZeroThreshold, func(h *stmtstats.Histogram) uint64 { return h.Zero })
	}
	for o := bits.TrailingZeros64(used); used>>o != 0; o++ {
		add(stmtstats.BoundOf((o+1)*stmtstats.PerOctave-1), func(h *stmtstats.Histogram) (n uint64) {
			for _, c := range h.Buckets[o*stmtstats.PerOctave : (o+1)*stmtstats.PerOctave] {
				n += c
			}
			return n
		})
	}
	return heat
}

// isCut reports whether a text is only the beginning of the statement's: the digest is that of the whole text.
func isCut(text string, digest sqldigest.Digest) bool {
	return text != "" && sqldigest.OfText([]byte(text)) != digest
}
