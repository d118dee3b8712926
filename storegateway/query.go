package storegateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
)

// A Query is one request's right to read, with a quota of bytes that all its selects share. Once
// it is admitted it never waits for another query: what does not fit into its quota is an error, and so is
// growth when the process has no free bytes (slab.ErrShort). One that was admitted as a WholeQuery never grows.
// It is safe for concurrent use; what its methods return is not.
type Query struct {
	gateway  *Gateway
	tenant   string
	quota    *slab.Quota
	deadline time.Time // zero: none

	series, chunks atomic.Int64 // that count against the limits

	waiting blocksync.Waiting

	mu     sync.Mutex
	open   map[part]struct{} // what was selected and is not closed
	stats  QueryStats        // of what has been closed
	blocks []BlockStats
	values int64 // bytes reserved for names and values that were answered
	closed bool

	windows []*windows // of its selects
	plan    plan       // under mu

	shards bool // gaps that other shards fill do not count: the client asks those too
}

// missingOf returns the gaps of a request. held reports the blocks that the caller reads elsewhere; nil: none.
func (q *Query) missingOf(t *blocksync.Tenant, mint, maxt int64, ms, ids []*labels.Matcher, held func(ulid.ULID) bool) blocksync.Missing {
	m := t.Missing(mint, maxt, ms, ids)
	if held != nil {
		m = m.Without(held)
	}
	if q.shards {
		m = m.WithoutOtherShards()
	}
	return m
}

// A part of a query holds some of its quota.
type part interface{ Close() }

// WaitsFor returns the object of the bucket that the query waits for, or waited for when it failed; "" for none.
func (q *Query) WaitsFor() string { return q.waiting.Object() }

// Close closes what is still open of the query and gives its bytes back. A second Close does
// nothing.
func (q *Query) Close() {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed = true
	parts := make([]part, 0, len(q.open))
	for p := range q.open {
		parts = append(parts, p)
	}
	values := q.values
	q.values = 0
	q.mu.Unlock()
	for _, p := range parts {
		p.Close()
	}
	q.quota.Return(slab.Values, values)
	q.quota.Close()
}

// Quota is the bytes of the query, for what its consumer holds.
func (q *Query) Quota() *slab.Quota { return q.quota }

// Stats returns what the query has done in the parts that are closed.
func (q *Query) Stats() QueryStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.PeakBytes = q.quota.Peak()
	s.AllowedBytes = q.quota.Allowed()
	return s
}

// Explain returns what the query has done in each block, in the parts that are closed.
func (q *Query) Explain() []BlockStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]BlockStats(nil), q.blocks...)
}

// context returns ctx with the query's deadline.
func (q *Query) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = q.waiting.Context(ctx)
	if q.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	limit := q.gateway.options.Limits.Duration
	return context.WithDeadlineCause(ctx, q.deadline,
		&LimitError{What: limitDuration, Asked: int64(limit), Allowed: int64(limit)})
}

// begin notes a part that Close has to close.
func (q *Query) begin(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		panic("BUG: select of a closed query")
	}
	q.open[p] = struct{}{}
}

// end takes a part that has been closed, with what it has done.
func (q *Query) end(p part, series, chunks uint64, blocks ...BlockStats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, p)
	q.stats.Series += series
	q.stats.Chunks += chunks
	for i := range blocks {
		b := &blocks[i]
		q.stats.Blocks++
		q.stats.Batches += b.Batches
		q.stats.PlannedBytes += b.PlannedBytes
		q.stats.Read.Add(&b.Read)
		q.gateway.budgets.add(&b.Read)
	}
	q.blocks = append(q.blocks, blocks...)
}

// countSeries counts n series of the answer against the limit.
func (q *Query) countSeries(n int) error {
	return count(&q.series, n, q.gateway.options.Limits.Series, limitSeries)
}

// countChunks counts n chunks that are about to be read.
func (q *Query) countChunks(n int) error {
	return count(&q.chunks, n, q.gateway.options.Limits.Chunks, limitChunks)
}

func count(counter *atomic.Int64, n int, limit int64, what string) error {
	if now := counter.Add(int64(n)); limit > 0 && now > limit {
		return &LimitError{What: what, Asked: now, Allowed: limit}
	}
	return nil
}

// batchBytes are the chunk bytes of a batch when so many blocks are read side by side, each with
// a batch in use and one on its way: half of what the query was granted holds all of them twice over,
// but a batch is worth its calls.
func (q *Query) batchBytes(blocks int) int64 {
	return min(max(q.quota.Granted()/int64(8*max(blocks, 1)), leastBatchBytes), mostBatchBytes)
}

// Sizes of batches in bytes of chunks. One MiB is read in about 0.1 ms from the page cache and
// mostly still lies in the processor's caches when it is sent.
const (
	leastBatchBytes = 64 << 10
	mostBatchBytes  = 1 << 20
)

// roomAhead reports whether there is room for a batch beside the one in use, without growing.
func (q *Query) roomAhead() bool {
	return q.quota.Used() < q.quota.Granted()/4*3
}
