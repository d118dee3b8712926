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

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// A lazySelect is one select of a querier. It reads no block before the first series of any select is needed: by
// then all selects of a query are known, and those with the same matchers and overlapping time ranges are
// read as one.
type lazySelect struct {
	source  *querierBase
	ctx     context.Context //nolint:containedctx // of Select: Next takes none, as in Prometheus' storage interface
	request Request
	trim    bool   // drop samples outside of the time range
	key     string // equal for choices that can be read as one if their times overlap
	reads   aggregation

	begun bool
	of    *selected // nil before the first Next
	err   error
	i     int // index of the current series
}

// labelsOnly is the function that Prometheus' API sets in its hints if it needs no samples.
const labelsOnly = "series"

// newLazySelect returns a select without reading.
func (s *querierBase) newLazySelect(ctx context.Context, hints *storage.SelectHints, ms []*labels.Matcher, chunks bool) *lazySelect {
	r := Request{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms, Held: s.held}
	trim := true
	if hints != nil {
		r.MinTime, r.MaxTime = hints.Start, hints.End
		r.Limit = hints.Limit
		r.Shard = tsblock.Shard{Index: hints.ShardIndex, Count: hints.ShardCount}
		r.SkipChunks = !chunks && hints.Func == labelsOnly
		trim = !hints.DisableTrimming
	}
	if tenant, err := s.tenant(ctx); err == nil && s.gateway.HasBlocks(tenant, s.mint, s.maxt) {
		sortMatchers(ms)
	}
	c := &lazySelect{source: s, ctx: ctx, trim: trim, i: -1}
	switch {
	case r.SkipChunks:
		r.MaxResolution = blocksync.AnyResolution
	case !chunks:
		r.MaxResolution = maxResolutionOf(ctx)
	}
	if hints != nil && r.MaxResolution > blocksync.Raw {
		c.reads = aggregationOf(hints.Func)
		r.MaxResolution = limitResolution(r.MaxResolution, hints)
	}
	c.request, c.key = r, keyOf(&r, trim, c.reads)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosen = append(s.chosen, c)
	return c
}

// sortMatchers moves matchers that exclude series from others behind those that choose series, as the index of
// Prometheus does when it has blocks in a querier's time range. The matchers are the selector's own: the labels that
// absent and absent_over_time return depend on their order where a label has several.
func sortMatchers(ms []*labels.Matcher) {
	place := func(m *labels.Matcher) int {
		chosen := slices.ContainsFunc(ms, func(o *labels.Matcher) bool { return o.Name == m.Name && !o.Matches("") })
		if chosen && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp || !m.Matches("")) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(ms, func(a, b *labels.Matcher) int { return place(a) - place(b) })
}

// keyOf returns a key that is equal for selects that can be read as one if their times overlap. The times are
// part of the key of a select whose result depends on them: with a limit, without samples, or not trimmed.
func keyOf(r *Request, trim bool, reads aggregation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v %t %t %d %d", r.Limit, r.Shard, r.SkipChunks, trim, reads, r.MaxResolution)
	if r.Limit > 0 || r.SkipChunks || !trim {
		fmt.Fprintf(&b, " %d %d", r.MinTime, r.MaxTime)
	}
	for _, m := range r.Matchers {
		fmt.Fprintf(&b, " %q%v%q", m.Name, m.Type, m.Value)
	}
	return b.String()
}

// read reads all selects chosen so far, unless this one was read before.
func (c *lazySelect) read() {
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
		chosen = []*lazySelect{c} // the querier was closed
	}
	slices.SortStableFunc(chosen, func(a, b *lazySelect) int {
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

// join returns how many of the sorted choices can be read as one, and the request that reads them.
func join(chosen []*lazySelect) (int, Request) {
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

// readAll reads the labels and chunk references of a request, unless an earlier select has read them.
func (s *querierBase) readAll(c *lazySelect, r Request) (*selected, error) {
	q, err := s.admitQuery(c.ctx)
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
	l.reads, l.mixed = c.reads, set.mixed()
	l.windows.source = s
	s.selected = append(s.selected, l)
	if err := l.fill(); err != nil {
		set.fail(err)
		return nil, set.err // Close releases the bytes that the set has read
	}
	l.filled, s.like = true, l
	return l, nil
}

// part returns the series that have chunks in the time range of a request, with their places. It returns l
// itself if the request has the same range. The result shares l's places and windows.
func (l *selected) part(r *Request) (*selected, error) {
	if l.mint == r.MinTime && l.maxt == r.MaxTime || r.SkipChunks {
		return l, nil
	}
	p := &selected{set: l.set, mint: r.MinTime, maxt: r.MaxTime, trim: l.trim, windows: l.windows, reads: l.reads, mixed: l.mixed}
	l.parts = append(l.parts, p)
	if err := p.reserve(int64(len(l.series)) * int64(unsafe.Sizeof(oneSeries{}))); err != nil {
		return nil, err
	}
	p.series = make([]oneSeries, 0, len(l.series))
	for i := range l.series {
		s := &l.series[i]
		first, end := len(s.places), 0
		for n := range s.places {
			if s.places[n].overlaps(r.MinTime, r.MaxTime) {
				first, end = min(first, n), n+1
			}
		}
		if first < end {
			p.series = append(p.series, oneSeries{of: p, labels: s.labels, places: s.places[first:end:end]})
		}
	}
	return p, nil
}

// overlaps reports whether a chunk at the position overlaps the time range.
func (p *batchPos) overlaps(mint, maxt int64) bool {
	return slices.ContainsFunc(p.held.batch.Chunks(p.i), func(c tsblock.Chunk) bool { return c.MinTime <= maxt && c.MaxTime >= mint })
}

// Next implements storage.SeriesSet and storage.ChunkSeriesSet.
func (c *lazySelect) Next() bool {
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
func (c *lazySelect) Err() error { return c.err }

// Warnings implements storage.SeriesSet.
func (c *lazySelect) Warnings() annotations.Annotations {
	if c.of == nil {
		return nil
	}
	notes := c.of.set.missing.Annotations()
	if c.of.mixed {
		notes.Merge(c.of.set.resolutions())
	}
	return notes
}
