package bytecache

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

const (
	groupSlots = 7

	laneLow  = 0x00_01_01_01_01_01_01_01 // the lowest bit of each of the seven lanes
	laneHigh = 0x00_80_80_80_80_80_80_80

	tagEmpty   = 0x00
	tagDeleted = 0x01
	tagFull    = 0x80 // with seven bits of the hash

	minGroups = 8
)

// A node is one entry. Hash, key, value and bytes are immutable once it is published; a new value for a key
// is a new node. Links and segment belong to the policy, under the cache's lock.
type node[K comparable, V any] struct {
	// Fields that readers use come first, to share a cache line if possible.

	hash uint64

	// visits counts the hits since the policy last collected them, up to maxVisits. Readers increment it
	// without a lock.
	visits  atomic.Uint32
	segment segment
	reason  Reason // of its removal

	key   K
	value V

	prev, next *node[K, V]
	bytes      int64 // charged bytes: the node and the memory that key and value own
}

// A group is one cache line: a control word with a tag for each slot, and seven slots.
//
// Writers hold the cache's lock. Readers hold none: a slot is filled before its tag is set and emptied after
// its tag is cleared, and the node that a tag leads to is compared in full.
type group[K comparable, V any] struct {
	control atomic.Uint64
	slots   [groupSlots]atomic.Pointer[node[K, V]]
}

// A table is an open-addressing hash table of nodes, probed by whole groups. It never grows: the cache
// replaces it by a larger one, and readers of the old one still find its nodes.
type table[K comparable, V any] struct {
	groups []group[K, V] // a power of two
	mask   uint64

	// live counts nodes, free the empty slots that may still be filled. Only the writer uses them.
	live, free int
}

func newTable[K comparable, V any](groups int) *table[K, V] {
	return &table[K, V]{
		groups: make([]group[K, V], groups),
		mask:   uint64(groups - 1),
		free:   tableRoom(groups),
	}
}

// tableRoom returns the number of slots of a table that may be filled: one in seven stays empty, so that
// probes are short.
func tableRoom(groups int) int { return groups * (groupSlots - 1) }

// tableBytes returns the heap bytes of a table with a number of groups.
func tableBytes[K comparable, V any](groups int) int64 {
	return int64(heapsize.Object(unsafe.Sizeof(table[K, V]{}), true) +
		heapsize.Array(uintptr(groups), unsafe.Sizeof(group[K, V]{}), true))
}

// groupsFor returns the number of groups of the smallest table that has room for n nodes and an eighth more,
// so that it is not rebuilt again immediately.
func groupsFor(n int) int {
	groups := minGroups
	for tableRoom(groups)*7/8 < n {
		groups *= 2
	}
	return groups
}

// sparse reports whether a table a quarter as large would have room for the nodes.
func (t *table[K, V]) sparse() bool { return groupsFor(4*t.live) <= len(t.groups)/2 }

func tagOf(hash uint64) uint64 { return tagFull | hash&0x7f }

// matching returns a mask with the high bit of each lane whose tag is tag, and possibly of further lanes
// above the first.
func matching(control, tag uint64) uint64 {
	x := control ^ tag*laneLow
	return (x - laneLow) &^ x & laneHigh
}

// lane returns the slot of the lowest bit of a mask.
func lane(mask uint64) int { return bits.TrailingZeros64(mask) / 8 }

// find returns the node of key, or nil. It takes no lock.
func (t *table[K, V]) find(hash uint64, key K) *node[K, V] {
	tag := tagOf(hash)
	for i, step := hash>>7&t.mask, uint64(1); step <= t.mask+1; i, step = (i+step)&t.mask, step+1 {
		g := &t.groups[i]
		control := g.control.Load()
		for m := matching(control, tag); m != 0; m &= m - 1 {
			if n := g.slots[lane(m)].Load(); n != nil && n.hash == hash && n.key == key {
				return n
			}
		}
		if matching(control, tagEmpty) != 0 {
			return nil
		}
	}
	return nil
}

// insert adds a node whose key is not in the table. There must be a free slot.
func (t *table[K, V]) insert(n *node[K, V]) {
	for i, step := n.hash>>7&t.mask, uint64(1); ; i, step = (i+step)&t.mask, step+1 {
		g := &t.groups[i]
		control := g.control.Load()
		// A slot is available if its tag has no high bit: empty or deleted.
		open := ^control & laneHigh
		if open == 0 {
			continue
		}
		l := lane(open)
		if control>>(8*l)&0xff == tagEmpty {
			t.free--
		}
		g.slots[l].Store(n)
		g.control.Store(control&^(0xff<<(8*l)) | tagOf(n.hash)<<(8*l))
		t.live++
		return
	}
}

// position returns the position of n.
func (t *table[K, V]) position(n *node[K, V]) (*group[K, V], int) {
	tag := tagOf(n.hash)
	for i, step := n.hash>>7&t.mask, uint64(1); step <= t.mask+1; i, step = (i+step)&t.mask, step+1 {
		g := &t.groups[i]
		for m := matching(g.control.Load(), tag); m != 0; m &= m - 1 {
			if g.slots[lane(m)].Load() == n {
				return g, lane(m)
			}
		}
	}
	panic("BUG: cached node is not in the table")
}

// replace replaces old, which has the same key, by n.
func (t *table[K, V]) replace(old, n *node[K, V]) {
	g, l := t.position(old)
	g.slots[l].Store(n)
}

// remove removes n.
func (t *table[K, V]) remove(n *node[K, V]) {
	g, l := t.position(n)
	control := g.control.Load()
	tag := uint64(tagDeleted)
	if matching(control, tagEmpty) != 0 {
		// Probes end at a group with an empty slot, so this slot may become empty too.
		tag = tagEmpty
		t.free++
	}
	g.control.Store(control&^(0xff<<(8*l)) | tag<<(8*l))
	g.slots[l].Store(nil)
	t.live--
}

// all calls yield for each node until it returns false.
func (t *table[K, V]) all(yield func(*node[K, V]) bool) {
	for i := range t.groups {
		for j := range t.groups[i].slots {
			if n := t.groups[i].slots[j].Load(); n != nil && !yield(n) {
				return
			}
		}
	}
}
