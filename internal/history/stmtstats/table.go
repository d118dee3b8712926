package stmtstats

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/querylog"
)

// A Table counts the calls of each digest. Its methods are safe for concurrent use, except Close.
type Table struct {
	opts   Options
	seed   maphash.Seed
	mem    *memory
	file   *mapFile // backs mem
	index  atomic.Pointer[index]
	closed atomic.Bool

	// full is set while no new digest finds room: statements of unknown digests then need not take the lock.
	full      atomic.Bool
	untracked atomic.Uint64
	setAside  string

	collecting sync.Mutex // locked by Collect and Each, before mu
	sample     Sample     // under collecting
	allowance  allowance  // under collecting

	mu        sync.Mutex
	pages     pageStack // under mu, as all below
	unused    []uint32  // numbers of free entries
	hand      int       // where evictForPage last searched for an entry to evict
	names     nameTable
	live      int
	slowTexts int  // pages of the texts of slow calls
	longPages int  // pages of long texts beyond shortPages each
	pinned    bool // a Collect is in progress: nothing is evicted
	admitted  uint64
	evictions uint64
	evicted   time.Time // the last eviction; zero: there was none
	dropped   []dropped // entries without room in a smaller file, for the next Collect
	text      []byte
}

// OpenTable creates a table, or continues with the one in the directory's file. A damaged or foreign file is
// set aside under another name. OpenTable fails if another process has the file open.
func OpenTable(o Options) (*Table, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("digest table: %w", err)
	}
	t := &Table{opts: o, seed: maphash.MakeSeed()}
	if err := t.open(); err != nil {
		return nil, fmt.Errorf("digest table: %w", err)
	}
	t.allowance.start(o.Now(), o.MaxDigests)
	return t, nil
}

var errClosed = errors.New("digest table: closed")

// Close releases the memory and the file. The file keeps the counters.
func (t *Table) Close() error {
	t.collecting.Lock()
	defer t.collecting.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Swap(true) {
		return errClosed
	}
	t.verify()
	if err := t.file.close(); err != nil {
		return fmt.Errorf("digest table: %w", err)
	}
	return nil
}

// Stats returns the table's metrics, zero after Close.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() {
		return Stats{}
	}
	return Stats{
		Digests: t.live, Pages: len(t.mem.pages) - fixedPages, FreePages: t.pages.free(),
		Bytes:    int64(len(t.mem.raw)) + fixedHeap(t.opts.MaxDigests, len(t.mem.pages)),
		Admitted: t.admitted, Evictions: t.evictions, LastEviction: t.evicted, Untracked: t.untracked.Load(), SetAside: t.setAside,
	}
}

// reserve returns the number of pages that new digests must leave to existing entries, for durations in new
// octaves.
func (m *memory) reserve() int { return (len(m.pages) - fixedPages) / 16 }

// admit creates an entry for r's Key, unless there is no room. now is the time of its first count, in Unix nanoseconds. The
// caller holds the lock.
func (t *Table) admit(hash uint64, r *querylog.Record, bucket int, now int64) *entry {
	names := len(r.Schema) + len(r.User) + len(r.Backend)
	if names > maxNames || len(r.Schema) > 255 || len(r.User) > 255 || len(r.Backend) > 255 {
		return nil
	}
	need := textPages(min(len(r.Normalized), t.textLimit(len(r.Normalized)))) + 1
	if names > inlineNames {
		need++
	}
	if bucket != zeroBucket {
		need++
	}
	if len(t.unused) == 0 || t.pages.free() < max(t.mem.reserve(), need) {
		t.full.Store(true)
		return nil
	}
	number := t.unused[len(t.unused)-1]
	t.unused = t.unused[:len(t.unused)-1]
	e := &t.mem.entries[number]
	e.reset()
	e.id = t.mem.header.nextID.Add(1) - 1
	e.digest = r.Digest
	e.first = now
	e.schemaBytes, e.userBytes, e.backBytes = uint8(len(r.Schema)), uint8(len(r.User)), uint8(len(r.Backend))
	var page *page
	to := e.names[:0]
	if names > inlineNames {
		e.namesPage = t.pages.take()
		page = &t.mem.pages[e.namesPage]
		page.clear()
		to = page.bytes()[:0]
	}
	to = append(to, r.Schema...)
	to = append(to, r.User...)
	_ = append(to, r.Backend...)
	e.sum = e.checksum(page)
	if t.opts.Redaction != querylog.RedactAll {
		e.textless.Store(1)
		t.learnText(e, r)
	}
	e.transition(0, gateLive)
	t.index.Load().insert(hash, int(number))
	t.live++
	t.admitted++
	return e
}

// reset resets a free entry. A session that still has its number cannot enter it.
func (e *entry) reset() {
	e.namesPage = 0
	e.names = [inlineNames]byte{}
	e.collected.Store(0)
	e.changed.Store(1)
	e.fresh.Store(1)
	e.textless.Store(0)
	e.last.Store(0)
	for i := range e.counters {
		e.counters[i].Store(0)
	}
	for i := range e.octaves {
		e.octaves[i].Store(0)
	}
	e.text = textRef{}
	e.slow = [numSlow]slowRef{}
	e.floor.Store(0)
}

// allocatePage allocates the page for a bucket of an entry in which the caller is registered as a writer, and may
// evict another entry for that. The caller holds the lock.
func (t *Table) allocatePage(e *entry, bucket int) bool {
	if t.pages.free() == 0 && !t.evictForPage(e) {
		return false
	}
	n := t.pages.take()
	t.mem.pages[n].clear()
	e.octaves[bucket/PerOctave].Store(n)
	return true
}

// hashOf returns the hash of an entry's key.
func (t *Table) hashOf(e *entry) uint64 {
	b := e.nameBytes(t.mem.pages)
	s, u := int(e.schemaBytes), int(e.schemaBytes)+int(e.userBytes)
	return t.hash(e.digest[:], string(b[:s]), string(b[s:u]), string(b[u:]))
}

// reindex builds a new index of the live entries. The caller holds the lock.
func (t *Table) reindex() {
	x := newIndex(t.opts.MaxDigests)
	for i := 1; i < len(t.mem.entries); i++ {
		if e := &t.mem.entries[i]; e.gate.Load()&gateLive != 0 {
			x.insert(t.hashOf(e), i)
		}
	}
	t.index.Store(x)
}
