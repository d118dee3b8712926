package slab

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// GateOptions say how many bytes queries may hold. Both are required.
type GateOptions struct {
	// Bytes is what all queries that run may hold together.
	Bytes int64

	// PerQuery is what each is admitted with, and the most that it may hold. As many queries
	// run at once as fit into Bytes whole.
	PerQuery int64
}

// Validate returns what is wrong with the options.
func (o GateOptions) Validate() error {
	switch {
	case o.PerQuery <= 0:
		return fmt.Errorf("bytes per query are %d: a query needs some", o.PerQuery)
	case o.Bytes < o.PerQuery:
		return fmt.Errorf("bytes of the process are %d, less than the %d of one query: none could run", o.Bytes, o.PerQuery)
	}
	return nil
}

// A Gate has a process' bytes for queries. It admits queries with a whole quota each, first in
// first out, and is the only place where one waits for another: a query that runs holds its
// quota and never waits for more, so queries cannot wait for each other in a circle. It is safe
// for concurrent use.
type Gate struct {
	options GateOptions
	held    atomic.Int64 // bytes reserved in all quotas
	peak    atomic.Int64 // the most of them
	refused atomic.Int64 // reservations over a quota
	misused atomic.Int64 // bytes returned that were not reserved, quotas closed with bytes or twice

	mu        sync.Mutex
	free      int       // quotas that are not out
	queue     list.List // of *waiter, first come at the front
	admitted  int64
	cancelled int64
}

// A waiter stands in the queue.
type waiter struct {
	admitted chan struct{} // closed under mu by whoever hands it a quota
}

// NewGate returns a gate. Options that do not validate are a bug of the caller.
func NewGate(o GateOptions) *Gate {
	if err := o.Validate(); err != nil {
		panic("BUG: slab: " + err.Error())
	}
	return &Gate{options: o, free: int(min(o.Bytes/o.PerQuery, 1<<31-1))}
}

// Admit waits for a quota and returns it. The caller closes it when the query is over. If ctx ends first,
// Admit leaves the queue and returns the cause. Without a queue it costs one allocation, the Quota.
func (g *Gate) Admit(ctx context.Context) (*Quota, error) {
	if err := ctx.Err(); err != nil {
		g.mu.Lock()
		g.cancelled++
		g.mu.Unlock()
		return nil, fmt.Errorf("wait for the bytes of a query: %w", context.Cause(ctx))
	}
	g.mu.Lock()
	if g.free > 0 && g.queue.Len() == 0 {
		g.free--
		g.admitted++
		g.mu.Unlock()
		return g.quota(), nil
	}
	w := &waiter{admitted: make(chan struct{})}
	place := g.queue.PushBack(w)
	g.mu.Unlock()

	select {
	case <-w.admitted:
		return g.quota(), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-w.admitted:
		// Admitted and cancelled at once: the quota goes to the next.
		g.admitted--
		g.free++
		g.admitLocked()
	default:
		g.queue.Remove(place)
	}
	g.cancelled++
	g.mu.Unlock()
	return nil, fmt.Errorf("wait for the bytes of a query: %w", context.Cause(ctx))
}

func (g *Gate) quota() *Quota { return &Quota{gate: g, limit: g.options.PerQuery} }

// admitLocked hands free quotas to the first in the queue.
func (g *Gate) admitLocked() {
	for g.free > 0 && g.queue.Len() > 0 {
		w := g.queue.Remove(g.queue.Front()).(*waiter)
		g.free--
		g.admitted++
		close(w.admitted)
	}
}

// leave takes a quota back.
func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
	g.admitLocked()
}

// hold adds n bytes to what all queries hold.
func (g *Gate) hold(n int64) {
	now := g.held.Add(n)
	for n > 0 {
		peak := g.peak.Load()
		if now <= peak || g.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// misuse notes a caller's mistake in the account; with invariants it ends the process.
func (g *Gate) misuse(what string) {
	g.misused.Add(1)
	if invariants {
		panic("BUG: slab: " + what)
	}
}

// GateStats are counts of a Gate.
type GateStats struct {
	Bytes    int64 // what all queries may hold
	PerQuery int64 // what one may
	Queries  int   // how many run at once at most

	Running int // queries admitted and not closed
	Waiting int

	Held int64 // bytes reserved now
	Peak int64 // the most that were

	Admitted  int64 // queries, since the start
	Cancelled int64 // queries that left the queue, or came with an ended context
	Refused   int64 // reservations over a quota
	Misused   int64 // mistakes of callers: more returned than reserved, closed with bytes or twice
}

// Stats returns the counts as they are now.
func (g *Gate) Stats() GateStats {
	s := GateStats{
		Bytes: g.options.Bytes, PerQuery: g.options.PerQuery,
		Queries: int(min(g.options.Bytes/g.options.PerQuery, 1<<31-1)),
		Held:    g.held.Load(), Peak: g.peak.Load(),
		Refused: g.refused.Load(), Misused: g.misused.Load(),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Running = s.Queries - g.free
	s.Waiting = g.queue.Len()
	s.Admitted, s.Cancelled = g.admitted, g.cancelled
	return s
}

// ErrOverQuota is what every *LimitError is, for errors.Is.
var ErrOverQuota = errors.New("over the bytes of a query")
