package stmtstats

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/taredb/tare/querylog"
)

// An index finds entries by the hash of their key: open addressing with linear probing. A slot
// is the hash's upper half and the entry's number plus 1, or 0. Slots are only ever filled: who
// reads needs no lock, and what has been evicted is found, but cannot be entered. A new index
// is made when there is something to leave out.
type index struct {
	slots []atomic.Uint64
}

// indexSize is how many slots the index of so many digests has: at least half remain empty.
func indexSize(digests int) int { return 1 << bits.Len(uint(2*digests-1)) }

func newIndex(digests int) *index { return &index{slots: make([]atomic.Uint64, indexSize(digests))} }

// insert adds an entry. It is called with the table's lock held.
func (x *index) insert(hash uint64, number int) {
	mask := uint64(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if x.slots[at].Load() == 0 {
			x.slots[at].Store(hash>>32<<32 | uint64(number+1))
			return
		}
	}
}

// hash is a key's. Strangers choose statements, so it is keyed.
func (t *Table) hash(digest []byte, schema, user, backend string) uint64 {
	h := maphash.Bytes(t.seed, digest)
	h = h*mix + maphash.String(t.seed, schema)
	h = h*mix + maphash.String(t.seed, user)
	h = h*mix + maphash.String(t.seed, backend)
	return h ^ h>>32
}

// mix is odd and spreads its factor over all bits: 2^64 divided by the golden ratio.
const mix = 0x9E3779B97F4A7C15

// find enters the entry that counts r's statements. missing says that there is none; neither
// an entry nor missing, that it is sealed at the moment. bucket is that of r's duration. It does not allocate.
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
		if e.enter() {
			if e.is(r, t.mem.pages) {
				return e, false
			}
			e.retreat()
		} else if e.state() != gateGone {
			return nil, false // sealed, or free since this index was made: the lock tells
		}
	}
}

// fetch loads what counting a statement will write to, and looks at none of it: the entry may be anybody's. The additions
// are locked, so that the processor waits for the memory of each before it turns to the next; of plain loads it
// has several under way.
func (m *memory) fetch(e *entry, bucket int) {
	e.gate.Load()
	if !racing { // nobody knows whether it is being written
		atomic.LoadUint32(&e.sum) // the line of the names, which is compares
	}
	e.counters[counterNanos].Load()
	if bucket == zeroBucket {
		return
	}
	if n := e.octaves[bucket/PerOctave].Load(); int(n) < len(m.pages) {
		m.pages[n][bucket%PerOctave].Load()
	}
}
