package stmtstats

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/taredb/tare/querylog"
)

// An index finds entries by the hash of their key: open addressing with linear probing. A slot has the upper
// half of the hash and the entry's number plus 1, or 0. Slots are never cleared: readers need no lock, and an
// evicted entry is found, but cannot be entered. A new index is created to drop evicted entries.
type index struct {
	slots []atomic.Uint64
}

// indexSize returns the number of slots for a number of digests: at least half remain empty.
func indexSize(digests int) int { return 1 << bits.Len(uint(2*digests-1)) }

func newIndex(digests int) *index { return &index{slots: make([]atomic.Uint64, indexSize(digests))} }

// insert adds an entry. The caller holds the table's lock.
func (x *index) insert(hash uint64, number int) {
	mask := uint64(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if x.slots[at].Load() == 0 {
			x.slots[at].Store(hash>>32<<32 | uint64(number+1))
			return
		}
	}
}

// hash returns the hash of a key. It is keyed, because clients choose the statements.
func (t *Table) hash(digest []byte, schema, user, backend string) uint64 {
	h := maphash.Bytes(t.seed, digest)
	h = h*mix + maphash.String(t.seed, schema)
	h = h*mix + maphash.String(t.seed, user)
	h = h*mix + maphash.String(t.seed, backend)
	return h ^ h>>32
}

// mix is odd and spreads its factor over all bits: 2^64 divided by the golden ratio.
const mix = 0x9E3779B97F4A7C15

// find enters the entry that counts r's statements. missing reports that there is none. If e is nil and
// missing is false, the entry is currently sealed. bucket is that of r's duration. It does not allocate.
func (t *Table) find(hash uint64, r *querylog.Record, bucket int) (e *entry, missing bool) {
	x := t.index.Load()
	mask := uint64(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := x.slots[at].Load()
		if slot == 0 {
			return nil, true
		}
		if (slot^hash)>>32 != 0 {
			continue
		}
		e := &t.mem.entries[uint32(slot)-1]
		t.mem.fetch(e, bucket)
		if e.acquire() {
			if e.is(r, t.mem.pages) {
				return e, false
			}
			e.abandon()
		} else if e.state() != gateGone {
			return nil, false // sealed, or freed since this index was built: find again under the lock
		}
	}
}

// fetch loads the memory that counting a statement will write to, and ignores the values: the entry may
// belong to any Key. Atomic additions are locked, so the processor waits for the memory of each before it
// starts the next, while it overlaps plain loads.
func (m *memory) fetch(e *entry, bucket int) {
	e.gate.Load()
	if !racing { // these plain reads race with writers
		atomic.LoadUint32(&e.sum) // the line of the names, which is compares
	}
	e.counters[Nanos].Load()
	if bucket == zeroBucket {
		return
	}
	if n := e.octaves[bucket/PerOctave].Load(); int(n) < len(m.pages) {
		m.pages[n][bucket%PerOctave].Load()
	}
}
