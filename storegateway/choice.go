package storegateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/tsblock"
)

// A choice is one select of a querier. Blocks are read when the first series of any is needed: by then all selects of
// a query are known, and those with the same matchers whose time ranges meet are read as one.
type choice struct {
	source  *sourceOfSeries
	ctx     context.Context //nolint:containedctx // of Select: Next takes none, as in Prometheus' storage interface
	request Request
	trim    bool   // samples outside of the time range are not returned
	key     string // the same for choices that can be read as one if their times meet

	begun bool
	of    *selected // nil before the first Next
	err   error
	i     int // of the series in front
}

// labelsOnly is the function that Prometheus' API names in its hints when it needs no samples.
const labelsOnly = "series"

// choose returns a select that has read nothing yet.
func (s *sourceOfSeries) choose(ctx context.Context, hints *storage.SelectHints, ms []*labels.Matcher, chunks bool) *choice {
	r := Request{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms, Held: s.held}
	trim := true
	if hints != nil {
		r.MinTime, r.MaxTime = hints.Start, hints.End
		r.Limit = hints.Limit
		r.Shard = tsblock.Shard{Index: hints.ShardIndex, Count: hints.ShardCount}
		r.SkipChunks = !chunks && hints.Func == labelsOnly
		trim = !hints.DisableTrimming
	}
	c := &choice{source: s, ctx: ctx, request: r, trim: trim, key: keyOf(&r, trim), i: -1}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosen = append(s.chosen, c)
	return c
}

// keyOf returns a text that is the same for selects that can be read as one if their times meet. Series without
// samples, and the first series of many, depend on the times.
func keyOf(r *Request, trim bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v %t %t", r.Limit, r.Shard, r.SkipChunks, trim)
	if r.Limit > 0 || r.SkipChunks || !trim {
		fmt.Fprintf(&b, " %d %d", r.MinTime, r.MaxTime)
	}
	for _, m := range r.Matchers {
		fmt.Fprintf(&b, " %q%v%q", m.Name, m.Type, m.Value)
	}
	return b.String()
}

// read reads the selects that were made up to now, unless this one was read.
func (c *choice) read() {
	s := c.source
	s.reading.Lock()
	defer s.reading.Unlock()
	if c.begun {
		return
	}
	s.mu.Lock()
	chosen := s.chosen
	s.chosen = nil
	s.mu.Unlock()
	if !slices.Contains(chosen, c) {
		chosen = []*choice{c} // the querier was closed
	}
	slices.SortStableFunc(chosen, func(a, b *choice) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.request.MinTime, b.request.MinTime))
	})
	var err error
	for len(chosen) > 0 {
		n, r := join(chosen)
		var l *selected
		if err == nil {
			l, err = s.readAll(chosen[0], r)
		}
		for _, one := range chosen[:n] {
			one.begun, one.err = true, err
			if err == nil {
				one.of, one.err = l.part(&one.request)
			}
		}
		chosen = chosen[n:]
	}
}

// join returns how many of the choices, which are sorted, are read as one, and the request that reads them.
func join(chosen []*choice) (int, Request) {
	r, n := chosen[0].request, 1
	for n < len(chosen) && chosen[n].key == chosen[0].key {
		next := &chosen[n].request
		if next.MinTime > r.MaxTime && (r.MaxTime == math.MaxInt64 || next.MinTime > r.MaxTime+1) {
			break
		}
		r.MaxTime = max(r.MaxTime, next.MaxTime)
		n++
	}
	return n, r
}

// readAll reads the labels and chunk references of a request, unless a select before has read them.
func (s *sourceOfSeries) readAll(c *choice, r Request) (*selected, error) {
	q, err := s.admitted(c.ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range s.selected {
		if l.filled && l.key == c.key && l.mint <= r.MinTime && r.MaxTime <= l.maxt {
			return l, nil
		}
	}
	set, err := q.newSet(c.ctx, r, true)
	if err != nil {
		return nil, err
	}
	l := &selected{set: set, key: c.key, mint: r.MinTime, maxt: r.MaxTime, trim: c.trim, windows: newWindows(set.ctx, q, false), like: s.like}
	l.windows.source = s
	s.selected = append(s.selected, l)
	if err := l.fill(); err != nil {
		set.fail(err)
		return nil, set.err // Close releases what was read
	}
	l.filled, s.like = true, l
	return l, nil
}

// part returns the series with chunks in the time range of a request, with the places of those: l itself if that is its
// range. The places and the windows are those of l.
func (l *selected) part(r *Request) (*selected, error) {
	if l.mint == r.MinTime && l.maxt == r.MaxTime || r.SkipChunks {
		return l, nil
	}
	p := &selected{set: l.set, mint: r.MinTime, maxt: r.MaxTime, trim: l.trim, windows: l.windows}
	l.parts = append(l.parts, p)
	if err := p.reserve(int64(len(l.series)) * int64(unsafe.Sizeof(oneSeries{}))); err != nil {
		return nil, err
	}
	p.series = make([]oneSeries, 0, len(l.series))
	for i := range l.series {
		s := &l.series[i]
		first, end := len(s.places), 0
		for n := range s.places {
			if s.places[n].meets(r.MinTime, r.MaxTime) {
				first, end = min(first, n), n+1
			}
		}
		if first < end {
			p.series = append(p.series, oneSeries{of: p, labels: s.labels, places: s.places[first:end:end]})
		}
	}
	return p, nil
}

// meets reports whether a chunk has a part in the time range.
func (p *place) meets(mint, maxt int64) bool {
	return slices.ContainsFunc(p.held.batch.Chunks(p.i), func(c tsblock.Chunk) bool { return c.MinTime <= maxt && c.MaxTime >= mint })
}

// Next implements storage.SeriesSet and storage.ChunkSeriesSet.
func (c *choice) Next() bool {
	if c.of == nil && c.err == nil {
		c.read()
	}
	if c.err != nil {
		return false
	}
	if c.i < len(c.of.series) {
		c.i++
	}
	return c.i < len(c.of.series)
}

// Err implements storage.SeriesSet.
func (c *choice) Err() error { return c.err }

// Warnings implements storage.SeriesSet.
func (c *choice) Warnings() annotations.Annotations {
	if c.of == nil {
		return nil
	}
	return c.of.set.missing.Annotations()
}
