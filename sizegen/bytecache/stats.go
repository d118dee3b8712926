package bytecache

import (
	"sync/atomic"
	"unsafe"
)

// A Reason says why an entry left the cache.
type Reason uint8

// The reasons, in the order of Stats.Evicted.
const (
	Capacity Reason = iota // made room for another
	Contest                // new, and asked for less often than what it would have displaced
	Replaced               // its key was set anew
	Deleted                // by Delete or DeleteFunc
	Cleared                // by Clear
	reasons
)

var reasonNames = [reasons]string{"capacity", "contest", "replaced", "deleted", "cleared"}

// Reasons lists all reasons in the order of [Stats.Evicted].
func Reasons() []Reason { return []Reason{Capacity, Contest, Replaced, Deleted, Cleared} }

// String returns the reason in one word, fit for a metric's label.
func (r Reason) String() string { return reasonNames[r] }

// Stats are a cache's counts since it was made, and its state.
type Stats struct {
	Hits   uint64
	Misses uint64 // Gets and Loads that found nothing, those that waited for a Load included

	Inserted uint64 // keys that were not there before
	Replaced uint64 // keys that were
	Evicted  [reasons]uint64

	RefusedLarge  uint64 // Sets of entries past MaxEntry
	RefusedPolicy uint64 // Sets that lost against what they would have displaced at once
	RefusedStale  uint64 // loaded values whose key was changed while they were made
	Uncacheable   uint64 // loaded values not to be kept, as their makers said

	Entries  int
	Bytes    int64 // all, as [Cache.Bytes]
	Overhead int64 // the part of Bytes that is not entries
	Capacity int64
}

// writeCounts are counted under the cache's lock.
type writeCounts struct {
	inserted, replaced                        uint64
	refusedLarge, refusedPolicy, refusedStale uint64
	evicted                                   [reasons]uint64
}

// counters are one stripe of what is counted without a lock: a cache line of its own.
type counters struct {
	hits, misses, uncacheable atomic.Uint64
	_                         [64 - 3*8]byte
}

// stripe returns the counters of this goroutine, nearly: goroutines differ in where their
// stacks lie.
func (c *Cache[K, V]) stripe() *counters {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * 0x9E3779B97F4A7C15 >> 32
	return &c.counters[at&uint64(len(c.counters)-1)]
}

// Stats returns the counts. The ones of different operations under way may be apart by these.
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
