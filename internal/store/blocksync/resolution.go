package blocksync

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
)

// A Resolution is the interval between the samples of a downsampled block, in milliseconds. Of a request, it is
// the coarsest one whose blocks may be read. 0 is that of raw blocks.
type Resolution int64

// Resolutions of Thanos' downsampling.
const (
	Raw         Resolution = 0
	FiveMinutes Resolution = 5 * 60 * 1000
	OneHour     Resolution = 60 * 60 * 1000

	// AnyResolution is that of a request that reads no samples. It prefers finer blocks.
	AnyResolution Resolution = -1
)

// levels are the resolutions that blocks may have, from fine to coarse.
var levels = [...]Resolution{Raw, FiveMinutes, OneHour}

// String returns the interval, or "raw".
func (r Resolution) String() string {
	if r == Raw {
		return "raw"
	}
	return shortDuration(time.Duration(r) * time.Millisecond)
}

// shortDuration returns a whole number of hours, minutes or seconds.
func shortDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// level returns the index in levels, or -1 for a resolution that no block may have.
func (r Resolution) level() int { return slices.Index(levels[:], r) }

// preferred returns the levels that a request may read, the preferred one first.
func (r Resolution) preferred() []int {
	if r == AnyResolution {
		return []int{0, 1, 2}
	}
	var order []int
	for i := len(levels) - 1; i >= 0; i-- {
		if levels[i] <= max(r, Raw) {
			order = append(order, i)
		}
	}
	return order
}

// A coverage determines which blocks of a tenant serve a request, if some are downsampled: blocks of several
// resolutions have the same samples. It is immutable.
type coverage []coverGroup

// A coverGroup are the blocks with the same external labels.
type coverGroup struct {
	external labels.Labels
	levels   [len(levels)]coverLevel
}

// A coverLevel are the blocks of one resolution.
type coverLevel struct {
	blocks  []coverBlock // by mint, then id
	longest int64        // duration of the longest block in milliseconds
}

// A coverBlock is a block of the bucket. Those of other shards count too, so that all shards choose alike.
type coverBlock struct {
	mint, end int64 // milliseconds, end is exclusive
	id        ulid.ULID
	block     *block // nil: of another shard
}

// newCoverage returns the coverage of a tenant, or nil if no block is downsampled.
func newCoverage(t *Tenant) coverage {
	downsampled := slices.ContainsFunc(t.blocks, func(b *block) bool { return b.resolution != Raw })
	for _, o := range t.otherShards {
		downsampled = downsampled || o.counts() && o.resolution != Raw
	}
	if !downsampled {
		return nil
	}
	var c coverage
	for _, b := range t.blocks {
		c.add(b.external, b.resolution, coverBlock{b.minTime, b.maxTime, b.id, b})
	}
	for id, o := range t.otherShards {
		if o.counts() {
			c.add(o.external, o.resolution, coverBlock{o.mint, o.maxt, id, nil})
		}
	}
	for i := range c {
		for j := range c[i].levels {
			slices.SortFunc(c[i].levels[j].blocks, func(a, b coverBlock) int {
				return cmp.Or(cmp.Compare(a.mint, b.mint), a.id.Compare(b.id))
			})
		}
	}
	return c
}

func (c *coverage) add(external labels.Labels, r Resolution, b coverBlock) {
	n := r.level()
	if n < 0 {
		return // a block of another shard, which skips it
	}
	i := slices.IndexFunc(*c, func(g coverGroup) bool { return labels.Equal(g.external, external) })
	if i < 0 {
		i = len(*c)
		*c = append(*c, coverGroup{external: external})
	}
	b.end = max(b.end, b.mint+1) // a block of a single instant has maxTime == minTime
	l := &(*c)[i].levels[n]
	l.blocks = append(l.blocks, b)
	l.longest = max(l.longest, b.end-b.mint)
}

// overlapping returns the blocks with samples in a span.
func (l *coverLevel) overlapping(s span) iter.Seq[*coverBlock] {
	return func(yield func(*coverBlock) bool) {
		first := sort.Search(len(l.blocks), func(i int) bool {
			start := l.blocks[i].mint
			return start >= s.from || s.from-start <= l.longest
		})
		for i := first; i < len(l.blocks) && l.blocks[i].mint <= s.to; i++ {
			if l.blocks[i].end > s.from && !yield(&l.blocks[i]) {
				return
			}
		}
	}
}

// A span is a time range in milliseconds, both inclusive.
type span struct{ from, to int64 }

// A piece is a block that serves a span of a request.
type piece struct {
	*coverBlock
	span
}

// A cover collects the blocks that serve a request.
type cover struct {
	order  []int // levels
	whole  span  // of the request
	pieces []piece
	bare   []span // of one group, without a block that the request may read
}

// fill covers a span by the blocks of the n-th preferred level, and the spans between them by the next levels.
func (c *cover) fill(g *coverGroup, n int, s span) {
	if n == len(c.order) {
		c.bare = append(c.bare, s)
		return
	}
	at := s.from
	for b := range g.levels[c.order[n]].overlapping(s) {
		if b.mint > at {
			c.fill(g, n+1, span{at, b.mint - 1})
		}
		c.pieces = append(c.pieces, piece{b, s})
		at = max(at, b.end)
	}
	if at <= s.to {
		c.fill(g, n+1, span{at, s.to})
	}
}

// pieces returns the blocks that serve a request, in the order of their times.
func (c coverage) pieces(mint, maxt int64, r Resolution) []piece {
	all := cover{order: r.preferred(), whole: span{mint, maxt}}
	for i := range c {
		all.fill(&c[i], 0, all.whole)
	}
	slices.SortStableFunc(all.pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.mint, b.mint), a.id.Compare(b.id), cmp.Compare(a.from, b.from))
	})
	return all.pieces
}

// part returns the times to which the samples of the block must be restricted, or nil for none.
func (p *piece) part(request span) *span {
	s := span{math.MinInt64, math.MaxInt64}
	if p.from > request.from {
		s.from = p.from
	}
	if p.to < request.to {
		s.to = p.to
	}
	if p.mint >= s.from && p.end-1 <= s.to {
		return nil
	}
	return &s
}

// open pins the blocks that serve a request.
func (c coverage) open(mint, maxt int64, r Resolution, ids []*labels.Matcher) []*Handle {
	if mint > maxt {
		return nil
	}
	var pinned []*Handle
	for _, p := range c.pieces(mint, maxt, r) {
		if p.block != nil && matchesID(p.block, ids) {
			p.block.refs.Add(1)
			pinned = append(pinned, &Handle{block: p.block, deletions: p.block.loadDeletions(), part: p.part(span{mint, maxt})})
		}
	}
	return pinned
}

// coarser returns the gaps of a request that only coarser blocks than it allows have samples for, and removes
// those of other shards whose samples other blocks have.
func (t *Tenant) coarser(gaps []*gap, mint, maxt int64, r Resolution, matches func(*gap) bool) []*gap {
	if t.coverage == nil {
		return gaps
	}
	read := make(map[ulid.ULID]bool)
	for _, p := range t.coverage.pieces(mint, maxt, r) {
		read[p.id] = true
	}
	gaps = slices.DeleteFunc(gaps, func(g *gap) bool { return g.reason == SkipOtherShard && g.times.known && !read[g.id] })
	for i := range t.coverage {
		group := &t.coverage[i]
		c := cover{order: r.preferred(), whole: span{mint, maxt}}
		c.fill(group, 0, c.whole)
		for _, s := range c.bare {
			gaps = append(gaps, group.coarser(s, len(c.order), matches)...)
		}
	}
	return gaps
}

// coarser returns gaps for the blocks of a span whose level is at least level.
func (g *coverGroup) coarser(s span, level int, matches func(*gap) bool) (gaps []*gap) {
	for n := level; n < len(levels); n++ {
		for b := range g.levels[n].overlapping(s) {
			lacks := &gap{
				id:    b.id,
				times: blockTimes{true, b.mint, b.end, g.external}, external: g.external, reason: SkipDownsampled,
				detail: fmt.Sprintf("its resolution of %s is coarser than the request allows, see max_source_resolution", levels[n]),
			}
			if matches(lacks) {
				gaps = append(gaps, lacks)
			}
		}
	}
	return gaps
}
