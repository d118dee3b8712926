package blocksync

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/tsblock"
)

// A block is a served block. The set that contains it has one reference and each handle has another; the last
// release closes it.
type block struct {
	syncer  *Syncer
	data    *tsblock.Block
	id      ulid.ULID
	tenant  string
	minTime int64 // milliseconds, inclusive
	maxTime int64 // exclusive

	resolution Resolution // of its samples

	// external applies to every series of the block and overrides labels of the series.
	external labels.Labels

	// The running sync uses these.
	written        time.Time // modification time of meta.json where it may change
	unreadableMark bool      // its deletion mark is unreadable: marked is when that was written

	deleted atomic.Pointer[Deletions] // nil: none

	refs         atomic.Int64
	prepared     atomic.Bool  // its header was loaded ahead, or tried to be
	dropped      atomic.Bool  // it left the set because the bucket has it no longer: its local files are removed
	lastUsed     atomic.Int64 // nanoseconds since 1970; 0: never
	marked       atomic.Int64 // time of its deletion mark, seconds since 1970; 0: not marked
	noCompact    atomic.Bool
	missingSince atomic.Int64 // time since when it is served although it left the bucket, nanoseconds since 1970; 0: in the bucket
}

// loadDeletions returns the deletions of the block.
func (b *block) loadDeletions() Deletions {
	if d := b.deleted.Load(); d != nil {
		return *d
	}
	return nil
}

// release drops a reference and closes the block with the last one.
func (b *block) release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("BUG: block " + b.id.String() + " released too often")
	case n > 0:
	case b.dropped.Load() && !b.syncer.Serves(b.tenant, b.id): // it may have reappeared
		b.data.Remove()
	default:
		b.data.Close()
	}
}

// Serves reports whether queries read the block of the tenant.
func (s *Syncer) Serves(tenant string, id ulid.ULID) bool {
	t := s.current().tenants[tenant]
	return t != nil && t.byID[id] != nil
}

// A Handle pins a block for a query. It must not be used concurrently.
type Handle struct {
	block     *block
	deletions Deletions // as of the time the block was pinned
	part      *span     // times whose samples are read; nil: all
	released  bool
}

// ID returns the block's id.
func (h *Handle) ID() ulid.ULID { return h.block.id }

// Prefix returns the prefix of the names of the block's objects, without the slash.
func (h *Handle) Prefix() string { return h.block.data.Prefix() }

// Deletions returns the deletions of the block as of the time it was pinned.
func (h *Handle) Deletions() Deletions { return h.deletions }

// External returns the external labels, which every series of the block has in addition to its own.
func (h *Handle) External() labels.Labels { return h.block.external }

// Times returns the block's time range in milliseconds, both inclusive.
func (h *Handle) Times() (mint, maxt int64) {
	return h.block.minTime, max(h.block.maxTime-1, h.block.minTime)
}

// Resolution returns the resolution of the block's samples.
func (h *Handle) Resolution() Resolution { return h.block.resolution }

// Part returns the times, in milliseconds and both inclusive, to which a query must restrict the samples of the
// block, because other blocks serve the rest. It returns false if there is no restriction.
func (h *Handle) Part() (mint, maxt int64, restricted bool) {
	if h.part == nil {
		return 0, 0, false
	}
	return h.part.from, h.part.to, true
}

// MatchExternal evaluates the matchers of the block's external labels, which the block's index does not know,
// and returns the other matchers. It returns false if a matcher does not match. It allocates only if the
// block has one of the labels.
func (h *Handle) MatchExternal(ms []*labels.Matcher) ([]*labels.Matcher, bool) {
	external := h.block.external
	first := slices.IndexFunc(ms, func(m *labels.Matcher) bool { return external.Has(m.Name) })
	if first < 0 {
		return ms, true
	}
	rest := append(make([]*labels.Matcher, 0, len(ms)-1), ms[:first]...)
	for _, m := range ms[first:] {
		switch {
		case !external.Has(m.Name):
			rest = append(rest, m)
		case !m.Matches(external.Get(m.Name)):
			return nil, false
		}
	}
	return rest, true
}

// Reader returns a reader of the block for a query. It reads nothing and costs as much as
// tsblock.Block.Reader.
func (h *Handle) Reader(q *slab.Quota) *tsblock.Reader { return h.block.data.Reader(q) }

// Release unpins the block. Readers and batches of the block stay valid: they have separate references.
func (h *Handle) Release() {
	if h.released {
		panic("BUG: handle of block " + h.block.id.String() + " released twice")
	}
	h.released = true
	h.block.lastUsed.Store(time.Now().UnixNano())
	h.block.release()
}

// ReleaseAll releases all handles.
func ReleaseAll(handles []*Handle) {
	for _, h := range handles {
		h.Release()
	}
}

// LoadHeaders loads the index headers of the handles' blocks, as many concurrently as Options.HeaderLoads permits. It
// does not allocate if all are loaded. It returns the error of one of the loads.
func (s *Syncer) LoadHeaders(ctx context.Context, handles []*Handle) error {
	if !slices.ContainsFunc(handles, func(h *Handle) bool { return !h.block.data.Loaded() }) {
		return nil
	}
	return parallel.ForEach(ctx, cap(s.smallLoads), handles, func(ctx context.Context, h *Handle) error {
		return s.loadHeader(ctx, h.block)
	})
}

func (s *Syncer) loadHeader(ctx context.Context, b *block) error {
	if b.data.Loaded() {
		return nil
	}
	start := time.Now()
	err := b.data.Load(ctx)
	s.metrics.headerLoaded(time.Since(start), err)
	return err
}

// UnloadIdle unloads the index headers that no query has used since the previous call.
func (s *Syncer) UnloadIdle() {
	for b := range s.current().all() {
		if b.data.UnloadIdle() {
			s.metrics.unloads.Add(1)
		}
	}
}
