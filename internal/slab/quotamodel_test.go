package slab

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// A modelQuota is the state of a quota by the documentation.
type modelQuota struct {
	q                   *Quota
	used, granted, peak int64
	by                  [purposes]int64
}

// TestQuotaModel has three quotas reserve, plan and return random bytes of a gate that has too few for all: results and counts are those of a
// model.
func TestQuotaModel(t *testing.T) {
	random := testseed.Rand(t)
	for range 60 {
		quotaModel(t, random)
	}
}

func quotaModel(t *testing.T, random *rand.Rand) {
	const limit, first, bytes = 8 << 20, 1 << 20, 14 << 20
	g := NewGate(GateOptions{Bytes: bytes, PerQuery: limit})
	var all [3]modelQuota
	want := GateStats{Bytes: bytes, PerQuery: limit, Queries: bytes / limit, Running: len(all), Admitted: int64(len(all))}
	free := int64(bytes)
	for i := range all {
		q, err := g.AdmitFor(t.Context(), AdmitOptions{First: first})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = modelQuota{q: q, granted: first}
		free -= first
	}
	grows := func(m *modelQuota, need int64) bool {
		more := need - m.granted
		for _, step := range []int64{min(max(more, growStep), limit-m.granted), more} {
			if free >= step {
				free -= step
				m.granted += step
				return true
			}
		}
		return false
	}
	for range 200 {
		m := &all[random.IntN(len(all))]
		what, n := Purpose(random.IntN(int(purposes))), random.Int64N(3<<20)
		if random.IntN(9) == 0 {
			n = []int64{0, 1, limit, limit + 1, limit - m.used, limit - m.used + 1, m.granted - m.used}[random.IntN(7)]
		}
		switch random.IntN(4) {
		case 0, 1:
			err, refusal := m.q.Reserve(what, n), LimitError{Purpose: what, Requested: n, Held: m.used, Allowed: limit}
			switch {
			case n > limit-m.used:
				want.Refused++
			case m.used+n > m.granted && !grows(m, m.used+n):
				want.Short++
				refusal.Short = true
			default:
				refusal = LimitError{}
				m.used += n
				m.by[what] += n
				m.peak = max(m.peak, m.used)
				want.Held += n
				want.Peak = max(want.Peak, want.Held)
			}
			expectRefusal(t, err, refusal)
		case 2:
			err, refusal := m.q.Plan(what, n), LimitError{}
			if need := min(m.used+n, limit); need > m.granted && !grows(m, need) {
				want.Short++
				refusal = LimitError{Purpose: what, Requested: need - m.used, Held: m.used, Allowed: limit, Short: true}
			}
			expectRefusal(t, err, refusal)
		case 3:
			n = min(n, m.by[what])
			m.q.Return(what, n)
			m.used, m.by[what], want.Held = m.used-n, m.by[what]-n, want.Held-n
		}
		if m.q.Used() != m.used || m.q.Granted() != m.granted || m.q.Peak() != m.peak || m.q.UsedFor(what) != m.by[what] || m.q.Allowed() != limit {
			t.Fatalf("used %d, granted %d, at most %d, %d for %s; want %+v", m.q.Used(), m.q.Granted(), m.q.Peak(), m.q.UsedFor(what), what, m)
		}
		if got := g.Stats(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	for i := range all {
		m := &all[i]
		for what := range m.by {
			m.q.Return(Purpose(what), m.by[what])
		}
		m.q.Close()
		if m.q.Used() != 0 || m.q.Granted() != 0 {
			t.Errorf("closed: %d used, %d granted", m.q.Used(), m.q.Granted())
		}
		if err := m.q.Plan(Chunks, 1); !errors.Is(err, ErrShort) {
			t.Errorf("closed: %v", err)
		}
	}
	if got := g.Stats(); got.Held != 0 || got.Running != 0 || g.main.free != bytes {
		t.Errorf("at the end: %+v, %d free", got, g.main.free)
	}
}

// expectRefusal compares an error; the zero one stands for none.
func expectRefusal(t *testing.T, err error, want LimitError) {
	t.Helper()
	if want == (LimitError{}) {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	got, ok := errors.AsType[*LimitError](err)
	if !ok || *got != want || errors.Is(err, ErrShort) != want.Short || errors.Is(err, ErrOverQuota) == want.Short {
		t.Fatalf("%+v, want %+v", err, want)
	}
}

// TestGateQueries has gates for more or fewer queries, and options that are refused.
func TestGateQueries(t *testing.T) {
	for o, want := range map[[3]int64]int{{10, 10, 0}: 1, {19, 10, 0}: 1, {20, 10, 0}: 2, {25, 10, 6}: 1, {25, 10, 5}: 2, {1 << 40, 1, 0}: 1<<31 - 1, {1<<31 - 1, 1, 0}: 1<<31 - 1, {1<<31 - 2, 1, 0}: 1<<31 - 2} {
		g := NewGate(GateOptions{Bytes: o[0], PerQuery: o[1], Light: o[2]})
		if s := g.Stats(); s.Queries != want || s.Light != o[2] || s.Bytes != o[0] || s.PerQuery != o[1] {
			t.Errorf("%v: %+v", o, s)
		}
	}
	for _, o := range []GateOptions{{}, {Bytes: 10, PerQuery: 10, Light: 1}, {Bytes: 10, PerQuery: 5, Light: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a gate with %+v", o)
				}
			}()
			NewGate(o)
		}()
	}
}

// TestPoolTrim trims idle slabs of several sizes: the longest idle ones go first, as few as are needed.
func TestPoolTrim(t *testing.T) {
	for keep, want := range map[int64]int64{-1: 0, 0: 0, 1: 0, 1023: 0, 1024: 1024, 4096: 3 << 10, 7 << 10: 7 << 10, 1 << 30: 7 << 10} {
		p := NewPool(PoolOptions{})
		var slabs []Slab
		for _, n := range []int{4 << 10, 2 << 10, 1 << 10} { // the order of their return
			slabs = append(slabs, p.Bytes(n))
		}
		for _, s := range slabs {
			s.Release()
		}
		freed := p.Trim(keep)
		if s := p.Stats(); s.IdleBytes != want || freed != 7<<10-want {
			t.Errorf("%d: %d are idle, %d were freed", keep, s.IdleBytes, freed)
		}
		if again := p.Trim(keep); again != 0 {
			t.Errorf("%d: %d were freed again", keep, again)
		}
	}
}
