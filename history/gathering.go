package history

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// A gathering puts a Statement together.
type gathering struct {
	axis   axis
	points []counts
	spread []Histogram
	parts  map[Key]*detail
}

func newGathering(x axis) *gathering {
	return &gathering{axis: x, points: make([]counts, x.n), spread: make([]Histogram, x.n), parts: make(map[Key]*detail)}
}

func (g *gathering) part(k Key) *detail {
	d := g.parts[k]
	if d == nil {
		d = &detail{key: k}
		g.parts[k] = d
	}
	return d
}

// Statement tells what is known of a digest of this gateway within a time, from where a Top is answered from. Up to six hours
// it goes to the newest round.
func (a *Archive) Statement(ctx context.Context, q StatementQuery) (*Statement, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	digest, _ := parseDigest(q.Digest) // Validate has read it
	p, err := a.planOfStatement(ctx, &q)
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", q.Digest, err)
	}
	var g *gathering
	err = p.try(func() error {
		g = newGathering(a.axisOf(p, max(q.Points, 1)))
		if p.source == SourceSamples {
			return g.walk(ctx, a.db, digest, p)
		}
		return p.each(ctx, func(f *rollupFile, file *planned) error { return g.add(f, file, digest) })
	})
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", q.Digest, err)
	}
	st := &Statement{Digest: digest, From: p.from, To: p.to, Source: p.source, Notes: p.notes}
	a.live(ctx, &q, st)
	if len(g.parts) == 0 {
		return nil, ErrNoStatement
	}
	g.fill(st, q.Points)
	return st, nil
}

// planOfStatement is a plan of which only the files are made that are needed.
func (a *Archive) planOfStatement(ctx context.Context, q *StatementQuery) (*plan, error) {
	if from, to, ok := a.short(q.From, q.To); ok {
		return &plan{from: from, to: to, source: SourceSamples}, nil
	}
	return a.plan(ctx, q.From, q.To, false, true)
}

// live adds what only the table knows: the text to its end, and the slowest calls.
func (a *Archive) live(ctx context.Context, q *StatementQuery, st *Statement) {
	t, ok := a.options.Source.(*Table)
	if !ok {
		return
	}
	if now, err := t.Statement(ctx, *q); err == nil {
		st.Text, st.TextCut, st.Slow, st.First, st.Last = now.Text, now.TextCut, now.Slow, now.First, now.Last
	}
}

// walk reads the samples of a digest.
func (g *gathering) walk(ctx context.Context, db storage.Queryable, digest [16]byte, p *plan) error {
	err := walk(ctx, db, [][16]byte{digest}, p.from, p.to, true, func(s step) {
		d, point := g.part(s.key), g.axis.point(s.at)
		if s.count < 0 {
			d.counts.nanos += s.spread.nanos
			d.spread.Merge(s.spread)
			g.points[point].nanos += s.spread.nanos
			g.spread[point].Merge(s.spread)
			return
		}
		*derivedCounters[s.count].count(&d.counts, s.class) += s.grown
		*derivedCounters[s.count].count(&g.points[point], s.class) += s.grown
		d.last = max(d.last, s.at.UnixMilli())
	})
	if err != nil || len(g.parts) == 0 {
		return err
	}
	q, err := db.Querier(p.from.UnixMilli(), p.to.UnixMilli())
	if err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	set := selectName(ctx, q, nameInfo, labels.MustNewMatcher(labels.MatchEqual, labelDigest, hex.EncodeToString(digest[:])))
	for set.Next() {
		for _, d := range g.parts {
			d.text = strings.Clone(set.At().Labels().Get(labelText))
		}
	}
	return set.Err()
}

// add adds the rows that a file has of a digest.
func (g *gathering) add(f *rollupFile, file *planned, digest [16]byte) error {
	b, err := f.whole(colDigests, nil)
	if err != nil {
		return err
	}
	var prints []byte
	var details []*detail
	for row := range f.count {
		if [16]byte(b[16*row:]) != digest {
			continue
		}
		if prints == nil {
			if prints, err = f.whole(colPrints, nil); err != nil {
				return err
			}
		}
		if p := keyPrint(prints[16*row:]); !p.isSum() {
			details = append(details, &detail{print: p}) //nolint:forbidigo // a field
		}
	}
	if len(details) == 0 {
		return nil
	}
	if err := f.details(details); err != nil {
		return err
	}
	point := g.axis.point(file.begin)
	for _, d := range details {
		d.spread.nanos = d.counts.nanos
		g.points[point].add(&d.counts)
		g.spread[point].Merge(&d.spread)
		to := g.part(d.key)
		to.counts.add(&d.counts)
		to.spread.Merge(&d.spread)
		if d.first > 0 && (to.first == 0 || d.first < to.first) {
			to.first = d.first
		}
		to.last = max(to.last, d.last)
		if to.text == "" {
			to.text = d.text
		}
	}
	return nil
}

// fill makes the statement of what was gathered.
func (g *gathering) fill(st *Statement, points int) {
	var all counts
	var spread Histogram
	milli := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	for k, d := range g.parts {
		all.add(&d.counts)
		spread.Merge(&d.spread)
		st.Parts = append(st.Parts, StatementPart{Key: k, Totals: d.counts.totals(&d.spread), First: milli(d.first), Last: milli(d.last)})
		st.seen(milli(d.first), milli(d.last))
		if st.Text == "" {
			st.Text = d.text
		}
	}
	st.finish(&all, &spread)
	if points == 0 {
		return
	}
	s := &st.Series
	s.Step = g.axis.step
	for i := range g.points {
		c, h := &g.points[i], &g.spread[i]
		s.Times = append(s.Times, g.axis.from.Add(time.Duration(i)*g.axis.step))
		s.Calls = append(s.Calls, float64(c.calls))
		s.Errors = append(s.Errors, float64(c.failed()))
		s.RowsSent = append(s.RowsSent, float64(c.rowsSent))
		s.RowsAffected = append(s.RowsAffected, float64(c.rowsAffected))
		s.Sum = append(s.Sum, float64(c.nanos)/1e9)
		s.P50 = append(s.P50, h.Quantile(0.5).Seconds())
		s.P99 = append(s.P99, h.Quantile(0.99).Seconds())
	}
	st.Heat = heatOf(g.spread)
}

// heatOf spreads durations over the octaves that any point has.
func heatOf(points []Histogram) Heat {
	var used uint64
	zero := false
	for i := range points {
		used |= points[i].used
		zero = zero || points[i].zero > 0
	}
	var heat Heat
	heat.Counts = make([][]uint64, len(points))
	add := func(bound float64, of func(h *Histogram) uint64) {
		heat.Bounds = append(heat.Bounds, time.Duration(bound*1e9))
		for i := range points {
			heat.Counts[i] = append(heat.Counts[i], of(&points[i]))
		}
	}
	if zero {
		add(zeroThreshold, func(h *Histogram) uint64 { return h.zero })
	}
	for o := bits.TrailingZeros64(used); used>>o != 0; o++ {
		add(boundOf((o+1)*perOctave-1), func(h *Histogram) (n uint64) {
			for _, c := range h.buckets[o*perOctave : (o+1)*perOctave] {
				n += c
			}
			return n
		})
	}
	return heat
}
