package slab

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

func admitted(t *testing.T, perQuery int64) (*Gate, *Quota) {
	t.Helper()
	g := NewGate(GateOptions{Bytes: perQuery, PerQuery: perQuery})
	q, err := g.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g, q
}

func TestQuotaLimit(t *testing.T) {
	g, q := admitted(t, 256<<20)
	if err := q.Reserve(Chunks, 250<<20); err != nil {
		t.Fatal(err)
	}
	err := q.Reserve(Chunks, 12<<20+100<<10)
	var limit *LimitError
	if !errors.As(err, &limit) || !errors.Is(err, ErrOverQuota) {
		t.Fatalf("got %v, want a LimitError", err)
	}
	if want := (LimitError{Chunks, 12<<20 + 100<<10, 250 << 20, 256 << 20, false}); *limit != want {
		t.Errorf("got %+v, want %+v", *limit, want)
	}
	if want := "query bytes: chunks ask for 12.1 MiB on top of 250 MiB, the limit is 256 MiB"; err.Error() != want {
		t.Errorf("error:\n got %s\nwant %s", err, want)
	}
	if err := q.Reserve(Series, 6<<20); err != nil {
		t.Errorf("to the limit: %v", err)
	}
	if err := q.Reserve(Values, math.MaxInt64); err == nil {
		t.Error("a sum over 64 bits passes")
	}
	if got := [...]int64{q.Used(), q.Peak(), q.UsedFor(Chunks), q.UsedFor(Series), q.UsedFor(Values), q.Allowed()}; got !=
		[...]int64{256 << 20, 256 << 20, 250 << 20, 6 << 20, 0, 256 << 20} {
		t.Errorf("account: %v", got)
	}
	q.Return(Chunks, 250<<20)
	q.Return(Series, 6<<20)
	q.Close()
	if s := g.Stats(); s.Held != 0 || s.Peak != 256<<20 || s.Refused != 2 || s.Running != 0 || s.Misused != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// TestQuotaMisuse shows the effect of a caller's mistakes: the gate's account stays right.
func TestQuotaMisuse(t *testing.T) {
	g, q := admitted(t, 100)
	misused := func() int64 { return g.Stats().Misused }
	if err := q.Reserve(Postings, 10); err != nil {
		t.Fatal(err)
	}
	expectMisuse(t, misused, "11 bytes of postings returned, 10 were reserved", func() { q.Return(Postings, 11) })
	if q.Used() != 0 || q.UsedFor(Postings) != 0 || g.Stats().Held != 0 {
		t.Errorf("after too much was returned: used %d, held %d", q.Used(), g.Stats().Held)
	}
	if err := q.Reserve(ResponseBytes, 20); err != nil {
		t.Fatal(err)
	}
	expectMisuse(t, misused, "closed with 20 bytes", q.Close)
	expectMisuse(t, misused, "closed twice", q.Close)
	expectMisuse(t, misused, "closed quota", func() {
		var limit *LimitError
		if err := q.Reserve(ResponseBytes, 1); !errors.As(err, &limit) || limit.Allowed != 0 {
			t.Errorf("reserve after close: %v", err)
		}
	})
	if s := g.Stats(); s.Held != 0 || s.Running != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// TestQuotaConcurrent has goroutines reserve and return at random: the quota never exceeds its limit and
// counts their bytes by purpose.
func TestQuotaConcurrent(t *testing.T) {
	g, q := admitted(t, 1000)
	held := make([][purposes]int64, 8)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 3))
			for range 2000 {
				what := Purpose(random.IntN(int(purposes)))
				if n := random.Int64N(120); random.IntN(2) == 0 {
					if q.Reserve(what, n) == nil {
						held[i][what] += n
					}
				} else {
					n = min(n, held[i][what])
					q.Return(what, n)
					held[i][what] -= n
				}
				if used := q.Used(); used < 0 || used > 1000 {
					t.Errorf("used: %d of 1000", used)
				}
			}
		})
	}
	testwait.Group(t, "the workers", &all)
	var total int64
	for what := range purposes {
		var want int64
		for i := range held {
			want += held[i][what]
		}
		if got := q.UsedFor(what); got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
		q.Return(what, want)
		total += want
	}
	if peak := q.Peak(); peak > 1000 || peak < total {
		t.Errorf("peak: %d", peak)
	}
	q.Close()
	if s := g.Stats(); s.Held != 0 || s.Misused != 0 || s.Refused == 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 20: "256 MiB", 5 << 40: "5 TiB", math.MaxInt64: "8388608 TiB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestPurposeNames(t *testing.T) {
	seen := map[string]bool{}
	for p := range purposes {
		if p.String() == "" || seen[p.String()] {
			t.Errorf("purpose %d has the name %q", p, p)
		}
		seen[p.String()] = true
	}
	if got := Purpose(200).String(); got != "purpose 200" {
		t.Errorf("unknown purpose: %s", got)
	}
}

// TestQuotaReclaim has a quota's owner return dispensable bytes before Reserve refuses.
func TestQuotaReclaim(t *testing.T) {
	g := NewGate(GateOptions{Bytes: 100, PerQuery: 100})
	q, err := g.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	idle := int64(40)
	q.OnShort(func() bool {
		if idle == 0 {
			return false
		}
		idle -= 20
		q.Return(Chunks, 20)
		return true
	})
	if err := errors.Join(q.Reserve(Chunks, 40), q.Reserve(Series, 75)); err != nil || idle != 20 {
		t.Errorf("%v, %d bytes are left to return", err, idle)
	}
	if err := q.Reserve(Series, 26); !errors.Is(err, ErrOverQuota) || idle != 0 {
		t.Errorf("%v, %d bytes are left to return", err, idle)
	}
	q.Return(Series, 75)
	q.Close()
}

// TestQuotaReclaimOfProcess retries a reservation for which the process had no free bytes once others were returned.
func TestQuotaReclaimOfProcess(t *testing.T) {
	const most = 4 << 20
	g := NewGate(GateOptions{Bytes: most, PerQuery: most})
	admit := func() *Quota {
		t.Helper()
		q, err := g.AdmitFor(t.Context(), AdmitOptions{First: growStep})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	other, q := admit(), admit()
	if err := other.Reserve(Chunks, 3<<20); err != nil {
		t.Fatal(err)
	}
	if err := q.Reserve(Series, 2<<20); !errors.Is(err, ErrShort) {
		t.Fatalf("a reservation beyond the process's bytes: %v", err)
	}
	calls := 0
	q.OnShort(func() bool {
		if calls++; calls > 1 {
			return false
		}
		other.Return(Chunks, 3<<20)
		other.Close()
		return true
	})
	if err := q.Reserve(Series, 2<<20); err != nil || calls != 1 || q.Used() != 2<<20 {
		t.Errorf("%v after %d calls, %d bytes are used", err, calls, q.Used())
	}
	q.Return(Series, 2<<20)
	q.Close()
	if s := g.Stats(); s.Held != 0 || s.Short != 1 {
		t.Errorf("%+v", s)
	}
}
