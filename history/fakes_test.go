package history_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A model is a simple table. Like a table's file, it outlives the archives that read it.
type model struct {
	mu      sync.Mutex
	nextID  uint64
	live    map[stmtstats.Key]*stmtstats.Sample
	visited map[uint64]bool // by an archive that is still open
	changed map[uint64]bool // since the last Collect
	rand    *rand.Rand
	gone    []stmtstats.Sample
	other   stmtstats.Sample
	evicted stmtstats.Sample

	calls, errors, rows uint64 // of all calls counted
}

func newModel() *model {
	return &model{
		nextID: 2, live: make(map[stmtstats.Key]*stmtstats.Sample), visited: make(map[uint64]bool), changed: make(map[uint64]bool), rand: rand.New(rand.NewPCG(7, 7)),
		other: stmtstats.Sample{Kind: stmtstats.Other, ID: 1}, evicted: stmtstats.Sample{Kind: stmtstats.Evicted, ID: 0},
	}
}

func keyOf(n int) stmtstats.Key {
	return stmtstats.Key{Digest: [16]byte{byte(n >> 8), byte(n), 0xaa}, Schema: "shop", User: []string{"app", "batch"}[n%2], Backend: "db1"}
}

func count(s *stmtstats.Sample, now time.Time, d time.Duration, failed bool) {
	if s.Counts[stmtstats.Calls] == 0 && s.First.IsZero() {
		s.First, s.Born = now, true
	}
	s.Last = now
	s.Counts[stmtstats.Calls]++
	for _, c := range stmtstats.Effects() {
		s.Counts[c] += effectOf(c)
	}
	if failed {
		s.Counts[int(stmtstats.Errors)+int(stmtstats.ClassDeadlock)]++
	}
	s.Histogram.Record(d)
	s.Counts[stmtstats.Nanos] = s.Histogram.Nanos
}

// effectOf returns how much each call adds to a counter.
func effectOf(c stmtstats.Counter) uint64 {
	if c == stmtstats.RowsSent {
		return 3
	}
	return 100 + uint64(c)
}

// call counts a call of the n-th Key.
func (m *model) call(n int, now time.Time, d time.Duration, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := keyOf(n)
	s := m.live[k]
	if s == nil {
		s = &stmtstats.Sample{Key: k, ID: m.nextID, Text: "SELECT " + strings.Repeat("x", n%5+1)}
		m.nextID++
		m.live[k] = s
	}
	count(s, now, d, failed)
	m.changed[s.ID] = true
	m.calls++
	m.rows += 3
	if failed {
		m.errors++
	}
}

// untracked counts a call of a statement without an entry.
func (m *model) untracked(now time.Time, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.other, now, d, false)
	m.calls++
	m.rows += 3
}

// evict evicts the n-th Key.
func (m *model) evict(n int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.live[keyOf(n)]
	if s == nil {
		return
	}
	delete(m.live, s.Key)
	e := &m.evicted
	if e.First.IsZero() {
		e.First, e.Born = now, true
	}
	e.Last = now
	e.Counts.Add(&s.Counts)
	e.Histogram.Merge(&s.Histogram)
	m.gone = append(m.gone, stmtstats.Sample{Key: s.Key, ID: s.ID, Kind: stmtstats.Removed, First: s.First, Last: s.Last})
}

// restart discards the state that a reopened table does not have.
func (m *model) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.visited)
}

// MarkAllChanged implements Source.
func (m *model) MarkAllChanged() { m.restart() }

// Collect implements Source. Evicted and live Keys are visited in random order.
func (m *model) Collect(visit func(*stmtstats.Sample) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.show(&m.evicted, visit), m.show(&m.other, visit)); err != nil {
		return err
	}
	var all []*stmtstats.Sample
	for i := range m.gone {
		all = append(all, &m.gone[i])
	}
	m.gone = nil
	for _, s := range m.live {
		if m.changed[s.ID] || !m.visited[s.ID] {
			all = append(all, s)
		}
	}
	m.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all {
		delete(m.changed, s.ID)
		if err := m.show(s, visit); err != nil {
			return err
		}
		s.Born = false
	}
	return nil
}

func (m *model) show(s *stmtstats.Sample, visit func(*stmtstats.Sample) error) error {
	shown := *s
	shown.Fresh = !m.visited[s.ID]
	if !shown.Fresh {
		shown.Text = ""
	}
	m.visited[s.ID] = true
	return visit(&shown)
}

// Each implements Source.
func (m *model) Each(visit func(*stmtstats.Sample) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.live {
		shown := *s
		if err := visit(&shown); err != nil {
			return err
		}
	}
	return errors.Join(visit(&m.evicted), visit(&m.other))
}

var _ history.Source = (*model)(nil)

// A faultySource calls a function once, between two visits of a Collect.
type faultySource struct {
	*model
	visits int // before the call
	during func()
}

func (s *faultySource) Collect(visit func(*stmtstats.Sample) error) error {
	visits := 0
	return s.model.Collect(func(sample *stmtstats.Sample) error {
		if visits++; visits > s.visits && s.during != nil {
			during := s.during
			s.during = nil
			during()
		}
		return visit(sample)
	})
}

// A flakyBucket fails calls, some of which take effect nevertheless, and reports success for others that took
// effect only in part.
type flakyBucket struct {
	objstore.Bucket
	mu    sync.Mutex
	rand  *rand.Rand // nil: no faults
	rate  float64
	calls int
	dead  int // from this call on the bucket does not respond; 0: never
}

var errFlaky = errors.New("503 slow down")

type fate int

const (
	fine fate = iota
	notDone
	doneButFailed
	halfDone
)

func (b *flakyBucket) fate() fate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	switch {
	case b.dead > 0 && b.calls > b.dead:
		return notDone
	case b.dead > 0 && b.calls == b.dead:
		return doneButFailed
	case b.rand == nil || b.rand.Float64() > b.rate:
		return fine
	}
	return fate(1 + b.rand.IntN(3))
}

func (b *flakyBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	switch b.fate() {
	case notDone:
		return errFlaky
	case doneButFailed:
		_ = b.Bucket.Upload(ctx, name, r, o...)
		return errFlaky
	case halfDone:
		text, _ := io.ReadAll(r)
		return b.Bucket.Upload(ctx, name, strings.NewReader(string(text[:len(text)/2])), o...)
	}
	return b.Bucket.Upload(ctx, name, r, o...)
}

func (b *flakyBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	switch b.fate() {
	case notDone, doneButFailed:
		return nil, errors.Join(errFlaky, r.Close())
	case halfDone:
		text, _ := io.ReadAll(r)
		_ = r.Close()
		return io.NopCloser(io.MultiReader(strings.NewReader(string(text[:len(text)/2])), brokenReader{})), nil
	}
	return r, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errFlaky }
