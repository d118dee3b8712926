package storegateway

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/tsblock"
)

// A block is one that is served. The set that holds it has one reference, each handle another;
// the last closes it.
type block struct {
	gateway *Gateway
	data    *tsblock.Block
	id      ulid.ULID
	tenant  string
	minTime int64 // milliseconds, inclusive
	maxTime int64 // exclusive

	// external belongs to every series of the block; it wins over a label of the series.
	external labels.Labels

	written time.Time // its meta.json, where that may change; under Gateway.syncing

	deleted atomic.Pointer[deletions] // nil: none

	refs      atomic.Int64
	dropped   atomic.Bool  // it left the set because it is gone: nobody needs its local files
	lastUsed  atomic.Int64 // nanoseconds since 1970; 0: never
	marked    atomic.Int64 // when it was marked for deletion, seconds since 1970; 0: not
	noCompact atomic.Bool
	gone      atomic.Int64 // since when it is served though it should not be, nanoseconds since 1970; 0: not
}

// loadDeletions returns what was deleted of the block.
func (b *block) loadDeletions() deletions {
	if d := b.deleted.Load(); d != nil {
		return *d
	}
	return nil
}

// release drops a reference; the last closes the block.
func (b *block) release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("BUG: block " + b.id.String() + " released too often")
	case n > 0:
	case b.dropped.Load() && !b.gateway.Serves(b.tenant, b.id): // it may have come back
		b.data.Remove()
	default:
		b.data.Close()
	}
}

// Serves reports whether queries read a block of a tenant.
func (g *Gateway) Serves(tenant string, id ulid.ULID) bool {
	t := g.current().tenants[tenant]
	return t != nil && t.byID[id] != nil
}

// A blockHandle pins a block for a query. It is not for concurrent use.
type blockHandle struct {
	block     *block
	deletions deletions // as they were when the block was pinned
	released  bool
}

// id returns the block's id.
func (h *blockHandle) id() ulid.ULID { return h.block.id }

// external returns the labels that every series of the block has besides its own.
func (h *blockHandle) external() labels.Labels { return h.block.external }

// times returns the block's time range in milliseconds, both inclusive.
func (h *blockHandle) times() (mint, maxt int64) {
	return h.block.minTime, max(h.block.maxTime-1, h.block.minTime)
}

// matchExternal takes those of the matchers that are about the block's external labels, which
// the block's index does not know, and returns the others; false when one of them does not
// match. It does not allocate unless the block has one of the labels.
func (h *blockHandle) matchExternal(ms []*labels.Matcher) ([]*labels.Matcher, bool) {
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

// reader returns a reader of the block for a query. It reads nothing, and costs what
// tsblock.Block.Reader does.
func (h *blockHandle) reader(q *slab.Quota) *tsblock.Reader { return h.block.data.Reader(q) }

// release ends the handle. Readers and batches of the block stay valid: they count for
// themselves.
func (h *blockHandle) release() {
	if h.released {
		panic("BUG: handle of block " + h.block.id.String() + " released twice")
	}
	h.released = true
	h.block.lastUsed.Store(time.Now().UnixNano())
	h.block.release()
}

// releaseAll releases handles.
func releaseAll(handles []*blockHandle) {
	for _, h := range handles {
		h.release()
	}
}

// loadHeaders gets the index headers of all blocks of handles into memory, as many at once as
// the gateway allows. It does not allocate when they are there. The error is one of theirs.
func (g *Gateway) loadHeaders(ctx context.Context, handles []*blockHandle) error {
	if !slices.ContainsFunc(handles, func(h *blockHandle) bool { return !h.block.data.Loaded() }) {
		return nil
	}
	return forEach(ctx, g.options.HeaderLoads, handles, func(ctx context.Context, h *blockHandle) error {
		return g.loadHeader(ctx, h.block)
	})
}

func (g *Gateway) loadHeader(ctx context.Context, b *block) error {
	if b.data.Loaded() {
		return nil
	}
	start := time.Now()
	err := b.data.Load(ctx)
	g.metrics.headerLoaded(time.Since(start), err)
	return err
}

// unloadIdle takes the headers out of memory that no query has used since the call before.
func (g *Gateway) unloadIdle() {
	g.mu.RLock()
	set := g.set
	g.mu.RUnlock()
	for b := range set.all() {
		if b.data.UnloadIdle() {
			g.metrics.unloads.Add(1)
		}
	}
}
