package blocksync

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

// A gap is a block of the bucket whose samples are missing from every result.
type gap struct {
	id       ulid.ULID
	name     string // of an entry that is no block; "": the id
	times    blockTimes
	external labels.Labels // known if meta.json was read
	reason   SkipReason
	detail   string
	since    time.Time // of a suspect: when it was missed
}

// blockTimes are the time range and the external labels of a block, as far as they are known.
type blockTimes struct {
	known      bool
	mint, maxt int64 // milliseconds; maxt is exclusive
	external   labels.Labels
}

// String returns the range in the form of warnings.
func (t blockTimes) String() string {
	if !t.known {
		return "times unknown"
	}
	stamp := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	return stamp(t.mint) + " to " + stamp(t.maxt)
}

// overlaps reports whether the block may have samples from mint to maxt, both inclusive.
func (t blockTimes) overlaps(mint, maxt int64) bool {
	return !t.known || t.mint <= maxt && (t.maxt > mint || t.maxt == t.mint && t.mint >= mint)
}

// missing reports whether a block that is skipped for the reason makes results incomplete (warn), and whether
// requests that must be complete fail because of it (deny). Blocks marked for deletion were replaced, and
// blocks that are being uploaded were never served. A block without a meta.json may be either, or damaged: it
// causes a warning, but an upload must not fail every request.
func (r SkipReason) missing() (warn, deny bool) {
	switch r {
	case SkipMarked, SkipUploading, SkipTemporary:
		return false, false
	case SkipNoMeta, SkipMisnamed, SkipNoDirectory:
		return true, false
	}
	return true, true
}

// collectGaps collects the gaps of the tenant.
func (t *Tenant) collectGaps() {
	for i := range t.skipped {
		s := &t.skipped[i]
		warn, _ := s.Reason.missing()
		if !warn || s.Reason == SkipDownsampled && t.covers(s.times, func(*block) bool { return true }) {
			continue
		}
		if s.odd != "" {
			if !s.replaced {
				t.gaps = append(t.gaps, gap{id: s.is, name: s.ID, times: s.times, external: s.times.external, reason: s.Reason, detail: s.Detail})
			}
			continue
		}
		if s.deleting && (s.Reason == SkipNoMeta || s.Reason == SkipTimeRange) {
			continue
		}
		t.gaps = append(t.gaps, gap{id: ulid.MustParse(s.ID), times: s.times, external: s.times.external, reason: s.Reason, detail: s.Detail})
	}
	for id, times := range t.otherShards {
		if !times.ignored {
			t.gaps = append(t.gaps, gap{id: id, times: times.blockTimes, external: times.external, reason: SkipOtherShard})
		}
	}
	slices.SortFunc(t.gaps, func(a, b gap) int { return a.id.Compare(b.id) })
}

// covers reports whether served blocks with the same external labels cover the whole time range, of those for which
// counts returns true.
func (t *Tenant) covers(r blockTimes, counts func(*block) bool) bool {
	if !r.known {
		return false
	}
	at := r.mint
	for _, b := range t.blocks { // by minTime
		if b.minTime > at {
			break
		}
		if b.maxTime > at && labels.Equal(b.external, r.external) && counts(b) {
			at = b.maxTime
		}
	}
	return at >= r.maxt
}

// A Missing lists the blocks that a result lacks: those in its time range that are not served.
type Missing struct {
	gaps     []*gap
	suspects []*gap // blocks that left the bucket without a reason
	unsynced error  // no block is known
	absent   bool   // the bucket has nothing of the chosen tenant
}

// Unsynced returns what a result lacks before the first good sync: all blocks.
func (s *Syncer) Unsynced() Missing { return Missing{unsynced: s.CheckReady()} }

// Missing returns the blocks that the result of a request lacks. The request covers mint to maxt in
// milliseconds, both inclusive, with the series matchers ms and the matchers ids of BlockIDLabel, at a resolution.
func (t *Tenant) Missing(mint, maxt int64, r Resolution, ms, ids []*labels.Matcher) Missing {
	var m Missing
	if t == nil {
		return m
	}
	m.absent = t.absent
	for i := range t.gaps {
		g := &t.gaps[i]
		if g.times.overlaps(mint, maxt) && matchesAll(g, ms, ids) {
			m.gaps = append(m.gaps, g)
		}
	}
	m.gaps = t.coarser(m.gaps, mint, maxt, r, func(g *gap) bool { return matchesAll(g, ms, ids) })
	m.gaps = t.clipped(m.gaps, mint, maxt, func(g *gap) bool { return matchesAll(g, ms, ids) })
	for i := range t.suspects {
		if g := &t.suspects[i]; g.times.overlaps(mint, maxt) && matchesAll(g, ms, ids) {
			m.suspects = append(m.suspects, g)
		}
	}
	return m
}

func matchesAll(g *gap, ms, ids []*labels.Matcher) bool {
	for _, m := range ids {
		if !m.Matches(g.id.String()) {
			return false
		}
	}
	for _, m := range ms {
		if g.external.Has(m.Name) && !m.Matches(g.external.Get(m.Name)) {
			return false
		}
	}
	return true
}

// Without returns the gaps without the blocks for which held returns true.
func (m Missing) Without(held func(ulid.ULID) bool) Missing {
	m.gaps = slices.DeleteFunc(slices.Clone(m.gaps), func(g *gap) bool { return held(g.id) })
	return m
}

// WithoutOthers returns the gaps that no other process fills, for clients that query the processes of all shards and time
// ranges.
func (m Missing) WithoutOthers() Missing {
	m.gaps = slices.DeleteFunc(slices.Clone(m.gaps), func(g *gap) bool { return g.reason == SkipOtherShard || g.reason == SkipTimeRange })
	return m
}

// Denies reports whether a request fails that must be complete.
func (m Missing) Denies() bool {
	return m.unsynced != nil || slices.ContainsFunc(m.gaps, func(g *gap) bool { _, deny := g.reason.missing(); return deny })
}

// maxNamed bounds the blocks that a warning names.
const maxNamed = 10

// Warnings returns one line per reason, with the blocks and their times.
func (m Missing) Warnings() []string {
	var lines []string
	if m.unsynced != nil {
		lines = append(lines, "incomplete result: "+m.unsynced.Error())
	}
	if m.absent {
		lines = append(lines, "the bucket has nothing of the tenant")
	}
	for _, reason := range skipReasons {
		if n, names := nameGaps(m.gaps, reason); n > 0 {
			lines = append(lines, fmt.Sprintf("incomplete result: %d blocks of the time range are not served, reason %s%s", n, reason, names))
		}
	}
	if n, names := nameGaps(m.suspects, ""); n > 0 {
		lines = append(lines, fmt.Sprintf("the bucket lacks %d blocks that it had, without a mark or a block that replaces them: the result may be an incomplete result. "+
			"If they were deleted, this warning ends %s after they were missed%s", n, maxRetention, names))
	}
	return lines
}

// nameGaps returns the number of gaps of a reason, and the names and times of the first ones.
func nameGaps(gaps []*gap, reason SkipReason) (n int, names string) {
	var b strings.Builder
	for _, g := range gaps {
		if g.reason != reason {
			continue
		}
		if n++; n > maxNamed {
			continue
		}
		fmt.Fprintf(&b, "; block %s (%s)", cmp.Or(g.name, g.id.String()), g.times)
		if g.detail != "" && n == 1 {
			fmt.Fprintf(&b, ": %.300s", g.detail)
		}
	}
	if n > maxNamed {
		fmt.Fprintf(&b, "; and %d more", n-maxNamed)
	}
	return n, b.String()
}

// Annotations returns the warnings in the form of a storage.SeriesSet.
func (m Missing) Annotations() annotations.Annotations {
	var all annotations.Annotations
	for _, w := range m.Warnings() {
		all.Add(errors.New(w))
	}
	return all
}
