package slab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// panicOf returns the text of the panic of f; "" if there is none.
func panicOf(f func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

// TestArguments calls functions with the arguments that they refuse, and those beside them.
func TestArguments(t *testing.T) {
	p, e := NewPool(PoolOptions{}), NewEntries[int](EntriesOptions{})
	_, q := admitted(t, 1000)
	defer q.Close()
	for name, c := range map[string]struct {
		call func()
		want string
	}{
		"no bytes":                {func() { p.Bytes(0).Release() }, ""},
		"-1 bytes":                {func() { p.Bytes(-1) }, "BUG: slab: a slab of -1 bytes"},
		"no entries":              {func() { a := e.Arena(); a.Make(0) }, ""},
		"-1 entries":              {func() { a := e.Arena(); a.Make(-1) }, "BUG: slab: a run of -1 entries"},
		"-1 entries of a slab":    {func() { a := e.Arena(); defer a.Release(); a.Make(1); a.Make(-1) }, "BUG: slab: a run of -1 entries"},
		"reserve none":            {func() { _ = q.Reserve(purposes-1, 0) }, ""},
		"reserve -1":              {func() { _ = q.Reserve(Chunks, -1) }, "BUG: slab: reserve -1 bytes for chunks"},
		"reserve for no purpose":  {func() { _ = q.Reserve(purposes, 0) }, "BUG: slab: reserve 0 bytes for purpose 6"},
		"return none":             {func() { q.Return(purposes-1, 0) }, ""},
		"return -1":               {func() { q.Return(Chunks, -1) }, "BUG: slab: return -1 bytes of chunks"},
		"return for no purpose":   {func() { q.Return(purposes, 0) }, "BUG: slab: return 0 bytes of purpose 6"},
		"gate of negative bytes":  {func() { NewGate(GateOptions{Bytes: 9, PerQuery: 5, Light: -1}) }, "BUG: slab: bytes of light queries are -1"},
		"gate of too few bytes":   {func() { NewGate(GateOptions{Bytes: 9, PerQuery: 5, Light: 5}) }, "BUG: slab: bytes of the process are 4, less than the 5 of one query: none could run"},
		"gate of queries of none": {func() { NewGate(GateOptions{Bytes: 9}) }, "BUG: slab: bytes per query are 0: a query needs some"},
	} {
		if got := panicOf(c.call); got != c.want {
			t.Errorf("%s: panic %q, want %q", name, got, c.want)
		}
	}
}

// TestSizesAtEdges has the smallest slabs, and pools that keep as much as one slab has.
func TestSizesAtEdges(t *testing.T) {
	p := NewPool(PoolOptions{IdleBytes: 2048})
	for n, want := range map[int]int64{-1: 0, 0: 0, 1: 1024, 1024: 1024, 1025: 1280, MaxSlab: MaxSlab, MaxSlab + 1: MaxSlab + 1} {
		if got := p.Size(n); got != want {
			t.Errorf("%d bytes have the size %d, want %d", n, got, want)
		}
	}
	one := p.Bytes(1)
	if len(one.Bytes()) != 1 || one.Size() != 1024 {
		t.Errorf("a slab of a byte has %d in %d", len(one.Bytes()), one.Size())
	}
	one.Release()
	p.Bytes(2048).Release()
	if s := p.Stats(); s.Idle != 1 || s.IdleBytes != 2048 || s.GivenBack != 1 {
		t.Errorf("a slab of the bound: %+v", s)
	}
	p.Bytes(2049).Release()
	if s := p.Stats(); s.Idle != 1 || s.IdleBytes != 2048 || s.GivenBack != 1 {
		t.Errorf("a slab above the bound: %+v", s)
	}
	p.Age()
	if freed := p.Age(); freed != 2048 || p.Stats().GivenBack != 2 {
		t.Errorf("%d bytes were freed: %+v", freed, p.Stats())
	}
	for n, want := range map[int][4]int{0: {8, 64, 1024, 16384}, 1: {1, 1, 1, 1}, 15: {1, 1, 1, 15}, 32: {1, 1, 2, 32}, 512: {1, 2, 32, 512}, 4096: {2, 16, 256, 4096}} {
		if got := NewEntries[byte](EntriesOptions{SlabEntries: n}).sizes; got != want {
			t.Errorf("slabs of %d: %v, want %v", n, got, want)
		}
	}
	none := NewEntries[byte](EntriesOptions{SlabEntries: 1, IdleBytes: -1})
	a := none.Arena()
	a.Make(1)
	if a.Release(); none.Stats().Idle != 0 {
		t.Errorf("a slab of a byte is kept: %+v", none.Stats())
	}
}

// TestArenaAgain fills an arena with several slabs after its release, some of them for one run.
func TestArenaAgain(t *testing.T) {
	e := NewEntries[uint32](EntriesOptions{SlabEntries: 64})
	a := e.Arena()
	for round := range int64(3) {
		a.Make(1)
		a.Make(65) // a slab for it alone
		for i := range 40 {
			if run := a.Make(2); len(run) != 2 || cap(run) != 2 {
				t.Fatalf("run %d: %d of %d", i, len(run), cap(run))
			}
		}
		// 1, 65, and one of 4 and two of 64 for 40 runs of two.
		if s := e.Stats(); s.Calls != 5*(round+1) || s.Releases != 5*round || s.OutBytes != a.Bytes() {
			t.Errorf("round %d: %+v, %d bytes", round, s, a.Bytes())
		}
		a.Release()
		if s := e.Stats(); s.Releases != s.Calls || s.OutBytes != 0 || s.Misused != 0 || a.Bytes() != 0 {
			t.Errorf("round %d: %+v, %d bytes", round, s, a.Bytes())
		}
	}
}

// TestUnmapped frees protected slabs in each way: they are unmapped.
func TestUnmapped(t *testing.T) {
	for name, c := range map[string]struct {
		idle int64
		n    int
		free func(*Pool)
	}{
		"trim":     {1 << 20, 4096, func(p *Pool) { p.Trim(0) }},
		"age":      {1 << 20, 4096, func(p *Pool) { p.Age(); p.Age() }},
		"evict":    {1 << 10, 1024, func(*Pool) {}},
		"not kept": {-1, 4096, func(*Pool) {}},
	} {
		p := NewPool(PoolOptions{Protect: true, IdleBytes: c.idle})
		var mapped [][]byte
		slabs := []Slab{p.Bytes(c.n), p.Bytes(c.n), p.Bytes(c.n), p.Bytes(c.n)}
		for _, s := range slabs {
			mapped = append(mapped, s.Bytes())
			s.Bytes()[0] = 1
			if err := unix.Msync(s.Bytes(), unix.MS_ASYNC); err != nil {
				t.Fatalf("%s: a lent slab: %v", name, err)
			}
		}
		for _, s := range slabs {
			s.Release()
		}
		c.free(p)
		if name == "evict" { // the last one is kept
			mapped = mapped[:3]
		}
		for i, b := range mapped {
			if err := unix.Msync(b, unix.MS_ASYNC); !errors.Is(err, unix.ENOMEM) {
				t.Errorf("%s: slab %d is still mapped: %v", name, i, err)
			}
		}
	}
}

// TestPointersOf has types with pointers in each place.
func TestPointersOf(t *testing.T) {
	type nested struct {
		_ int
		_ [1]struct{ _ *int }
	}
	for name, c := range map[string]struct{ got, want bool }{
		"array of none": {hasPointers[[0]*int](), false}, "array of one": {hasPointers[[1]*int](), true}, "array without": {hasPointers[[1]int](), false}, "nested": {hasPointers[nested](), true},
		"string": {hasPointers[string](), true}, "func": {hasPointers[func()](), true}, "uintptr": {hasPointers[uintptr](), false}, "empty": {hasPointers[struct{}](), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", name, c.got)
		}
	}
	if mapBytes(1<<60) != nil {
		t.Error("more bytes are mapped than there are addresses")
	}
}

// TestClosedWithBytes closes quotas with a byte or more reserved: none is left in the accounts.
func TestClosedWithBytes(t *testing.T) {
	for _, n := range []int64{1, 2, 1000} {
		g, q := admitted(t, 1000)
		if err := q.Reserve(Values, n); err != nil {
			t.Fatal(err)
		}
		expectMisuse(t, func() int64 { return g.Stats().Misused }, fmt.Sprintf("closed with %d bytes", n), q.Close)
		if s := g.Stats(); q.Used() != 0 || s.Held != 0 || g.main.free != 1000 {
			t.Errorf("%d: %d used, %+v", n, q.Used(), s)
		}
		for p := range purposes {
			if got := q.UsedFor(p); got != 0 {
				t.Errorf("%d bytes of %s after Close", got, p)
			}
		}
	}
}

// A waiting query of a test.
type waiting struct {
	q      *Quota
	err    error
	cancel context.CancelFunc
}

// admit starts to admit a query within synctest, and returns it admitted or waiting.
func admit(t *testing.T, g *Gate, o AdmitOptions) *waiting {
	w := new(waiting)
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(t.Context())
	go func() { w.q, w.err = g.AdmitFor(ctx, o) }()
	synctest.Wait()
	return w
}

// TestLimitsAtEdges admits queries of a key with each kind of bound: a second one of 1 byte runs if the bounds permit it, and grows.
func TestLimitsAtEdges(t *testing.T) {
	for name, c := range map[string]struct {
		limits       KeyLimits
		first, grown bool // the second query runs, the first one grows
	}{
		"none":         {KeyLimits{}, true, true},
		"requests":     {KeyLimits{Requests: 2}, true, true},
		"one request":  {KeyLimits{Requests: 1}, false, true},
		"a byte":       {KeyLimits{Bytes: 1}, false, false},
		"two bytes":    {KeyLimits{Bytes: 2}, true, false},
		"three":        {KeyLimits{Bytes: 3}, true, true},
		"many":         {KeyLimits{Bytes: 1 << 40, Requests: 9}, true, true},
		"full, a byte": {KeyLimits{Bytes: 1, Queue: 1}, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(GateOptions{Bytes: 100, PerQuery: 50, Limits: func(string) KeyLimits { return c.limits }})
			one := admit(t, g, AdmitOptions{Key: "a", First: 1})
			if one.q == nil || one.q.Granted() != 1 {
				t.Fatalf("%s: %+v", name, one)
			}
			two := admit(t, g, AdmitOptions{Key: "a", First: 1})
			if (two.q != nil) != c.first || two.err != nil {
				t.Errorf("%s: the second query: %+v", name, two)
			}
			if c.limits.Queue == 1 {
				if three := admit(t, g, AdmitOptions{Key: "a", First: 1}); !errors.Is(three.err, ErrQueueFull) || g.Stats().Full != 1 {
					t.Errorf("%s: the third query: %+v, %+v", name, three, g.Stats())
				}
			}
			if got := g.grow(one.q.account, 1); got != c.grown {
				t.Errorf("%s: it grows: %t", name, got)
			} else if got {
				one.q.granted.Add(1)
			}
			two.cancel()
			synctest.Wait()
			if two.q != nil {
				two.q.Close()
			}
			one.q.Close()
			if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || g.main.free != 100 || len(g.accounts) != 0 {
				t.Errorf("%s: at the end: %+v, %d free, %d accounts", name, s, g.main.free, len(g.accounts))
			}
		})
	}
}

// TestYield has a query of key a wait for bytes, and one of key b behind it for fewer, which are free: b is admitted as soon as a is at its
// bound, because another of its queries grows or is admitted to the light lane.
func TestYield(t *testing.T) {
	for _, grows := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(GateOptions{Bytes: 110, PerQuery: 100, Light: 10, Limits: func(key string) KeyLimits {
				if key == "a" {
					return KeyLimits{Bytes: 60}
				}
				return KeyLimits{}
			}})
			other := admit(t, g, AdmitOptions{Key: "o", First: 50})
			running := admit(t, g, AdmitOptions{Key: "a", First: 20})
			first := admit(t, g, AdmitOptions{Key: "a", First: 40})
			behind := admit(t, g, AdmitOptions{Key: "b", First: 10})
			if other.q == nil || running.q == nil || first.q != nil || behind.q != nil {
				t.Fatalf("%v %v %v %v", other.q, running.q, first.q, behind.q)
			}
			if s := g.Stats(); s.Waiting != 2 || s.LightWaiting != 0 {
				t.Errorf("%+v", s)
			}
			quotas := []*Quota{other.q, running.q}
			if grows {
				if !g.grow(running.q.account, 1) {
					t.Error("it does not grow")
				}
				running.q.granted.Add(1)
			} else {
				quotas = append(quotas, admit(t, g, AdmitOptions{Key: "a", First: 1, Light: true}).q)
			}
			synctest.Wait()
			if behind.q == nil || first.q != nil {
				t.Fatalf("grows %t: the query behind has %v, %v", grows, behind.q, behind.err)
			}
			behind.q.Close()
			for _, q := range quotas {
				q.Close()
			}
			synctest.Wait()
			if first.q == nil {
				t.Fatal("the first query waits")
			}
			first.q.Close()
			if s := g.Stats(); s.Running+s.Waiting != 0 || g.main.free != 100 || g.light.free != 10 || len(g.accounts) != 0 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}

// TestWaitingOfLanes counts the queries that wait in both lanes.
func TestWaitingOfLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Bytes: 20, PerQuery: 10, Light: 10})
		all := []*waiting{admit(t, g, AdmitOptions{}), admit(t, g, AdmitOptions{First: 10, Light: true})}
		for range 3 {
			all = append(all, admit(t, g, AdmitOptions{First: 10, Light: true}))
		}
		all = append(all, admit(t, g, AdmitOptions{}))
		if s := g.Stats(); s.Running != 2 || s.Waiting != 4 || s.LightWaiting != 3 {
			t.Errorf("%+v", s)
		}
		for _, w := range all[2:] {
			w.cancel()
		}
		synctest.Wait()
		if s := g.Stats(); s.Running != 2 || s.Waiting != 0 || s.LightWaiting != 0 || s.Cancelled != 4 {
			t.Errorf("%+v", s)
		}
		all[0].q.Close()
		all[1].q.Close()
	})
}

// TestAdmittedAndCancelled admits queries while their context ends: each either has its bytes or has none.
func TestAdmittedAndCancelled(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(GateOptions{Bytes: 10, PerQuery: 10, Limits: func(string) KeyLimits { return KeyLimits{Bytes: 1000} }})
			running := admit(t, g, AdmitOptions{Key: "a"})
			w := admit(t, g, AdmitOptions{Key: "a"})
			g.mu.Lock() // w takes notice of its context alone, but the bytes are granted before it has the lock
			w.cancel()
			g.running--
			g.main.free += 10
			g.chargeLocked(running.q.account, -1, 0, -10)
			g.admitAllLocked()
			g.mu.Unlock()
			synctest.Wait()
			admitted, cancelled := int64(1), int64(1)
			if w.err == nil {
				w.q.Close()
				admitted, cancelled = 2, 0
			}
			if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Admitted != admitted || s.Cancelled != cancelled || g.main.free != 10 || len(g.accounts) != 0 {
				t.Errorf("error %v: %+v, %d free, %d accounts", w.err, s, g.main.free, len(g.accounts))
			}
		})
	}
}

// TestTurnsOfLane pushes queries of three keys and removes one: its key moves behind the others if the query was admitted, or left the
// queue as the next in turn.
func TestTurnsOfLane(t *testing.T) {
	for _, c := range []struct {
		remove   int // of a1 a2 b1 b2 c1
		admitted bool
		want     string
	}{
		{0, true, "b c a"},
		{0, false, "b c a"},
		{1, true, "b c a"},
		{1, false, "a b c"},
		{2, true, "a c b"},
		{2, false, "a b c"},
		{3, false, "a b c"},
		{4, true, "a b"},
		{4, false, "a b"},
	} {
		l := newLane(10)
		var all []*waiter
		for _, key := range []string{"a", "a", "b", "b", "c"} {
			all = append(all, l.push(key, 1, nil))
		}
		l.remove(all[c.remove], c.admitted)
		var turns []string
		for e := l.turns.Front(); e != nil; e = e.Next() {
			turns = append(turns, e.Value.(*turn).key)
		}
		if got := strings.Join(turns, " "); got != c.want || l.waiting != 4 || len(l.keys) != len(turns) {
			t.Errorf("%+v: %s, %d wait, %d keys", c, got, l.waiting, len(l.keys))
		}
	}
}

// TestReserveMeanwhile returns bytes of a quota while it grows for a reservation: both are counted.
func TestReserveMeanwhile(t *testing.T) {
	var meanwhile func()
	g := NewGate(GateOptions{Bytes: 8 << 20, PerQuery: 4 << 20, Limits: func(string) KeyLimits {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return KeyLimits{}
	}})
	q, err := g.AdmitFor(t.Context(), AdmitOptions{First: growStep})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Reserve(Chunks, growStep); err != nil {
		t.Fatal(err)
	}
	meanwhile = func() { q.Return(Chunks, 100) }
	if err := q.Reserve(Series, 1); err != nil || meanwhile != nil {
		t.Fatal(err)
	}
	if want := int64(growStep - 100 + 1); q.Used() != want || q.UsedFor(Series) != 1 || q.UsedFor(Chunks) != growStep-100 || g.Stats().Held != want {
		t.Errorf("%d used, %d for series, %d reserved", q.Used(), q.UsedFor(Series), g.Stats().Held)
	}
	q.Return(Chunks, growStep-100)
	q.Return(Series, 1)
	q.Close()
	if s := g.Stats(); s.Misused != 0 || s.Held != 0 || g.main.free != 8<<20 {
		t.Errorf("%+v", s)
	}
}
