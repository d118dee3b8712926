package stmtstats

import (
	"hash/crc32"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/taredb/tare/querylog"
)

// A gate counts the concurrent writers of an entry and its writes. The low bits have the number of writers
// inside, the bits above them the state, and the highest ones the number of writes, which wraps. An entry
// without a state is free.
const (
	gateInside = 1<<24 - 1
	gateLive   = 1 << 24 // writers may enter
	gateSealed = 1 << 25 // while the holder of the table's lock excludes writers
	gateGone   = 1 << 26 // evicted, and not yet reported by Collect
	gateWrites = 1 << 27 // one more write

	gateStates = gateLive | gateSealed | gateGone
)

const (
	evictedID = 0
	otherID   = 1
	firstID   = 2
)

// inlineNames is the number of bytes of names stored in an entry; longer names are in a page.
const inlineNames = 44

// maxNames is the maximum number of bytes of names of a tracked Key.
const maxNames = pageText

// An entry has the counters of one Key. All of it is in the file. The fields used by each statement are in as
// few cache lines as possible.
type entry struct {
	gate atomic.Uint64

	// Used only by this process; another one that opens the file resets them.
	changed  atomic.Uint32 // 1: changed since the last Collect
	textless atomic.Uint32 // 1: it would keep a text, but has not been given one
	floor    atomic.Int64  // nanoseconds that a call must exceed to be among the slowest
	fresh    atomic.Uint32 // 1: its labels or its text were not yet reported by Collect

	collected atomic.Uint32 // 1: a Collect of some process has visited it
	last      atomic.Int64  // Unix nanoseconds

	// Written under the table's lock before the entry is live, and guarded by sum.
	id                                uint64
	digest                            [16]byte
	first                             int64 // Unix nanoseconds
	schemaBytes, userBytes, backBytes uint8
	_                                 uint8
	namesPage                         uint32 // 0: the names are inline
	names                             [inlineNames]byte
	sum                               uint32 // CRC-32C of the fields from id to here, and of the page

	counters [NumCounters]atomic.Uint64 // of Calls only those of the zero bucket
	octaves  [octaves]atomic.Uint32     // the pages of their buckets; 0: none yet

	// Under the table's lock: the statement's text, and the slowest calls.
	text textRef
	slow [numSlow]slowRef
}

// acquire registers the caller as a writer of e until release or abandon. If it returns false, the caller must
// not access e.
func (e *entry) acquire() bool {
	if e.gate.Add(1)&gateLive != 0 {
		return true
	}
	e.abandon()
	return false
}

// release ends a write.
func (e *entry) release() { e.gate.Add(gateWrites - 1) }

// abandon unregisters a writer that has not written.
func (e *entry) abandon() { e.gate.Add(^uint64(0)) }

// seal blocks new writers and waits for those inside. The caller holds the table's lock, for which blocked
// writers wait.
func (e *entry) seal() {
	e.transition(gateLive, gateSealed)
	for e.gate.Load()&gateInside != 0 {
		runtime.Gosched()
	}
}

// transition changes an entry's state atomically, because the process may be killed at any time.
func (e *entry) transition(from, to uint64) { e.gate.Add(to - from) }

// state returns the state; 0: free.
func (e *entry) state() uint64 { return e.gate.Load() & gateStates }

// checksum returns the expected value of sum. page has the names; nil if they are inline.
func (e *entry) checksum(page *page) uint32 {
	b := (*[entryBytes]byte)(unsafe.Pointer(e))
	sum := crc32.Checksum(b[unsafe.Offsetof(e.id):unsafe.Offsetof(e.sum)], castagnoli)
	if page != nil {
		sum = crc32.Update(sum, castagnoli, page.bytes()[:])
	}
	return sum
}

// nameBytes returns the schema, the user and the backend, concatenated.
func (e *entry) nameBytes(pages []page) []byte {
	n := int(e.schemaBytes) + int(e.userBytes) + int(e.backBytes)
	if e.namesPage == 0 {
		return e.names[:n:inlineNames]
	}
	return pages[e.namesPage].bytes()[:n:n]
}

// is reports whether e counts the statements of r's Key. It does not allocate.
func (e *entry) is(r *querylog.Record, pages []page) bool {
	if e.digest != r.Digest || int(e.schemaBytes) != len(r.Schema) || int(e.userBytes) != len(r.User) || int(e.backBytes) != len(r.Backend) {
		return false
	}
	b := e.nameBytes(pages)
	s, u := len(r.Schema), len(r.Schema)+len(r.User)
	return string(b[:s]) == r.Schema && string(b[s:u]) == r.User && string(b[u:]) == r.Backend
}

// count adds a statement whose bucket has a counter. The caller is registered as a writer. It does not
// allocate.
func (e *entry) count(r *querylog.Record, bucket int, pages []page) {
	if bucket == zeroBucket {
		e.counters[Calls].Add(1)
	} else {
		pages[e.octaves[bucket/PerOctave].Load()][bucket%PerOctave].Add(1)
	}
	e.counters[Nanos].Add(uint64(max(r.Total-r.Accounted, 0)))
	e.addEffects(r)
	if r.ErrorNumber != 0 {
		e.counters[int(Errors)+int(ClassOf(r.ErrorNumber, r.SQLState))].Add(1)
	}
	e.touch(endOf(r))
}

// touch records that counts of the time until end were added. It is called after them: a Collect that clears changed reads
// them later.
func (e *entry) touch(end int64) {
	if end > e.last.Load() {
		e.last.Store(end)
	}
	if e.changed.Load() == 0 {
		e.changed.Store(1)
	}
}

// hasPlace reports whether there is a counter for a bucket.
func (e *entry) hasPlace(bucket int) bool {
	return bucket == zeroBucket || e.octaves[bucket/PerOctave].Load() != 0
}

// endOf returns the end of a statement, in Unix nanoseconds.
func endOf(r *querylog.Record) int64 { return r.Start.UnixNano() + int64(r.Total) }

// at returns the time of a number stored in an entry.
func at(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
