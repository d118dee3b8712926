package slab

import "errors"

// KeyLimits bound the queries of one key. 0: no bound.
type KeyLimits struct {
	Bytes    int64 // granted to all of its queries; also the bound of one
	Requests int   // concurrently running queries
	Queue    int   // waiting queries
}

// ErrQueueFull reports that the maximum number of the key's queries is waiting.
var ErrQueueFull = errors.New("the queue is full")

// KeyStats are the counters of one key.
type KeyStats struct {
	Running, Waiting int
	Bytes            int64 // granted
}

// A keyAccount is the account of a key's queries. It is guarded by its gate's mu, and dropped when none runs
// or waits.
type keyAccount struct {
	key string
	KeyStats
}

// accountLocked returns the account of a key, nil without limits.
func (g *Gate) accountLocked(key string) *keyAccount {
	if g.options.Limits == nil {
		return nil
	}
	a := g.accounts[key]
	if a == nil {
		a = &keyAccount{key: key}
		g.accounts[key] = a
	}
	return a
}

// limits returns the bounds of a key.
func (g *Gate) limits(key string) KeyLimits {
	if g.options.Limits == nil {
		return KeyLimits{}
	}
	return g.options.Limits(key)
}

// permitsLocked reports whether a query of the key may start with n bytes. A key without bytes always may, so
// that bounds that were lowered meanwhile do not stop a query permanently.
func (g *Gate) permitsLocked(a *keyAccount, n int64) bool {
	if a == nil {
		return true
	}
	l := g.limits(a.key)
	return (l.Requests <= 0 || a.Running < l.Requests) && (l.Bytes <= 0 || a.KeyStats.Bytes+n <= l.Bytes || a.KeyStats.Bytes == 0)
}

// chargeLocked adds queries and bytes to an account, and drops it once it has neither.
func (g *Gate) chargeLocked(a *keyAccount, running, waiting int, bytes int64) {
	if a == nil {
		return
	}
	a.Running += running
	a.Waiting += waiting
	a.KeyStats.Bytes += bytes
	if a.Running == 0 && a.Waiting == 0 {
		delete(g.accounts, a.key)
	}
}

// Keys calls visit with each key that has queries running or waiting, if the gate has limits. visit must not
// call the gate.
func (g *Gate) Keys(visit func(key string, s KeyStats)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, a := range g.accounts {
		visit(key, a.KeyStats)
	}
}

// Recheck admits the queries that may run after limits were raised.
func (g *Gate) Recheck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitAllLocked()
}
