package slab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// GateOptions configures a Gate. Bytes and PerQuery are required.
type GateOptions struct {
	// Bytes bounds the bytes of all running queries together.
	Bytes int64

	// PerQuery bounds the bytes of each query, and is the amount that Admit grants.
	PerQuery int64

	// Light is the part of Bytes reserved for light queries. 0: they are admitted like others.
	Light int64

	// Limits returns the bounds of a key. It is called with the gate locked: it must not block or call the
	// gate. nil: keys have no bounds.
	Limits func(key string) KeyLimits
}

// Validate returns an error if the options are invalid.
func (o GateOptions) Validate() error {
	switch {
	case o.PerQuery <= 0:
		return fmt.Errorf("bytes per query are %d: a query needs some", o.PerQuery)
	case o.Light < 0:
		return fmt.Errorf("bytes of light queries are %d", o.Light)
	case o.Bytes-o.Light < o.PerQuery:
		return fmt.Errorf("bytes of the process are %d, less than the %d of one query: none could run", o.Bytes-o.Light, o.PerQuery)
	}
	return nil
}

// A Gate admits queries to a process' memory budget. It grants each query an amount at admission; a query
// that requires more grows, up to PerQuery, if bytes are free, and is refused otherwise. Admission is the
// only point where a query waits for others, and a waiting query holds nothing, so queries cannot deadlock. A
// query that was refused because the process has no free bytes can release everything and be admitted again
// with all of PerQuery, with which it is never refused for that reason.
//
// Queries are admitted in order of arrival; if they have keys, in turn between the keys. A query that asks
// for less never overtakes the first in turn, but queries of other keys do while its key is at one of its
// limits. A Gate is safe for concurrent use.
type Gate struct {
	options GateOptions
	held    atomic.Int64 // bytes reserved in all quotas
	peak    atomic.Int64 // maximum of held
	refused atomic.Int64 // reservations over a quota
	short   atomic.Int64 // reservations refused because the process had no free bytes
	misused atomic.Int64 // mistakes: bytes returned that were not reserved, quotas closed with bytes or twice

	mu        sync.Mutex
	accounts  map[string]*keyAccount // keys with queries; nil without limits
	main      lane
	light     lane
	running   int
	admitted  int64
	cancelled int64
	full      int64 // queries refused because the queue of their key was full
}

// AdmitOptions specifies the admission of a query.
type AdmitOptions struct {
	Key   string // queries of different keys are admitted in turn
	First int64  // bytes granted at admission; 0: PerQuery
	Light bool   // admit from the bytes of light queries
}

// NewGate returns a gate. It panics if the options are invalid.
func NewGate(o GateOptions) *Gate {
	if err := o.Validate(); err != nil {
		panic("BUG: slab: " + err.Error())
	}
	g := &Gate{options: o, main: newLane(o.Bytes - o.Light), light: newLane(o.Light)}
	if o.Limits != nil {
		g.accounts = make(map[string]*keyAccount)
	}
	return g
}

// Admit waits for a quota of PerQuery bytes and returns it, like AdmitFor.
func (g *Gate) Admit(ctx context.Context) (*Quota, error) { return g.AdmitFor(ctx, AdmitOptions{}) }

// AdmitFor waits for a quota and returns it. The caller closes it when the query is over. If ctx is done
// first, AdmitFor leaves the queue and returns the cause; if the queue of the key is full, it returns
// ErrQueueFull. Without a queue it costs one allocation, the Quota, and with limits another for a key without
// queries.
func (g *Gate) AdmitFor(ctx context.Context, a AdmitOptions) (*Quota, error) {
	most := g.options.PerQuery
	if n := g.limits(a.Key).Bytes; n > 0 {
		most = min(most, n)
	}
	if a.First <= 0 || a.First > most {
		a.First = most
	}
	l := &g.main
	if a.Light && a.First <= g.options.Light {
		l = &g.light
	}
	g.mu.Lock()
	if ctx.Err() != nil {
		g.cancelled++
		g.mu.Unlock()
		return nil, fmt.Errorf("wait for the bytes of a query: %w", context.Cause(ctx))
	}
	account := g.accountLocked(a.Key)
	q := &Quota{gate: g, limit: most, lane: l, first: a.First, account: account}
	q.granted.Store(a.First)
	if l.keys[a.Key] == nil && g.nextLocked(l) == nil && l.free >= a.First && g.permitsLocked(account, a.First) {
		g.grantLocked(l, account, a.First)
		g.yieldLocked(account)
		g.mu.Unlock()
		return q, nil
	}
	if n := g.limits(a.Key).Queue; n > 0 && account.Waiting >= n {
		g.full++
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: %d queries wait already", ErrQueueFull, n)
	}
	g.chargeLocked(account, 0, 1, 0)
	w := l.push(a.Key, a.First, account)
	g.mu.Unlock()

	select {
	case <-w.admitted:
		return q, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancelled++
	if w.granted {
		// Admitted and cancelled concurrently: the bytes go to the next.
		g.admitted--
		g.running--
		l.free += a.First
		g.chargeLocked(account, -1, 0, -a.First)
	} else {
		l.remove(w, false)
		g.chargeLocked(account, 0, -1, 0)
	}
	g.admitAllLocked() // the next may ask for less
	return nil, fmt.Errorf("wait for the bytes of a query: %w", context.Cause(ctx))
}

func (g *Gate) grantLocked(l *lane, a *keyAccount, n int64) {
	l.free -= n
	g.running++
	g.admitted++
	g.chargeLocked(a, 1, 0, n)
}

// nextLocked returns the next query in turn whose key permits it; nil if there is none.
func (g *Gate) nextLocked(l *lane) *waiter {
	for e := l.turns.Front(); e != nil; e = e.Next() {
		w := e.Value.(*turn).waiters.Front().Value.(*waiter)
		if g.permitsLocked(w.account, w.first) {
			return w
		}
	}
	return nil
}

// admitAllLocked admits from both lanes: admitting a query of one lane can take a key to its limits, which
// lets others pass in the other lane.
func (g *Gate) admitAllLocked() {
	for g.admitLocked(&g.main) || g.admitLocked(&g.light) {
	}
}

// yieldLocked admits queries that waited behind a query of a key that has been granted bytes, if it is at its
// limits now.
func (g *Gate) yieldLocked(a *keyAccount) {
	if a != nil && g.main.waiting+g.light.waiting > 0 {
		g.admitAllLocked()
	}
}

// admitLocked grants free bytes to queries in turn, and reports whether it admitted any.
func (g *Gate) admitLocked(l *lane) (any bool) {
	for w := g.nextLocked(l); w != nil && w.first <= l.free; w = g.nextLocked(l) {
		l.remove(w, true)
		g.grantLocked(l, w.account, w.first)
		g.chargeLocked(w.account, 0, -1, 0)
		w.granted, any = true, true
		close(w.admitted)
	}
	return any
}

// grow grants n more bytes to a running query if they are free and its key permits them. It does not wait.
func (g *Gate) grow(a *keyAccount, n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.main.free < n {
		return false
	}
	if a != nil {
		if most := g.limits(a.key).Bytes; most > 0 && a.KeyStats.Bytes+n > most {
			return false
		}
	}
	g.main.free -= n
	g.chargeLocked(a, 0, 0, n)
	g.yieldLocked(a)
	return true
}

// release takes back the bytes that a quota was granted at admission and later.
func (g *Gate) release(l *lane, a *keyAccount, first, grown int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	l.free += first
	g.main.free += grown
	g.chargeLocked(a, -1, 0, -first-grown)
	g.admitAllLocked()
}

// charge adds n bytes to the bytes reserved by all queries.
func (g *Gate) charge(n int64) {
	now := g.held.Add(n)
	for n > 0 {
		peak := g.peak.Load()
		if now <= peak || g.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// misuse counts a caller's mistake in the account; with invariants it panics.
func (g *Gate) misuse(what string) {
	g.misused.Add(1)
	if invariants {
		panic("BUG: slab: " + what)
	}
}

// GateStats are counters of a Gate.
type GateStats struct {
	Bytes    int64 // bound of all queries
	PerQuery int64 // bound of one
	Queries  int   // queries that run concurrently if each holds PerQuery

	Running int // queries admitted and not closed
	Waiting int

	Held int64 // bytes reserved now
	Peak int64 // maximum of Held

	Admitted  int64 // queries
	Cancelled int64 // queries that left the queue, or came with a context that was done
	Refused   int64 // reservations over a quota
	Short     int64 // reservations refused because the process, or the key, had no free bytes
	Full      int64 // queries refused because the queue of their key was full

	Light        int64 // bytes of light queries, a part of Bytes
	LightWaiting int   // light queries, a part of Waiting
	Misused      int64 // mistakes of callers: more returned than reserved, closed with bytes or twice
}

// Stats returns the current counters.
func (g *Gate) Stats() GateStats {
	s := GateStats{
		Bytes: g.options.Bytes, PerQuery: g.options.PerQuery,
		Queries: int(min((g.options.Bytes-g.options.Light)/g.options.PerQuery, 1<<31-1)),
		Held:    g.held.Load(), Peak: g.peak.Load(),
		Refused: g.refused.Load(), Short: g.short.Load(), Misused: g.misused.Load(),
		Light: g.options.Light,
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Running = g.running
	s.Waiting, s.LightWaiting = g.main.waiting+g.light.waiting, g.light.waiting
	s.Admitted, s.Cancelled, s.Full = g.admitted, g.cancelled, g.full
	return s
}

// ErrOverQuota matches a *LimitError by errors.Is if the query would exceed its bound.
var ErrOverQuota = errors.New("over the bytes of a query")

// ErrShort matches a *LimitError by errors.Is if the process has no free bytes for the query to grow.
var ErrShort = errors.New("no free bytes in the process")
