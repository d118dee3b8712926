package stmtstats

import "time"

// Now returns the time of the table's clock.
func (t *Table) Now() time.Time { return t.opts.Now() }

// Len returns the number of samples that Scan visits if no Key is added or evicted.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live + 2
}

// scanAttempts is how often Scan reads the table if Keys are evicted meanwhile.
const scanAttempts = 3

// Scan calls begin, then reads Evicted, Other and every tracked Key into s and calls visit after each, with
// the number of the entry, 0 for the sums. Unlike Each it delays Collect and evictions only by the time to
// read one entry. It sets no texts. If a Key was evicted meanwhile, Scan starts again, at most three times:
// the sum over the last visits may lack the Key's calls.
func (t *Table) Scan(s *Sample, begin func(), visit func(number int)) error {
	for range scanAttempts {
		t.mu.Lock()
		if t.closed.Load() {
			t.mu.Unlock()
			return errClosed
		}
		evictions := t.evictions
		t.copyEvicted(s)
		t.mu.Unlock()
		begin()
		visit(0)
		for i := range t.mem.entries {
			if t.ReadEntry(s, i) {
				visit(i)
			}
		}
		t.mu.Lock()
		whole := evictions == t.evictions
		t.mu.Unlock()
		if whole {
			break
		}
	}
	return nil
}

// scanEntries is the number of entries whose Marks are compared under one lock.
const scanEntries = 64

// ScanChanges is Scan of the entries whose Mark differs from the one in marks, which has one for each number, or is nil for
// all entries, and of the totals of the evicted Keys, which have the last number. It calls visit with the Mark of the entry
// before it was read into s, and false if the entry counts no Key: then s is invalid.
func (t *Table) ScanChanges(s *Sample, marks []Mark, begin func(), visit func(number int, m Mark, live bool)) error {
	type found struct {
		number int
		mark   Mark
		live   bool
	}
	var changed []found
	mark := func(number int) Mark {
		if marks == nil {
			return Mark{}
		}
		return marks[number]
	}
	for range scanAttempts {
		t.mu.Lock()
		if t.closed.Load() {
			t.mu.Unlock()
			return errClosed
		}
		evictions := t.evictions
		t.copyEvicted(s)
		t.mu.Unlock()
		begin()
		last := t.Numbers() - 1
		visit(last, Mark{}, true)
		for from := 0; from < last; from += scanEntries {
			changed = changed[:0]
			if !t.Changes(from, min(from+scanEntries, last), mark, func(c *Change) {
				changed = append(changed, found{c.Number, c.Mark, c.Live})
			}) {
				return errClosed
			}
			for _, c := range changed {
				visit(c.number, c.mark, c.live && t.ReadEntry(s, c.number))
			}
		}
		t.mu.Lock()
		whole := evictions == t.evictions
		t.mu.Unlock()
		if whole {
			break
		}
	}
	return nil
}

// ReadEntry reads the entry with a number into s, without its text. It reports false if the entry is unused.
func (t *Table) ReadEntry(s *Sample, number int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.mem.entries[number]
	if t.closed.Load() || e.state() != gateLive {
		return false
	}
	kind := Tracked
	if number == 0 {
		kind = Other
	}
	if !t.mem.copyBetween(s, e, kind) {
		t.mem.copySealed(s, e, kind)
	}
	if kind == Tracked {
		s.Key = t.names.key(e, t.mem.pages)
	}
	return true
}

// ReadDigest reads each entry of a digest into s and calls visit after it, with its number. It sets no texts.
func (t *Table) ReadDigest(s *Sample, digest [16]byte, visit func(number int)) {
	var numbers []int
	t.mu.Lock()
	for i := 1; i < len(t.mem.entries) && !t.closed.Load(); i++ {
		if e := &t.mem.entries[i]; e.digest == digest && e.state() == gateLive {
			numbers = append(numbers, i)
		}
	}
	t.mu.Unlock()
	for _, i := range numbers {
		if t.ReadEntry(s, i) && s.Digest == digest {
			visit(i)
		}
	}
}

// LongerTexts replaces the texts of digests by the stored ones that are longer, in one pass over the entries.
func (t *Table) LongerTexts(texts map[[16]byte]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := 1; i < len(t.mem.entries) && !t.closed.Load(); i++ {
		e := &t.mem.entries[i]
		if text, ok := texts[e.digest]; ok && e.state() == gateLive && int(e.text.bytes) > len(text) {
			texts[e.digest], _ = t.textOf(e)
		}
	}
}

// TextAt returns the text of the entry with a number, "" if it no longer has this ID.
func (t *Table) TextAt(number int, id uint64) (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryAt(number, id)
	if e == nil {
		return "", false
	}
	return t.textOf(e)
}

// KeyAt returns the Key of the entry with a number, an empty one for the evicted Keys' totals. It reports
// false if the entry no longer has this ID.
func (t *Table) KeyAt(number int, id uint64) (Key, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number == len(t.mem.entries) {
		return Key{}, !t.closed.Load()
	}
	e := t.entryAt(number, id)
	if e == nil {
		return Key{}, false
	}
	return t.names.key(e, t.mem.pages), true
}

// entryAt returns the live entry with a number and an ID, or nil. The caller holds the lock.
func (t *Table) entryAt(number int, id uint64) *entry {
	if e := &t.mem.entries[number]; !t.closed.Load() && e.state() == gateLive && e.id == id {
		return e
	}
	return nil
}
