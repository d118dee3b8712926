package bytecache

// A segment is the list that a node is in.
type segment uint8

const (
	unlinked  segment = iota
	window            // new entries, in order of arrival
	probation         // entries not hit since they left the window: victims come from here
	protected         // entries that were hit on probation
	segments
)

// maxVisits is the maximum number of hits that a node counts between two collections by the policy.
const maxVisits = maxFrequency

const (
	windowPercent    = 1
	protectedPercent = 80
)

// A list is a doubly linked list of nodes, newest first. The zero list is empty.
type list[K comparable, V any] struct {
	head, tail *node[K, V]
	bytes      int64
}

func (l *list[K, V]) pushFront(n *node[K, V]) {
	n.prev, n.next = nil, l.head
	if l.head != nil {
		l.head.prev = n
	} else {
		l.tail = n
	}
	l.head = n
	l.bytes += n.bytes
}

func (l *list[K, V]) remove(n *node[K, V]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.head = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.tail = n.prev
	}
	n.prev, n.next = nil, nil
	l.bytes -= n.bytes
}

// link puts n at the front of a segment.
func (c *Cache[K, V]) link(n *node[K, V], s segment) {
	n.segment = s
	c.lists[s].pushFront(n)
}

// unlink removes n from its segment.
func (c *Cache[K, V]) unlink(n *node[K, V]) {
	c.lists[n.segment].remove(n)
	n.segment = unlinked
}

// move moves n from its segment to the front of another, or of the same.
func (c *Cache[K, V]) move(n *node[K, V], s segment) {
	c.lists[n.segment].remove(n)
	c.link(n, s)
}

// collect adds the hits of n since the last collection to the sketch and reports whether there were any.
func (c *Cache[K, V]) collect(n *node[K, V]) bool {
	if n.visits.Load() == 0 {
		return false
	}
	c.sketch.add(n.hash, n.visits.Swap(0))
	return true
}

// frequency estimates how often n was requested recently.
func (c *Cache[K, V]) frequency(n *node[K, V]) uint32 {
	return min(maxFrequency, c.sketch.estimate(n.hash)+n.visits.Load())
}

// windowRoom and protectedRoom return the segments' parts of the bytes available for entries.
func (c *Cache[K, V]) windowRoom() int64 {
	return (c.capacity.Load() - c.overhead) * windowPercent / 100
}

func (c *Cache[K, V]) protectedRoom() int64 {
	return (c.capacity.Load() - c.overhead) * (100 - windowPercent) / 100 * protectedPercent / 100
}

// admit adds n, which is not in the table yet, to a segment, and evicts entries for it if necessary. It
// reports whether n may stay.
func (c *Cache[K, V]) admit(n *node[K, V]) bool {
	if room := c.windowRoom(); n.bytes > room {
		// Too large for the window, where it would displace everything else: it contends immediately.
		if !c.contend(n, c.excess(n)) {
			return false
		}
		c.link(n, probation)
	} else {
		c.link(n, window)
		for c.lists[window].bytes > room {
			c.leaveWindow(c.lists[window].tail, c.excess(n))
		}
	}
	for c.excess(n) > 0 {
		v := c.victim()
		if v == n || v == nil {
			c.unlink(n)
			return false
		}
		c.drop(v, Capacity)
	}
	return true
}

// excess returns the number of bytes by which the cache would exceed its capacity with n.
func (c *Cache[K, V]) excess(n *node[K, V]) int64 {
	return c.bytes.Load() + n.bytes - c.capacity.Load()
}

// leaveWindow moves n from the window to probation. While there is room nothing contends; otherwise n must
// win against the entries it would displace.
func (c *Cache[K, V]) leaveWindow(n *node[K, V], excess int64) {
	c.unlink(n)
	if c.contend(n, excess) {
		c.link(n, probation)
		return
	}
	c.drop(n, Contest)
}

// contend reports whether n is requested more often than all entries together that have to be evicted to free
// excess bytes, and evicts them if so. The entry that n loses against moves to the front of probation. Entries
// must not be evicted for a less useful one, and a large entry must be worth all the small ones it displaces
// ("Aggregated Victims" in Einziger, Eytan, Friedman, Manes: Lightweight Robust Size Aware Cache Management).
//
// n is in no list.
func (c *Cache[K, V]) contend(n *node[K, V], excess int64) bool {
	if excess <= 0 {
		return true
	}
	mine := c.frequency(n)
	var freed int64
	var theirs uint32
	victims, looks := 0, 0
	for v := c.lists[probation].tail; freed < excess; {
		if v == nil {
			// Demoted entries move to the front, where this scan ends.
			if v = c.demote(); v == nil {
				return false
			}
		}
		newer := v.prev
		if looks++; looks <= maxLooks && c.collect(v) {
			c.move(v, protected)
			c.trimProtected()
			if newer == nil {
				// Trimming may have added entries at the front.
				newer = c.lists[probation].newerThan(victims)
			}
			v = newer
			continue
		}
		f := c.frequency(v)
		// A saturated counter means "at least": only another saturated one withstands it.
		if theirs += f; mine < maxFrequency && theirs >= mine || f == maxFrequency {
			// The next contest begins with another victim. Otherwise one entry with a high estimate, which a
			// collision in the sketch suffices for, would protect all less frequent ones in front of it until
			// the sketch is halved.
			c.move(v, probation)
			return false
		}
		freed += v.bytes
		victims++
		v = newer
	}
	for range victims {
		c.drop(c.lists[probation].tail, Capacity)
	}
	return true
}

// maxLooks bounds the visited entries that one search for victims skips: readers may mark entries as fast as
// it clears the marks.
const maxLooks = 256

// newerThan returns the node that is the given number of positions from the tail, or nil.
func (l *list[K, V]) newerThan(places int) *node[K, V] {
	n := l.tail
	for ; n != nil && places > 0; places-- {
		n = n.prev
	}
	return n
}

// trimProtected moves the entries in excess of protected's room to probation, least recently hit first.
func (c *Cache[K, V]) trimProtected() {
	for room := max(0, c.protectedRoom()); c.lists[protected].bytes > room; {
		c.demote()
	}
}

// demote moves the oldest entry of protected that was not hit since it arrived there to the front of
// probation, and returns it; entries that were hit move to the front of protected.
func (c *Cache[K, V]) demote() *node[K, V] {
	for looks := 0; ; looks++ {
		n := c.lists[protected].tail
		if n == nil {
			return nil
		}
		if looks < maxLooks && c.collect(n) {
			c.move(n, protected)
			continue
		}
		c.move(n, probation)
		return n
	}
}

// victim returns the entry to evict unconditionally: from probation, then from protected, then from the
// window; nil if there is none.
func (c *Cache[K, V]) victim() *node[K, V] {
	for looks := 0; ; looks++ {
		n := c.lists[probation].tail
		if n == nil {
			if n = c.demote(); n == nil {
				return c.lists[window].tail
			}
		}
		if looks < maxLooks && c.collect(n) {
			c.move(n, protected)
			c.trimProtected()
			continue
		}
		return n
	}
}
