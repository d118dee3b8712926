package activeseries

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// Moments with a special meaning.
const (
	dead       Moment = 0                  // no sample within the idle time; also of a free slot
	moved      Moment = math.MaxUint32     // the series has moved to the stripe's next table
	lastMoment Moment = math.MaxUint32 - 1 // 136 years in seconds
)

const minSlots = 8

// A table is a hash table with linear probing, in arrays of 14 bytes per slot. Keys are never removed: dead
// series remain until the table is rebuilt, so that readers need no lock. A key is stored after its word,
// under the stripe's lock.
type table struct {
	keys  []atomic.Uint64 // 0: free
	words []atomic.Uint32 // Moment of the last sample
	sets  []uint16        // sets of matchers; guarded by the stripe's lock
}

// slotsFor returns the size of a table for n series: half full, since it may be filled to three quarters.
func slotsFor(n int) int { return max(minSlots, 2*n) }

func newTable(slots int) *table {
	return &table{keys: make([]atomic.Uint64, slots), words: make([]atomic.Uint32, slots), sets: make([]uint16, slots)}
}

// most returns the maximum number of keys of a table.
func (t *table) most() int { return len(t.keys) / 4 * 3 }

// home returns the slot where the search for h starts: the high word of the product distributes the low bits
// of h, which do not determine the stripe, over any number of slots.
func (t *table) home(h uint64) int {
	hi, _ := bits.Mul64(h<<16, uint64(len(t.keys)))
	return int(hi)
}

// find returns the slot of h, or the free one where it belongs.
func (t *table) find(h uint64) (i int, known bool) {
	for i = t.home(h); ; {
		switch t.keys[i].Load() {
		case h:
			return i, true
		case 0:
			return i, false
		}
		if i++; i == len(t.keys) {
			i = 0
		}
	}
}

type updateResult uint8

const (
	updated updateResult = iota
	unknown              // or dead
	retry                // the table is being replaced
)

// update raises the moment of h.
func (t *table) update(h uint64, at Moment) updateResult {
	i, known := t.find(h)
	if !known {
		// A key added concurrently may be in the next table already: Add finds it there.
		return unknown
	}
	for {
		last := Moment(t.words[i].Load())
		switch {
		case last == moved:
			return retry
		case last == dead:
			return unknown
		case last >= at || t.words[i].CompareAndSwap(uint32(last), uint32(at)):
			return updated
		}
	}
}

// last returns the moment of h, or dead if the table does not have it. ok is false if the table is being
// replaced.
func (t *table) last(h uint64) (_ Moment, ok bool) {
	i, known := t.find(h)
	if !known {
		return dead, true
	}
	last := Moment(t.words[i].Load())
	return last, last != moved
}

// raise updates slot i of the current table, under the stripe's lock. It returns false for a dead series.
func (t *table) raise(i int, at Moment) bool {
	for {
		last := Moment(t.words[i].Load())
		if last == dead {
			return false
		}
		if last >= at || t.words[i].CompareAndSwap(uint32(last), uint32(at)) {
			return true
		}
	}
}

// put stores the series h in slot i.
func (t *table) put(i int, h uint64, at Moment, set uint16) {
	t.sets[i] = set
	t.words[i].Store(uint32(at))
	t.keys[i].Store(h)
}

// anyBefore reports whether a series in slots [from, to) got its last sample before oldest.
func (t *table) anyBefore(from, to int, oldest Moment) bool {
	for i := range t.words[from:to] {
		if last := Moment(t.words[from+i].Load()); last != dead && last < oldest {
			return true
		}
	}
	return false
}

// kill marks slot i as dead if its last sample was before oldest, and reports whether it did.
func (t *table) kill(i int, oldest Moment) bool {
	last := t.words[i].Load()
	return last != uint32(dead) && Moment(last) < oldest && t.words[i].CompareAndSwap(last, uint32(dead))
}

// take marks slot i as moved and returns its moment.
func (t *table) take(i int) Moment {
	if t.keys[i].Load() == 0 {
		return dead
	}
	return Moment(t.words[i].Swap(uint32(moved)))
}

func (t *table) bytes() uintptr {
	n := uintptr(len(t.keys))
	return heapsize.Object(unsafe.Sizeof(*t), true) + heapsize.Array(n, 8, false) + heapsize.Array(n, 4, false) + heapsize.Array(n, 2, false)
}
