package slab

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestClasses checks every size within a class: it fits, exceeds the requested size by at most a quarter
// (from 4 KiB on), and the classes are adjacent.
func TestClasses(t *testing.T) {
	last, lastSize := 0, 1<<minSlabBits
	for n := 1; n <= MaxSlab; n++ {
		class, size := classOf(n)
		if size < n || n > 1<<minSlabBits && size > n+n/4 {
			t.Fatalf("%d bytes: a slab of %d", n, size)
		}
		if class == last && size == lastSize {
			continue
		}
		if class != last+1 || size <= lastSize || n != lastSize+1 {
			t.Fatalf("%d bytes: class %d of %d follows class %d of %d", n, class, size, last, lastSize)
		}
		last, lastSize = class, size
	}
	if last != classes-1 || lastSize != MaxSlab {
		t.Errorf("the last class is %d of %d, want %d of %d", last, lastSize, classes-1, MaxSlab)
	}
	if class, size := classOf(MaxSlab + 1); class != ownClass || size != MaxSlab+1 {
		t.Errorf("past the largest: class %d of %d", class, size)
	}
}

func TestPoolReuse(t *testing.T) {
	p := NewPool(PoolOptions{})
	a := p.Bytes(5000)
	if len(a.Bytes()) != 5000 || cap(a.Bytes()) != 5000 || a.Size() != 5120 || p.Size(5000) != 5120 {
		t.Fatalf("len %d, cap %d, size %d", len(a.Bytes()), cap(a.Bytes()), a.Size())
	}
	at := &a.Bytes()[0]
	a.Release()
	b := p.Bytes(5120)
	if &b.Bytes()[0] != at {
		t.Error("a slab of the same class is not used again")
	}
	b.Release()
	empty := p.Bytes(0)
	empty.Release()
	empty.Release()
	if empty.Bytes() != nil || empty.Size() != 0 {
		t.Error("an empty slab has bytes")
	}
	want := PoolStats{Calls: 2, Releases: 2, Made: 1, PeakBytes: 5120, Idle: 1, IdleBytes: 5120}
	if got := p.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}
}

// TestSlabMisuse uses handles whose loan is over, including copies, even after the memory was lent again: the
// other loan is unaffected.
func TestSlabMisuse(t *testing.T) {
	p := NewPool(PoolOptions{})
	misused := func() int64 { return p.Stats().Misused }
	a := p.Bytes(100)
	twin := a
	a.Release()
	expectMisuse(t, misused, "released twice", a.Release)
	b := p.Bytes(100)
	expectMisuse(t, misused, "released twice", twin.Release)
	expectMisuse(t, misused, "bytes of a released slab", func() {
		if got := twin.Bytes(); got != nil {
			t.Errorf("a released slab has bytes: %v", got)
		}
	})
	if len(b.Bytes()) != 100 {
		t.Error("the second loan is lost")
	}
	b.Release()
	if s := p.Stats(); s.OutBytes != 0 || s.Idle != 1 || s.Calls != 2 || s.Releases != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// TestOverwritten shows that with -tags invariants a view that outlives its slab reads nothing that resembles
// data.
func TestOverwritten(t *testing.T) {
	if !invariants {
		t.Skip("released memory is overwritten with -tags invariants only")
	}
	p := NewPool(PoolOptions{})
	a := p.Bytes(100)
	view := a.Bytes()
	copy(view, "data")
	a.Release()
	for i, b := range view {
		if b != stale {
			t.Fatalf("byte %d is %#x after the release", i, b)
		}
	}
}

func TestPoolBound(t *testing.T) {
	p := NewPool(PoolOptions{IdleBytes: 20 << 10})
	var slabs []Slab
	for range 4 {
		slabs = append(slabs, p.Bytes(8<<10))
	}
	slabs = append(slabs, p.Bytes(4<<10), p.Bytes(64<<10), p.Bytes(MaxSlab+1))
	for _, s := range slabs {
		s.Release()
	}
	// The last returned slabs are kept: two of 8 KiB and the one of 4 KiB; the large ones never.
	if s := p.Stats(); s.Idle != 3 || s.IdleBytes != 20<<10 || s.Oversize != 1 || s.OutBytes != 0 {
		t.Errorf("stats: %+v", s)
	}
	if got := p.Trim(4 << 10); got != 16<<10 {
		t.Errorf("trim: %d bytes went, want the two older slabs: 16 KiB", got)
	}
	if got := p.Trim(0); got != 4<<10 || p.Stats().Idle != 0 {
		t.Errorf("trim to nothing: %d bytes went, %d left", got, p.Stats().Idle)
	}
	none := NewPool(PoolOptions{IdleBytes: -1})
	none.Bytes(1).Release()
	if s := none.Stats(); s.Idle != 0 {
		t.Errorf("a pool that keeps nothing keeps %d", s.Idle)
	}
}

// TestPoolAge uses one slab of two all the time: the other is freed by the second call of Age.
func TestPoolAge(t *testing.T) {
	p := NewPool(PoolOptions{})
	a, b := p.Bytes(5000), p.Bytes(5000)
	a.Release()
	b.Release()
	if got := p.Age(); got != 0 {
		t.Fatalf("first call: %d bytes went", got)
	}
	p.Bytes(5000).Release()
	if got := p.Age(); got != 5120 || p.Stats().Idle != 1 {
		t.Errorf("second call: %d bytes went, %d slabs left, want the one that was not used to go", got, p.Stats().Idle)
	}
	if got := p.Age(); got != 5120 || p.Stats().Idle != 0 {
		t.Errorf("third call: %d bytes went, %d slabs left", got, p.Stats().Idle)
	}
}

// TestPoolModel borrows and returns at random from several goroutines: no two loans share memory, the
// counters agree, and idle slabs stay within the bound.
func TestPoolModel(t *testing.T) {
	const bound = 256 << 10
	p := NewPool(PoolOptions{IdleBytes: bound})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 4))
			var mine []Slab
			for step := range 3000 {
				if len(mine) < 8 && random.IntN(2) == 0 {
					s := p.Bytes(1 + random.IntN(50_000))
					for j, b := 0, s.Bytes(); j < len(b); j += 500 {
						b[j] = byte(i)
					}
					mine = append(mine, s)
				} else if len(mine) > 0 {
					k := random.IntN(len(mine))
					for j, b := 0, mine[k].Bytes(); j < len(b); j += 500 {
						if b[j] != byte(i) {
							t.Errorf("a slab of goroutine %d holds %d", i, b[j])
							break
						}
					}
					mine[k].Release()
					mine[k] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
				}
				switch step % 500 {
				case 200:
					p.Age()
				case 400:
					p.Trim(random.Int64N(bound))
				}
				if idle := p.Stats().IdleBytes; idle < 0 || idle > bound {
					t.Errorf("idle: %d bytes of %d", idle, bound)
				}
			}
			for _, s := range mine {
				s.Release()
			}
		})
	}
	testwait.Group(t, "the workers", &all)
	s := p.Stats()
	if s.Calls != s.Releases || s.OutBytes != 0 || s.Misused != 0 || s.Made >= s.Calls || s.PeakBytes == 0 {
		t.Errorf("stats: %+v", s)
	}
	p.Trim(0)
	if s := p.Stats(); s.Idle != 0 || s.IdleBytes != 0 {
		t.Errorf("stats after the trim: %+v", s)
	}
}
