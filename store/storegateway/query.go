package storegateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
)

// A Query is the admission of one request, with a quota of bytes that all its selects share. Once admitted it
// never waits for another query: a reservation beyond its quota fails, and so does growth when the process
// has no free bytes (slab.ErrShort). A query admitted as a WholeQuery never grows. A Query is safe for
// concurrent use; the values that its methods return are not.
type Query struct {
	gateway  *Gateway
	tenant   string
	quota    *slab.Quota
	deadline time.Time // zero: none

	series, chunks atomic.Int64 // counted against the limits

	waiting blocksync.Waiting

	mu     sync.Mutex
	open   map[part]struct{} // selections that are not closed
	stats  QueryStats        // of closed selections
	blocks []BlockStats
	values int64 // bytes reserved for returned names and values
	closed bool

	windows []*windows // windows of its selects
	plan    plan       // under mu

	shards bool // gaps that other shards fill are ignored: the client queries those too
}

// missingOf returns the gaps of a request. held reports the blocks that the caller reads elsewhere; nil:
// none.
func (q *Query) missingOf(t *blocksync.Tenant, mint, maxt int64, r blocksync.Resolution, ms, ids []*labels.Matcher, held func(ulid.ULID) bool) blocksync.Missing {
	m := t.Missing(mint, maxt, r, ms, ids)
	if !q.gateway.Ready() {
		m = q.gateway.Unsynced()
	}
	if held != nil {
		m = m.Without(held)
	}
	if q.shards {
		m = m.WithoutOthers()
	}
	return m
}

// A part is a selection that uses some of a query's quota.
type part interface{ Close() }

// waitsFor returns the object of the bucket that the query waits for, or waited for when it failed. It
// returns "" if there is none.
func (q *Query) waitsFor() string { return q.waiting.Object() }

// Close closes the open selections of the query and releases its bytes. Further calls do nothing.
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

// Quota returns the quota of the query, for memory of its consumer.
func (q *Query) Quota() *slab.Quota { return q.quota }

// Stats returns the counts of the closed selections.
func (q *Query) Stats() QueryStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.PeakBytes = q.quota.Peak()
	s.AllowedBytes = q.quota.Allowed()
	return s
}

// Explain returns the counts per block of the closed selections.
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

// register registers a part that Close has to close.
func (q *Query) register(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		panic("BUG: select of a closed query")
	}
	q.open[p] = struct{}{}
}

// unregister removes a closed part and adds its counts.
func (q *Query) unregister(p part, series, chunks uint64, blocks ...BlockStats) {
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

// countSeries counts n returned series against the limit.
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

// batchBytes returns the chunk bytes of a batch when the given number of blocks are read concurrently. Each
// block has a batch in use and one being loaded, and half of the granted bytes must suffice for all of them
// twice; but a batch has a minimum size that is worth a bucket call.
func (q *Query) batchBytes(blocks int) int64 {
	return min(max(q.quota.Granted()/int64(8*max(blocks, 1)), leastBatchBytes), mostBatchBytes)
}

// Sizes of batches in bytes of chunks. One MiB is read in about 0.1 ms from the page cache and usually
// remains in the CPU caches until it is sent.
const (
	leastBatchBytes = 64 << 10
	mostBatchBytes  = 1 << 20
)

// roomAhead reports whether another batch fits beside the one in use, without growing.
func (q *Query) roomAhead() bool {
	return q.quota.Used() < q.quota.Granted()/4*3
}
