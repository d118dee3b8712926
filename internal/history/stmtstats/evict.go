package stmtstats

import (
	"cmp"
	"slices"
	"time"
)

// evict evicts an entry and adds its totals to those of the evicted ones. This is atomic, also for a process
// that reads the file after a kill: the new totals are computed in the unused set, then a single store makes
// this set the current one and records the entry's id. The caller holds the lock.
func (t *Table) evict(e *entry) {
	e.seal()
	h := t.mem.header
	set := 1 - h.set()
	to := &t.mem.sets[set]
	*to = t.mem.sets[1-set]
	to.add(e, t.mem.pages)
	h.moved.Store(uint64(set)*movedSet | e.id)
	t.markGone(e)
	t.live--
	t.evictions++
	t.evicted = t.opts.Now()
}

// set returns which of the two sets of totals is current.
func (h *header) set() int { return int(h.moved.Load() / movedSet) }

// markGone marks an entry whose totals have been added as evicted, and frees everything that is not needed to
// report it.
func (t *Table) markGone(e *entry) {
	e.transition(gateSealed, gateGone)
	for o := range e.octaves {
		if n := e.octaves[o].Load(); n != 0 {
			t.pages.put(n)
		}
	}
	t.dropText(&e.text)
	for i := range e.slow {
		t.dropSlow(&e.slow[i])
	}
}

// free frees a reported entry.
func (t *Table) free(number uint32) {
	e := &t.mem.entries[number]
	if e.namesPage != 0 {
		t.pages.put(e.namesPage)
	}
	e.transition(gateGone, 0)
	t.unused = append(t.unused, number)
}

// add adds the counters of an entry without concurrent writers.
func (to *totals) add(e *entry, pages []page) {
	if to.first == 0 || e.first < to.first {
		to.first = e.first
	}
	to.last = max(to.last, e.last.Load())
	for i := range to.counters {
		to.counters[i] += e.counters[i].Load()
	}
	for o := range e.octaves {
		if n := e.octaves[o].Load(); n != 0 {
			for i := range pages[n] {
				to.buckets[o*PerOctave+i] += pages[n][i].Load()
			}
		}
	}
}

// evictForPage evicts, of a few entries that have pages, the one with the longest idle time, so that keep can
// count a duration. The caller holds the lock.
func (t *Table) evictForPage(keep *entry) bool {
	if t.pinned {
		return false
	}
	const compared = 64
	var worst *entry
	seen := 0
	for range t.mem.entries {
		t.hand = t.hand%(len(t.mem.entries)-1) + 1
		e := &t.mem.entries[t.hand]
		if e == keep || e.state() != gateLive || !e.hasPages() {
			continue
		}
		if worst == nil || e.last.Load() < worst.last.Load() {
			worst = e
		}
		if seen++; seen == compared {
			break
		}
	}
	if worst == nil {
		return false
	}
	t.evict(worst)
	return true
}

func (e *entry) hasPages() bool {
	for o := range e.octaves {
		if e.octaves[o].Load() != 0 {
			return true
		}
	}
	return e.text.page != 0
}

// An allowance limits the rate of evictions: it grows with time, by the size of the table per turnover, up to
// a fraction of the table.
type allowance struct {
	at      time.Time
	digests float64
}

// allowedPart is the reciprocal of the fraction of the table that may be evicted at once.
const allowedPart = 16

func (a *allowance) start(now time.Time, all int) {
	a.at, a.digests = now, max(float64(all)/allowedPart, 1)
}

// grow returns how many Keys may be evicted now. It does not grow if the clock steps back.
func (a *allowance) grow(now time.Time, all int, turnover time.Duration) int {
	if passed := now.Sub(a.at); passed > 0 {
		a.digests += float64(all) * float64(passed) / float64(turnover)
		a.digests = min(a.digests, max(float64(all)/allowedPart, 1))
	}
	a.at = now
	return int(a.digests)
}

// A candidate is an entry that may be evicted.
type candidate struct {
	last   int64
	number uint32
}

// makeRoom evicts the entries with the longest idle time, if statements found no free entry since the last
// call.
func (t *Table) makeRoom() {
	now := t.opts.Now()
	allowed := t.allowance.grow(now, t.opts.MaxDigests, t.opts.Turnover)
	if !t.full.Load() || allowed == 0 {
		return
	}
	idle := now.Add(-t.opts.MinIdle).UnixNano()
	candidates := make([]candidate, 0, t.opts.MaxDigests)
	for i := 1; i < len(t.mem.entries); i++ {
		e := &t.mem.entries[i]
		last := e.last.Load()
		if now := now.UnixNano(); last > now { // the clock has stepped back since
			e.last.CompareAndSwap(last, now)
		}
		if e.state() == gateLive && last < idle {
			candidates = append(candidates, candidate{last, uint32(i)})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.number, b.number)) })
	for _, c := range candidates[:min(allowed, len(candidates))] {
		t.mu.Lock()
		// It may have been called or evicted since it was selected.
		if e := &t.mem.entries[c.number]; e.state() == gateLive && e.last.Load() == c.last {
			t.evict(e)
			t.allowance.digests--
		}
		t.mu.Unlock()
	}
}
