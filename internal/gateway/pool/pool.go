package pool

import (
	"sync/atomic"
	"time"
)

// Limits bound a pool.
type Limits struct {
	Max      int           // connections, those that are being opened included
	Min      int           // connections that stay open while they are idle
	Depth    int           // sessions whose statements are in flight on one connection; at most 1: its holder's alone
	Lifetime time.Duration // a connection is not lent after this time; 0: no limit
	IdleAge  time.Duration // a connection above Min is closed after this time without use; 0: never
}

// A Conn is a connection of a pool.
type Conn[K comparable, C any] struct {
	Class K // changes only while it is lent
	Value C

	born, idleSince time.Time
	line            line[K, C]
}

// expired reports whether the connection is past its lifetime.
func (c *Conn[K, C]) expired(l *Limits, now time.Time) bool {
	return l.Lifetime > 0 && now.Sub(c.born) >= l.Lifetime
}

// A Grant is what a session is permitted.
type Grant uint8

// The grants.
const (
	GrantNone    Grant = iota
	GrantUse           // Waiter.Conn is the session's
	GrantOpen          // open a connection: it is counted already
	GrantReplace       // close Waiter.Conn, and open another connection: it is counted already
	GrantBehind        // the session's statement is on Waiter.Conn, behind others: see Pool.Lead
	GrantLost          // it was, but has no response
)

// An Owner is the session of a Waiter.
type Owner[C any] interface {
	// Fits reports whether a connection is in the session's state, so that it is preferred.
	Fits(c C) bool
	// SendBehind sends the session's statement on a connection that another session holds, if both permit it.
	SendBehind(c C) bool
	// Granted is called when a session that waits is granted something other than GrantBehind.
	Granted()
}

// A Waiter is a session's request for a connection. It is reused.
type Waiter[K comparable, C any] struct {
	Owner Owner[C]
	Class K
	Grant Grant
	Conn  *Conn[K, C]

	Alone bool // the statement is not sent behind others

	queued     bool
	prev, next *Waiter[K, C]
	reserved   *Conn[K, C] // for the waiter, once those in flight on it have their responses
}

// Stats are counts of a pool.
type Stats struct {
	Open, Idle, Queued           atomic.Int64  // connections, of them not lent, sessions in the queue
	Opened, Closed, Lent, Waited atomic.Uint64 // since the start; Waited: sessions that were in the queue
	TimedOut, Changed            atomic.Uint64 // since the start: sessions that waited too long, connections brought into another state
	Behind, Lost                 atomic.Uint64 // since the start: statements sent behind others, and those of them without a response
}

// A Pool is described in the package documentation.
type Pool[K comparable, C any] struct {
	Limits
	Stats
	Brisk func(c C) bool // reports whether the statement of a connection's holder is not slow: others may wait behind it

	idle        []*Conn[K, C] // the most recently used one last
	first, last *Waiter[K, C] // the queue
	lines       []*Conn[K, C] // connections with statements of more than one session in flight, or with room for them
	uncovered   int           // waiters in the queue that no connection of lines is reserved for
}

// Ask requests a connection. Without a grant the waiter is in the queue: Granted is called, or Cancel removes it.
func (p *Pool[K, C]) Ask(w *Waiter[K, C]) {
	w.Grant, w.Conn = GrantNone, nil
	if p.first == nil && p.serve(w) || p.join(w) {
		return
	}
	p.enqueue(w)
	p.cover()
}

// serve grants w an idle connection or the room for one.
func (p *Pool[K, C]) serve(w *Waiter[K, C]) bool {
	at := -1
	for i := len(p.idle) - 1; i >= 0; i-- {
		c := p.idle[i]
		if c.Class != w.Class {
			continue
		}
		if at < 0 {
			at = i
		}
		if w.Owner.Fits(c.Value) {
			at = i
			break
		}
	}
	switch {
	case at >= 0:
		p.use(w, p.take(at))
	case int(p.Open.Load()) < p.Max:
		w.Grant = GrantOpen
		p.Open.Add(1)
	case len(p.idle) > 0:
		w.Grant, w.Conn = GrantReplace, p.take(0)
		p.Closed.Add(1)
	default:
		return false
	}
	return true
}

func (p *Pool[K, C]) use(w *Waiter[K, C], c *Conn[K, C]) {
	w.Grant, w.Conn = GrantUse, c
	p.Lent.Add(1)
}

// take removes an idle connection from the list.
func (p *Pool[K, C]) take(at int) *Conn[K, C] {
	c := p.idle[at]
	copy(p.idle[at:], p.idle[at+1:])
	p.idle[len(p.idle)-1] = nil
	p.idle = p.idle[:len(p.idle)-1]
	p.Idle.Add(-1)
	return c
}

// Opened adds a connection that a session has opened under a grant; it is lent to the session.
func (p *Pool[K, C]) Opened(class K, value C, now time.Time) *Conn[K, C] {
	p.Stats.Opened.Add(1)
	p.Lent.Add(1)
	return &Conn[K, C]{Class: class, Value: value, born: now}
}

// Put returns a lent connection. It reports whether the pool keeps it: otherwise the caller closes it, and calls Drop.
func (p *Pool[K, C]) Put(c *Conn[K, C], now time.Time) (kept bool) {
	w := c.line.reserved
	if w == nil {
		w = p.first
	}
	p.endLine(c)
	if c.expired(&p.Limits, now) || c.line.doomed {
		return false
	}
	if w != nil {
		p.remove(w)
		if w.Class == c.Class {
			p.use(w, c)
		} else {
			w.Grant, w.Conn = GrantReplace, c
			p.Closed.Add(1)
		}
		w.Owner.Granted()
		return true
	}
	c.idleSince = now
	p.idle = append(p.idle, c)
	p.Idle.Add(1)
	return true
}

// Drop records that a lent connection was closed. Those behind its holder get no response.
func (p *Pool[K, C]) Drop(c *Conn[K, C]) {
	p.Disband(c)
	p.Closed.Add(1)
	p.Failed()
}

// Failed records that a connection could not be opened. The first in the queue is granted its room.
func (p *Pool[K, C]) Failed() {
	if w := p.first; w != nil {
		p.remove(w)
		w.Grant = GrantOpen
		w.Owner.Granted()
		return
	}
	p.Open.Add(-1)
}

// Cancel removes a waiter from the queue. It reports false if something was granted meanwhile.
func (p *Pool[K, C]) Cancel(w *Waiter[K, C]) bool {
	if !w.queued {
		return false
	}
	p.remove(w)
	return true
}

// Expire removes idle connections that are dead or past an age, and passes them to closed.
func (p *Pool[K, C]) Expire(now time.Time, dead func(C) bool, closed func(C)) {
	for i := 0; i < len(p.idle); {
		c := p.idle[i]
		aged := p.IdleAge > 0 && now.Sub(c.idleSince) >= p.IdleAge && int(p.Open.Load()) > p.Min
		if !aged && !c.expired(&p.Limits, now) && !dead(c.Value) {
			i++
			continue
		}
		closed(p.take(i).Value)
		p.Drop(c)
	}
}

// Clear removes all idle connections, and passes them to closed.
func (p *Pool[K, C]) Clear(closed func(C)) {
	for len(p.idle) > 0 {
		c := p.take(len(p.idle) - 1)
		closed(c.Value)
		p.Drop(c)
	}
}

func (p *Pool[K, C]) enqueue(w *Waiter[K, C]) {
	w.queued, w.prev, w.next = true, p.last, nil
	p.uncovered++
	if p.last == nil {
		p.first = w
	} else {
		p.last.next = w
	}
	p.last = w
	p.Queued.Add(1)
	p.Waited.Add(1)
}

func (p *Pool[K, C]) remove(w *Waiter[K, C]) {
	if w.prev == nil {
		p.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		p.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	p.uncovered--
	if w.reserved != nil {
		p.release(w.reserved)
	}
	p.Queued.Add(-1)
}
