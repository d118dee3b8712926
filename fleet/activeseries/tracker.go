package activeseries

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A Key identifies a series: a hash of its labels whose 64 bits are nearly random. A series that ends and is
// created again has the same key, so it is not counted twice. Two series with the same key count as one;
// among n series the probability of a collision is n²/2⁶⁵.
type Key uint64

// A Moment is a time in steps of a Tracker. Moments only grow; 0 is before all others.
type Moment uint32

// TrackerOptions configure a Tracker.
type TrackerOptions struct {
	// Idle is the time for which a series is live after its last sample, or up to a Step longer.
	Idle time.Duration

	// Step is the resolution of times. 0 selects a twentieth of Idle. Idle must be a multiple of it.
	Step time.Duration

	// Matchers is the number of custom matchers to count for, at most 65,535.
	Matchers int

	// Stripes is the number of parts of a Tracker that can change concurrently, a power of two. 0 selects 64.
	Stripes int
}

// validate returns an error if o is invalid.
func (o TrackerOptions) validate() error {
	switch {
	case o.Idle <= 0:
		return errors.New("series must be live for a while: idle time is not positive")
	case o.Step < 0 || o.Step > o.Idle || o.Step > 0 && o.Idle%o.Step != 0:
		return fmt.Errorf("idle time %v is not a multiple of step %v", o.Idle, o.Step)
	case o.Matchers < 0 || o.Matchers > 1<<16-1:
		return fmt.Errorf("%d matchers, want 0 to %d", o.Matchers, 1<<16-1)
	case o.Stripes < 0 || o.Stripes&(o.Stripes-1) != 0 || o.Stripes > 1<<16:
		return fmt.Errorf("%d stripes, want a power of two up to %d", o.Stripes, 1<<16)
	}
	return nil
}

// A Tracker tracks which series got a sample within the idle time, in 19 to 32 bytes per series beside the
// caller's index of labels. It is safe for concurrent use.
//
//	if !t.Update(key, now) {
//		t.Add(key, now, matchers) // the caller evaluates matchers on the labels
//	}
//
// An update of a known series reads two words, and writes one if the last sample was in an earlier step: it
// takes no lock, and waits only while the table of its stripe is rebuilt.
type Tracker struct {
	idle   Moment
	step   time.Duration
	origin time.Time
	shift  uint // of the key's bits that select the stripe
	sets   matcherSets
	parts  []stripe
}

// NewTracker returns a Tracker whose time starts at origin.
func NewTracker(origin time.Time, o TrackerOptions) (*Tracker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Step == 0 {
		o.Step = max(o.Idle/20, 1)
		o.Idle = o.Idle.Truncate(o.Step)
	}
	if o.Stripes == 0 {
		o.Stripes = 64
	}
	t := &Tracker{
		idle:   Moment(o.Idle / o.Step),
		step:   o.Step,
		origin: origin,
		shift:  64,
		parts:  make([]stripe, o.Stripes),
	}
	for n := o.Stripes; n > 1; n /= 2 {
		t.shift--
	}
	t.sets.init(o.Matchers)
	for i := range t.parts {
		t.parts[i].table.Store(newTable(minSlots))
	}
	return t, nil
}

// Moment returns the step that contains now. Times before the origin, and the first step, are 1.
func (t *Tracker) Moment(now time.Time) Moment {
	steps := int64(now.Sub(t.origin) / t.step)
	return Moment(min(max(steps, 0)+1, int64(lastMoment)))
}

// Update records a sample of a series. It returns false if the series is not live: then call Add. It does not
// allocate and takes no lock.
func (t *Tracker) Update(k Key, at Moment) bool {
	h := mixKey(k)
	s := t.stripe(h)
	for {
		switch s.table.Load().update(h, at) {
		case updated:
			return true
		case unknown:
			return false
		}
		s.wait()
	}
}

// Add records a sample of a series that may be new. matchers are the matchers that it satisfies: numbers
// below TrackerOptions.Matchers in ascending order. Those of a live series do not change. Add returns
// errMatcherSets if there are more than 65,535 combinations of matchers. It allocates when tables grow and
// for new combinations.
func (t *Tracker) Add(k Key, at Moment, matchers []uint16) error {
	set, err := t.sets.number(matchers)
	if err != nil {
		return err
	}
	h := mixKey(k)
	t.stripe(h).add(h, at, set)
	return nil
}

// IsActive reports whether a series got a sample within the idle time before now.
func (t *Tracker) IsActive(k Key, now Moment) bool {
	h := mixKey(k)
	s := t.stripe(h)
	for {
		last, ok := s.table.Load().last(h)
		if ok {
			return last != dead && !t.expired(last, now)
		}
		s.wait()
	}
}

// expired reports whether the idle time has passed.
func (t *Tracker) expired(last, now Moment) bool { return now > last && now-last > t.idle }

// Sweep removes series whose idle time has passed. It reads 4 bytes per series without a lock, and locks a
// stripe for a thousand expired series at a time. Call it about once per step.
func (t *Tracker) Sweep(now Moment) {
	if now <= t.idle {
		return
	}
	oldest := now - t.idle
	for i := range t.parts {
		t.parts[i].sweep(oldest)
	}
}

// Counts returns the number of live series as of the last Sweep, and stores the number for each matcher in
// dst, which has one element per matcher or is nil. Its cost grows with stripes and combinations, not with
// series.
func (t *Tracker) Counts(dst []int64) (all int64) {
	clear(dst)
	for i := range t.parts {
		s := &t.parts[i]
		s.mu.Lock()
		all += int64(s.live)
		if dst != nil {
			t.sets.addCounts(dst, s.counts)
		}
		s.mu.Unlock()
	}
	return all
}

// Bytes returns the heap size of the Tracker, as the allocator accounts for it.
func (t *Tracker) Bytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(*t), true) + heapsize.Array(uintptr(cap(t.parts)), unsafe.Sizeof(stripe{}), true) + t.sets.bytes()
	for i := range t.parts {
		n += t.parts[i].bytes()
	}
	return int64(n)
}

// stripe returns the stripe of a key's hash.
func (t *Tracker) stripe(h uint64) *stripe { return &t.parts[h>>(t.shift&63)&uint64(len(t.parts)-1)] }

// mixKey distributes keys that are less random than a Key should be, bijectively except that it never returns
// 0: one key shares its result with another.
func mixKey(k Key) uint64 {
	h := uint64(k)
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return max(h, 1)
}

// A stripe is a part of the Tracker with a lock and a table.
type stripe struct {
	table atomic.Pointer[table] // replaced under mu

	mu     sync.Mutex // for all operations except updates of known series
	live   int        // series that are neither dead nor absent; guarded by mu
	used   int        // slots with a key, including dead series; guarded by mu
	counts []int32    // live series by set of matchers; guarded by mu
	_      [8]byte    // pads the struct to a cache line
}

// wait blocks until a rebuild in progress has finished.
func (s *stripe) wait() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // the lock is what is waited for
}

// add records a sample of a series, known or not.
func (s *stripe) add(h uint64, at Moment, set uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	i, known := t.find(h)
	if known && t.raise(i, at) {
		return
	}
	if !known {
		if s.used+1 > t.most() {
			s.rebuild(s.live + 1)
			t = s.table.Load()
			i, _ = t.find(h)
		}
		s.used++
	}
	s.live++
	for int(set) >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	s.counts[set]++
	t.put(i, h, at, set)
}

// sweep removes series whose last sample was before oldest.
func (s *stripe) sweep(oldest Moment) {
	t := s.table.Load()
	for from := 0; from < len(t.words); from += sweepSlots {
		to := min(from+sweepSlots, len(t.words))
		if !t.anyBefore(from, to, oldest) {
			continue
		}
		if !s.expire(t, from, to, oldest) {
			// The table was rebuilt, which keeps live series: start again.
			t, from = s.table.Load(), -sweepSlots
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if dead := s.used - s.live; dead > s.used/2 && len(s.table.Load().words) > minSlots {
		s.rebuild(s.live)
	}
}

// sweepSlots is the number of slots that are processed under one lock: some microseconds.
const sweepSlots = 1024

// expire marks idle series in a part of t as dead. It returns false if t was replaced.
func (s *stripe) expire(t *table, from, to int, oldest Moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table.Load() != t {
		return false
	}
	for i := from; i < to; i++ {
		if t.kill(i, oldest) {
			s.live--
			s.counts[t.sets[i]]--
		}
	}
	return true
}

// rebuild replaces the table by one for n series, without dead series. The caller holds mu.
func (s *stripe) rebuild(n int) {
	old := s.table.Load()
	t := newTable(slotsFor(n))
	for i := range old.words {
		if last := old.take(i); last != dead {
			h := old.keys[i].Load()
			at, _ := t.find(h)
			t.put(at, h, last, old.sets[i])
		}
	}
	s.used = s.live
	s.table.Store(t)
}

func (s *stripe) bytes() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Load().bytes() + heapsize.Array(uintptr(cap(s.counts)), 4, false)
}
