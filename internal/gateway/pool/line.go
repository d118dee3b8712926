package pool

import (
	"slices"
	"time"
)

// A line is the sessions whose statements are in flight on a connection, in the order in which the server executes them: the holder
// and those behind it.
type line[K comparable, C any] struct {
	open     bool // others may send their statements behind
	doomed   bool // responses will come that nobody reads: the connection is of no further use
	behind   []*Waiter[K, C]
	reserved *Waiter[K, C] // the connection is for this one in the queue, and no others join
}

// Lead permits other sessions to send their statements on a lent connection, whose holder has sent its own. Those in the queue come
// first. It does not allocate once a connection has had Depth sessions.
func (p *Pool[K, C]) Lead(c *Conn[K, C]) {
	if p.Depth < 2 || c.line.open || c.line.doomed {
		return
	}
	c.line.open = true
	if c.line.behind == nil {
		c.line.behind = make([]*Waiter[K, C], 0, p.Depth-1)
	}
	p.lines = append(p.lines, c)
	p.feed(c)
}

// Next passes a connection from its holder, whose statement is over, to the first behind it, and returns that. Without one it returns
// nil, and the holder calls Put.
func (p *Pool[K, C]) Next(c *Conn[K, C], now time.Time) *Waiter[K, C] {
	if len(c.line.behind) == 0 {
		return nil
	}
	w := c.line.behind[0]
	c.line.behind = slices.Delete(c.line.behind, 0, 1)
	w.Grant = GrantUse
	p.Lent.Add(1)
	if c.expired(&p.Limits, now) {
		p.Close(c)
	}
	p.feed(c)
	w.Owner.Granted()
	return w
}

// InLine returns the number of sessions behind the holder.
func (c *Conn[K, C]) InLine() int { return len(c.line.behind) }

// Close has no more sessions join: those that are behind the holder stay.
func (p *Pool[K, C]) Close(c *Conn[K, C]) {
	if !c.line.open {
		return
	}
	c.line.open = false
	p.lines = slices.DeleteFunc(p.lines, func(o *Conn[K, C]) bool { return o == c })
	if c.line.reserved != nil {
		p.release(c)
	}
}

// Disband tells those behind the holder that they get no responses, and returns how many they were: the holder goes on alone.
func (p *Pool[K, C]) Disband(c *Conn[K, C]) int {
	p.Close(c)
	return p.lose(c, 0)
}

// Leave takes a waiter with GrantBehind off its connection, and those behind it: their responses cannot be told from its own. The
// connection is closed once those before it have theirs.
func (p *Pool[K, C]) Leave(w *Waiter[K, C]) {
	c := w.Conn
	at := slices.Index(c.line.behind, w)
	if at < 0 {
		return
	}
	p.Close(c)
	c.line.doomed = true
	c.line.behind = slices.Delete(c.line.behind, at, at+1)
	w.Grant, w.Conn = GrantLost, nil
	p.lose(c, at)
}

// lose ends the part of a line from a place on.
func (p *Pool[K, C]) lose(c *Conn[K, C], from int) (lost int) {
	for _, w := range c.line.behind[from:] {
		w.Grant, w.Conn, w.Alone = GrantLost, nil, true
		p.Lost.Add(1)
		lost++
		w.Owner.Granted()
	}
	clear(c.line.behind[from:])
	c.line.behind = c.line.behind[:from]
	return lost
}

// endLine ends the line of a connection that nobody is behind.
func (p *Pool[K, C]) endLine(c *Conn[K, C]) {
	if len(c.line.behind) > 0 {
		panic("BUG: a connection with statements in flight is returned")
	}
	p.Close(c)
}

// join sends the statement of w behind others' if nobody in the queue comes first, where the fewest are.
func (p *Pool[K, C]) join(w *Waiter[K, C]) bool {
	if w.Alone || p.uncovered > 0 {
		return false
	}
	for room := range max(p.Depth-1, 0) {
		for _, c := range p.lines {
			if len(c.line.behind) == room && p.takes(c) && p.append(c, w) {
				return true
			}
		}
	}
	return false
}

// takes reports whether a connection has room.
func (p *Pool[K, C]) takes(c *Conn[K, C]) bool {
	return c.line.open && c.line.reserved == nil && len(c.line.behind) < p.Depth-1 && p.Brisk(c.Value)
}

// append sends the statement of w on c, if it can be.
func (p *Pool[K, C]) append(c *Conn[K, C], w *Waiter[K, C]) bool {
	if w.Alone || c.Class != w.Class || !w.Owner.SendBehind(c.Value) {
		return false
	}
	w.Grant, w.Conn = GrantBehind, c
	c.line.behind = append(c.line.behind, w)
	p.Behind.Add(1)
	return true
}

// feed has those in the queue join a connection, up to the first one that cannot and has no other reserved: it is reserved for that.
func (p *Pool[K, C]) feed(c *Conn[K, C]) {
	for w := p.first; w != nil && p.takes(c); {
		next := w.next
		switch {
		case p.append(c, w):
			p.remove(w)
		case w.reserved == nil:
			p.reserve(c, w)
		case !p.Brisk(w.reserved.Value):
			p.release(w.reserved)
			p.reserve(c, w)
		}
		w = next
	}
}

// cover reserves a connection for the last in the queue if it needs one alone: no others join, so that it becomes free.
func (p *Pool[K, C]) cover() {
	w := p.last
	if !w.Alone || p.uncovered > 1 {
		return
	}
	var least *Conn[K, C]
	for _, c := range p.lines {
		if c.line.reserved == nil && p.Brisk(c.Value) && (least == nil || len(c.line.behind) < len(least.line.behind)) {
			least = c
		}
	}
	if least != nil {
		p.reserve(least, w)
	}
}

func (p *Pool[K, C]) reserve(c *Conn[K, C], w *Waiter[K, C]) {
	c.line.reserved, w.reserved = w, c
	p.uncovered--
}

func (p *Pool[K, C]) release(c *Conn[K, C]) {
	c.line.reserved.reserved, c.line.reserved = nil, nil
	p.uncovered++
}
