package bytecache

import (
	"sync/atomic"
	"unsafe"
)

// A Reason is the reason for an entry's removal.
type Reason uint8

// The reasons, in the order of Stats.Evicted.
const (
	Capacity Reason = iota // evicted for another entry
	Contest                // new, and requested less often than the entries it would have displaced
	Replaced               // its key was set again
	Deleted                // by Delete or DeleteFunc
	Cleared                // by Clear
	reasons
)

var reasonNames = [reasons]string{"capacity", "contest", "replaced", "deleted", "cleared"}

// Reasons lists all reasons in the order of [Stats.Evicted].
func Reasons() []Reason { return []Reason{Capacity, Contest, Replaced, Deleted, Cleared} }

// String returns the reason in one word, suitable as a metric's label.
func (r Reason) String() string { return reasonNames[r] }

// Stats are a cache's counters since its creation, and its state.
type Stats struct {
	Hits   uint64
	Misses uint64 // Gets and Loads without a hit, including those that waited for a Load

	Inserted uint64 // new keys
	Replaced uint64 // existing keys
	Evicted  [reasons]uint64

	RefusedLarge  uint64 // Sets of entries past MaxEntry
	RefusedPolicy uint64 // Sets rejected immediately by the contest
	RefusedStale  uint64 // loaded values whose key was changed during their creation
	Uncacheable   uint64 // loaded values that fill reported as not cacheable

	Entries  int
	Bytes    int64 // total, as in [Cache.Bytes]
	Overhead int64 // the part of Bytes that is not entries
	Capacity int64
}

// writeCounts are the counters updated under the cache's lock.
type writeCounts struct {
	inserted, replaced                        uint64
	refusedLarge, refusedPolicy, refusedStale uint64
	evicted                                   [reasons]uint64
}

// counters are one stripe of the counters updated without a lock, in a separate cache line.
type counters struct {
	hits, misses, uncacheable atomic.Uint64
	_                         [64 - 3*8]byte
}

// stripe returns this goroutine's counters, approximately: goroutines differ in the addresses of their
// stacks.
func (c *Cache[K, V]) stripe() *counters {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * 0x9E3779B97F4A7C15 >> 32
	return &c.counters[at&uint64(len(c.counters)-1)]
}

// Stats returns the counters. Concurrent operations may be counted in part.
func (c *Cache[K, V]) Stats() Stats {
	var s Stats
	for i := range c.counters {
		s.Hits += c.counters[i].hits.Load()
		s.Misses += c.counters[i].misses.Load()
		s.Uncacheable += c.counters[i].uncacheable.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.written
	s.Inserted, s.Replaced, s.Evicted = w.inserted, w.replaced, w.evicted
	s.RefusedLarge, s.RefusedPolicy, s.RefusedStale = w.refusedLarge, w.refusedPolicy, w.refusedStale
	s.Entries, s.Bytes, s.Overhead = c.table.Load().live, c.bytes.Load(), c.overhead
	s.Capacity = c.capacity.Load()
	return s
}
