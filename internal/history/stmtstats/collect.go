package stmtstats

import (
	"runtime"
)

// A dropped is the key of an entry for which a smaller file had no room. If the process ends before the next
// Collect, it is never reported, and its series ends without a staleness marker.
type dropped struct {
	key         Key
	id          uint64
	first, last int64
}

// Collect calls visit with samples of Evicted, Other, each Key that was called since the last Collect (after
// OpenTable, every Key), and each Key that was evicted. A Sample is valid until visit returns. All counters
// of one Sample are of one point in time, at which no call is partly counted.
//
// A sample counts as reported when visit returns nil. Collect stops at the first error of visit, and the next
// Collect starts with the samples that were not reported. If there was no room for new Keys, Collect evicts
// before its visits. During them nothing is evicted, so that the sum over all samples equals the sum over all
// calls. visit may use the table, except Collect and Each.
func (t *Table) Collect(visit func(*Sample) error) error {
	t.collecting.Lock()
	defer t.collecting.Unlock()
	if t.closed.Load() {
		return errClosed
	}
	t.makeRoom()
	t.pin(true)
	defer t.pin(false)
	if err := t.visitSums(visit); err != nil {
		return err
	}
	if err := t.visitDropped(visit); err != nil {
		return err
	}
	recent := t.opts.Now().Add(-slowWindow).UnixNano()
	var reported []uint32
	defer func() { t.release(reported) }()
	for i := 1; i < len(t.mem.entries); i++ {
		e := &t.mem.entries[i]
		switch e.state() {
		case gateGone:
			t.mu.Lock()
			t.sample.reset(Removed, e.id, e.first, e.last.Load())
			t.sample.Key = t.names.key(e, t.mem.pages)
			t.mu.Unlock()
			if err := t.report(visit); err != nil {
				return err
			}
			reported = append(reported, uint32(i))
		case gateLive:
			if e.changed.Load() == 0 {
				if e.floor.Load() > 0 && e.last.Load() < recent {
					e.floor.Store(0) // none of its slowest calls is recent
				}
				continue
			}
			e.changed.Store(0) // before the counters are read: a later call sets it again
			fresh := e.fresh.Swap(0) != 0
			t.readTracked(e, fresh)
			t.sample.Fresh = fresh
			if err := t.report(visit); err != nil {
				e.changed.Store(1)
				if fresh {
					e.fresh.Store(1)
				}
				return err
			}
			e.collected.Store(1)
		}
	}
	return nil
}

// Each calls visit with samples of Evicted, Other and every tracked Key, including Text. A Sample is valid
// until visit returns. Visited samples do not count as reported. visit may use the table, except Collect and
// Each.
func (t *Table) Each(visit func(*Sample) error) error {
	t.collecting.Lock()
	defer t.collecting.Unlock()
	if t.closed.Load() {
		return errClosed
	}
	t.pin(true)
	defer t.pin(false)
	if err := t.visitSums(visit); err != nil {
		return err
	}
	for i := 1; i < len(t.mem.entries); i++ {
		e := &t.mem.entries[i]
		if e.state() != gateLive {
			continue
		}
		t.readTracked(e, true)
		t.sample.Fresh = e.fresh.Load() != 0
		if err := t.report(visit); err != nil {
			return err
		}
	}
	return nil
}

// MarkAllChanged makes the next Collect visit every Key, as the first one after OpenTable does: the caller has lost
// the earlier samples.
func (t *Table) MarkAllChanged() {
	for i := 1; i < len(t.mem.entries); i++ {
		t.mem.entries[i].fresh.Store(1)
		t.mem.entries[i].changed.Store(1)
	}
}

// report calls visit with the sample, which is invalid after visit returns.
func (t *Table) report(visit func(*Sample) error) error {
	err := visit(&t.sample)
	if invariants {
		t.sample.reset(Removed, stale, 0, 0)
		t.sample.Counts[Calls] = stale
	}
	return err
}

// pin enables or disables evictions.
func (t *Table) pin(on bool) {
	t.mu.Lock()
	t.pinned = on
	t.mu.Unlock()
}

// release frees the entries of evicted Keys that were reported, and admits new ones.
func (t *Table) release(reported []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, number := range reported {
		t.free(number)
	}
	if len(reported) > 0 {
		t.reindex()
		t.verify()
	}
	if len(t.unused) > 0 && t.pages.free() >= t.mem.reserve() {
		t.full.Store(false)
	}
}

func (t *Table) visitSums(visit func(*Sample) error) error {
	t.mu.Lock()
	t.copyEvicted(&t.sample)
	t.mu.Unlock()
	if err := t.report(visit); err != nil {
		return err
	}
	other := &t.mem.entries[0]
	t.read(other, Other)
	return t.report(visit)
}

// copyEvicted reads the totals of evicted entries into s. The caller holds the lock.
func (t *Table) copyEvicted(s *Sample) {
	sum := &t.mem.sets[t.mem.header.set()]
	s.reset(Evicted, evictedID, sum.first, sum.last)
	s.setCounters(sum.counters)
	for o := range octaves {
		s.Histogram.octave(o, sum.buckets[o*PerOctave:])
	}
	s.Counts[Calls] = s.Histogram.Count()
}

func (t *Table) visitDropped(visit func(*Sample) error) error {
	for len(t.dropped) > 0 {
		d := t.dropped[0]
		t.sample.reset(Removed, d.id, d.first, d.last)
		t.sample.Key = d.key
		if err := t.report(visit); err != nil {
			return err
		}
		t.dropped = t.dropped[1:]
	}
	t.dropped = nil
	return nil
}

// readTracked reads a live entry into t.sample.
func (t *Table) readTracked(e *entry, withText bool) {
	t.read(e, Tracked)
	s := &t.sample
	s.Born = e.collected.Load() == 0
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Key = t.names.key(e, t.mem.pages)
	if withText {
		s.Text, s.TextCut = t.textOf(e)
	}
	if e.floor.Load() > 0 {
		e.refloor(t.opts.Now().Add(-slowWindow).UnixNano())
	}
}

// readAttempts is how often an entry is read between concurrent writes before writers are blocked once.
const readAttempts = 64

// read reads a live entry that cannot be evicted into t.sample.
func (t *Table) read(e *entry, kind Kind) {
	if t.mem.copyBetween(&t.sample, e, kind) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mem.copySealed(&t.sample, e, kind)
}

// copyBetween reads a live entry into s while no writer is inside. It reports false if there always was one.
func (m *memory) copyBetween(s *Sample, e *entry, kind Kind) bool {
	for range readAttempts {
		before := e.gate.Load()
		if before&gateInside == 0 {
			m.copyEntry(s, e, kind)
			if e.gate.Load() == before {
				return true
			}
		}
		runtime.Gosched()
	}
	return false
}

// copySealed reads a live entry into s and blocks writers meanwhile. The caller holds the table's lock.
func (m *memory) copySealed(s *Sample, e *entry, kind Kind) {
	e.seal()
	m.copyEntry(s, e, kind)
	e.transition(gateSealed, gateLive)
}

// copyEntry reads an entry's counters into s.
func (m *memory) copyEntry(s *Sample, e *entry, kind Kind) {
	s.reset(kind, e.id, e.first, e.last.Load())
	s.setCounters(e.load())
	for o := range e.octaves {
		if n := e.octaves[o].Load(); n != 0 {
			var counts [PerOctave]uint64
			for i := range counts {
				counts[i] = m.pages[n][i].Load()
			}
			s.Histogram.octave(o, counts[:])
		}
	}
	s.Counts[Calls] = s.Histogram.Count()
}

// reset resets s to a sample without counts.
func (s *Sample) reset(kind Kind, id uint64, first, last int64) {
	s.Histogram.Reset()
	s.Key, s.Kind, s.ID, s.Text, s.TextCut = Key{}, kind, id, "", false
	s.Counts = Counts{}
	s.First, s.Last, s.Born, s.Fresh = at(first), at(last), false, false
}

// load reads all counters.
func (e *entry) load() (counters Counts) {
	for i := range counters {
		counters[i] = e.counters[i].Load()
	}
	return counters
}

// setCounters sets all counters of s, except the buckets and the calls in them.
func (s *Sample) setCounters(of Counts) {
	s.Counts = of
	s.Histogram.Nanos, s.Histogram.Zero = of[Nanos], of[Calls]
}

// octave sets an octave's buckets.
func (h *Histogram) octave(o int, counts []uint64) {
	var any uint64
	for i, n := range counts[:PerOctave] {
		h.Buckets[o*PerOctave+i] = n
		any |= n
	}
	if any != 0 {
		h.Octaves |= 1 << o
	}
}
