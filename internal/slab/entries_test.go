package slab

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

type ref struct {
	offset uint64
	from   int32
	_      int32
}

// TestArenaRuns allocates runs of random lengths: none shares an entry with another or has spare capacity,
// and the arena takes the bytes that Need announced.
func TestArenaRuns(t *testing.T) {
	e := NewEntries[ref](EntriesOptions{SlabEntries: 256})
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 5))
		a := e.Arena()
		var runs [][]ref
		for range random.IntN(100) {
			n := random.IntN(40)
			if random.IntN(10) == 0 {
				n = 200 + random.IntN(200) // past a slab
			}
			need, before := a.Need(n), a.Bytes()
			run := a.Make(n)
			if len(run) != n || cap(run) != n {
				t.Fatalf("a run of %d: len %d, cap %d", n, len(run), cap(run))
			}
			if a.Bytes()-before != need {
				t.Fatalf("a run of %d takes %d bytes, %d were announced", n, a.Bytes()-before, need)
			}
			for i := range run {
				run[i] = ref{offset: uint64(len(runs)), from: int32(i)}
			}
			runs = append(runs, run)
		}
		for i, run := range runs {
			for j, got := range run {
				if want := (ref{offset: uint64(i), from: int32(j)}); got != want {
					t.Fatalf("entry %d of run %d: got %v, want %v", j, i, got, want)
				}
			}
		}
		if out := e.Stats().OutBytes; out != a.Bytes() {
			t.Fatalf("out: %d bytes, the arena has %d", out, a.Bytes())
		}
		a.Release()
		if a.Bytes() != 0 {
			t.Fatal("a released arena has bytes")
		}
		a.Release() // of an empty arena
	}
	if s := e.Stats(); s.OutBytes != 0 || s.Misused != 0 || s.Calls != s.Releases || s.Oversize == 0 {
		t.Errorf("stats: %+v", s)
	}
}

// TestArenaSlabs counts pool calls: a small arena has one small slab, a large one makes one call per 16,384
// entries.
func TestArenaSlabs(t *testing.T) {
	e := NewEntries[ref](EntriesOptions{})
	small := e.Arena()
	small.Make(3)
	if got := small.Bytes(); got != 8*16 {
		t.Errorf("an arena of 3 entries takes %d bytes", got)
	}
	small.Release()
	large := e.Arena()
	for range 100_000 / 20 {
		large.Make(20)
	}
	if calls := e.Stats().Calls - 1; calls != 9 {
		t.Errorf("100,000 entries: %d pool calls, want 9", calls)
	}
	large.Release()
}

func TestArenaMisuse(t *testing.T) {
	e := NewEntries[ref](EntriesOptions{})
	misused := func() int64 { return e.Stats().Misused }
	a := e.Arena()
	a.Make(10)
	twin := a
	a.Release()
	expectMisuse(t, misused, "released twice", twin.Release)
	b := e.Arena()
	b.Make(10)
	b.Release()
	if s := e.Stats(); s.Idle != 1 || s.OutBytes != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// TestArenaPointers shows that released entries keep nothing alive, and are zero when reused.
func TestArenaPointers(t *testing.T) {
	e := NewEntries[*[1 << 20]byte](EntriesOptions{SlabEntries: 32})
	collected := make(chan struct{}, 3)
	a := e.Arena()
	for range 3 { // in the first slab, in the next, in a separate one
		run := a.Make(20)
		run[19] = new([1 << 20]byte)
		runtime.AddCleanup(run[19], func(struct{}) { collected <- struct{}{} }, struct{}{})
	}
	a.Release()
	for range 3 {
		testwait.Until(t, "the values to be collected", func() bool {
			runtime.GC()
			select {
			case <-collected:
				return true
			default:
				return false
			}
		})
	}
	b := e.Arena()
	for i, p := range b.Make(32) {
		if p != nil {
			t.Errorf("entry %d is not zero", i)
		}
	}
	b.Release()
}

func TestEntriesGiveBack(t *testing.T) {
	e := NewEntries[byte](EntriesOptions{SlabEntries: 1600, IdleBytes: 4000})
	var arenas [5]Arena[byte]
	for i := range arenas {
		arenas[i] = e.Arena()
		arenas[i].Make(100)
		arenas[i].Make(1600)
	}
	for i := range arenas {
		arenas[i].Release()
	}
	if s := e.Stats(); s.IdleBytes > 4000 || s.IdleBytes < 2000 {
		t.Errorf("stats: %+v", s)
	}
	e.Age()
	if e.Age() == 0 || e.Stats().Idle != 0 {
		t.Errorf("after two calls of Age: %+v", e.Stats())
	}
	c := e.Arena()
	c.Make(1)
	c.Release()
	if got := e.Trim(0); got != max(1600/firstSlab, 1) {
		t.Errorf("trim: %d bytes went, want a first slab", got)
	}
}

func TestHasPointers(t *testing.T) {
	for name, c := range map[string][2]bool{
		"int":                {hasPointers[int](), false},
		"ref":                {hasPointers[ref](), false},
		"array":              {hasPointers[[3]ref](), false},
		"array of none":      {hasPointers[[0]*int](), false},
		"string":             {hasPointers[string](), true},
		"struct of slice":    {hasPointers[struct{ b []byte }](), true},
		"array of interface": {hasPointers[[2]any](), true},
		"unsafe slab handle": {hasPointers[Slab](), true},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %t", name, c[0])
		}
	}
}
