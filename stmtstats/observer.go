package stmtstats

import "github.com/taredb/tare/querylog"

// Observe counts a statement that is over. It keeps nothing that r points to, does not allocate,
// and waits only where a digest is new, or takes longer than ever before. It must not be called
// after Close.
func (t *Table) Observe(r *querylog.Record) {
	if t.closed.Load() {
		panic("BUG: stmtstats: Observe after Close")
	}
	bucket := BucketOf(r.Total)
	if r.Digest == ([16]byte{}) { // nothing that has a digest
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
			e.retreat()
		}
		if e = t.observeSlowly(hash, r, bucket); e == nil {
			return
		}
	}
	id := e.id
	slow := int64(r.Total) > e.floor.Load()
	noText := e.textless.Load() != 0 && len(r.Normalized) != 0
	e.count(r, bucket, t.mem.pages)
	e.leave()
	if slow || noText {
		t.learn(e, id, r)
	}
}

// countOther counts a statement that no entry is kept for. Its buckets always have a place.
func (t *Table) countOther(r *querylog.Record, bucket int) {
	t.untracked.Add(1)
	other := &t.mem.entries[0]
	for !other.enter() { // sealed, for as long as it takes to read it
		t.mu.Lock()
		t.mu.Unlock() //nolint:staticcheck // who holds it makes the entry live again before
	}
	other.count(r, bucket, t.mem.pages)
	other.leave()
}

// observeSlowly enters the entry of a statement whose digest is new, or whose bucket has no place
// yet. Where there is no room it counts the statement in Other and returns nil.
func (t *Table) observeSlowly(hash uint64, r *querylog.Record, bucket int) *entry {
	t.mu.Lock()
	e, _ := t.find(hash, r, bucket)
	if e == nil {
		if e = t.admit(hash, r, bucket); e != nil && !e.enter() {
			panic("BUG: stmtstats: a new entry that cannot be entered")
		}
	}
	if e != nil && !e.hasPlace(bucket) && !t.givePage(e, bucket) {
		e.retreat()
		e = nil
	}
	t.mu.Unlock()
	if e == nil {
		t.countOther(r, bucket)
	}
	return e
}
