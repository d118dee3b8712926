package stmtstats

import (
	"time"

	"github.com/taredb/tare/querylog"
)

// Observe counts a finished statement. It retains nothing that r points to and does not allocate. It takes a
// lock only for a new digest, a duration in an octave that is new for the entry, or one of its slowest calls.
// It must not be called after Close.
func (t *Table) Observe(r *querylog.Record) {
	if t.closed.Load() {
		panic("BUG: stmtstats: Observe after Close")
	}
	bucket := BucketOf(r.Total)
	if r.Digest == ([16]byte{}) { // the command has no digest
		t.countOther(r, bucket)
		return
	}
	hash := t.hash(r.Digest[:], r.Schema, r.User, r.Backend)
	e, missing := t.find(hash, r, bucket)
	switch {
	case e == nil && missing && t.full.Load():
		t.countOther(r, bucket)
		return
	case e == nil || !e.hasPlace(bucket):
		if e != nil {
			e.abandon()
		}
		if e = t.observeSlowly(hash, r, bucket); e == nil {
			return
		}
	}
	id := e.id
	slow := int64(r.Total) > e.floor.Load()
	noText := e.textless.Load() != 0 && len(r.Normalized) != 0
	e.count(r, bucket, t.mem.pages)
	e.release()
	if slow || noText {
		t.learn(e, id, r)
	}
}

// Advance counts the time that a statement in flight has taken since its start, so that load does not jump when it
// finishes: Observe counts the rest. A Key that is called for the first time gets its entry; without room, and if the digest
// is unknown, the time is that of Other. The caller excludes concurrent use of r. It neither allocates nor blocks: a
// statement whose entry is being read, or that needs an entry while another goroutine changes the table, is left for later.
func (t *Table) Advance(r *querylog.Record, age time.Duration, unknown bool) {
	if age <= r.Accounted || t.closed.Load() {
		return
	}
	e := &t.mem.entries[0]
	if unknown {
		if !e.acquire() {
			return
		}
	} else if e = t.enter(r, age); e == nil {
		return
	}
	e.counters[Nanos].Add(uint64(age - r.Accounted))
	r.Accounted = age
	e.touch(r.Start.UnixNano() + int64(age))
	e.release()
}

// enter enters the entry of a statement in flight, or that of Other if there is no room. It returns nil if that would block.
func (t *Table) enter(r *querylog.Record, age time.Duration) *entry {
	hash := t.hash(r.Digest[:], r.Schema, r.User, r.Backend)
	e, missing := t.find(hash, r, zeroBucket)
	if e == nil && missing && !t.full.Load() {
		if !t.mu.TryLock() {
			return nil
		}
		defer t.mu.Unlock()
		if e, missing = t.find(hash, r, zeroBucket); e == nil && missing {
			if e = t.admit(hash, r, zeroBucket, r.Start.UnixNano()+int64(age)); e != nil && !e.acquire() {
				panic("BUG: stmtstats: a new entry that cannot be entered")
			}
		}
	}
	if e == nil && missing {
		if e = &t.mem.entries[0]; !e.acquire() {
			return nil
		}
	}
	return e
}

// countOther counts a statement without an entry. Its buckets always have counters.
func (t *Table) countOther(r *querylog.Record, bucket int) {
	t.untracked.Add(1)
	other := &t.mem.entries[0]
	for !other.acquire() { // sealed while it is read
		t.mu.Lock()
		t.mu.Unlock() //nolint:staticcheck // who holds it makes the entry live again before
	}
	other.count(r, bucket, t.mem.pages)
	other.release()
}

// observeSlowly enters the entry of a statement whose digest is new, or whose bucket has no counter yet. If
// there is no room it counts the statement in Other and returns nil.
func (t *Table) observeSlowly(hash uint64, r *querylog.Record, bucket int) *entry {
	t.mu.Lock()
	e, _ := t.find(hash, r, bucket)
	if e == nil {
		if e = t.admit(hash, r, bucket, endOf(r)); e != nil && !e.acquire() {
			panic("BUG: stmtstats: a new entry that cannot be entered")
		}
	}
	if e != nil && !e.hasPlace(bucket) && !t.allocatePage(e, bucket) {
		e.abandon()
		e = nil
	}
	t.mu.Unlock()
	if e == nil {
		t.countOther(r, bucket)
	}
	return e
}
