package bytecache

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestConcurrent runs all operations concurrently; the bubble detects a hang. A value that a reader finds
// belongs to its key, and the final account adds up.
func TestConcurrent(t *testing.T) { synctest.Test(t, testConcurrent) }

func testConcurrent(t *testing.T) {
	c, err := New(Options[int, [2]int]{
		Capacity: 64 << 10,
		Size:     func(k int, _ [2]int) int64 { return int64(k % 512) },
		OnEvict: func(k int, v [2]int, _ Reason) {
			if v[0] != k {
				t.Errorf("evicted %d with value %v", k, v)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(11, uint64(w)))
			for i := range 4000 {
				k := rng.IntN(2000)
				var v [2]int
				ok := false
				switch op := rng.IntN(1000); {
				case op < 500:
					v, ok = c.Get(k)
				case op < 700:
					c.Set(k, [2]int{k, i})
				case op < 950:
					v, _ = c.Load(k, func() ([2]int, bool, error) { return [2]int{k, i}, i%9 != 0, nil })
					ok = true
				case op < 990:
					c.Delete(k)
				case op < 993:
					c.DeleteFunc(func(k int, _ [2]int) bool { return k%5 == 0 })
				case op < 994:
					c.Clear()
				case op < 996:
					if err := c.Resize(int64(32<<10 + rng.IntN(64<<10))); err != nil {
						t.Error(err)
					}
				case op < 998:
					for k, v := range c.All() {
						if v[0] != k {
							t.Errorf("All yields %d with value %v", k, v)
						}
					}
				default:
					if s := c.Stats(); s.Bytes > s.Capacity || len(c.Largest(3)) > 3 {
						t.Errorf("over capacity: %+v", s)
					}
				}
				if ok && v[0] != k {
					t.Errorf("key %d has value %v", k, v)
				}
			}
		})
	}
	wg.Wait()
	c.check(t)
}

// TestReadersAlwaysFind checks that a resident key is found at any time during other changes: reused slots,
// rebuilt and grown tables, and replacements of its value.
func TestReadersAlwaysFind(t *testing.T) { synctest.Test(t, testReadersAlwaysFind) }

func testReadersAlwaysFind(t *testing.T) {
	c := newTestCache(t, 64<<20)
	const stay, passing = 300, 20_000
	for k := range stay {
		c.Set(k, "a")
	}
	var readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 3 {
		readers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if v, ok := c.Get(i % stay); !ok || v != "a" && v != "b" {
					t.Errorf("key %d that stays has %q, %v", i%stay, v, ok)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(13, 13))
	for i := range 60_000 {
		switch k := stay + rng.IntN(passing); {
		case i%100 == 0:
			c.Set(rng.IntN(stay), "b")
		case i%3 == 0:
			c.Delete(k)
		case i%20_000 == 1:
			c.DeleteFunc(func(k int, _ string) bool { return k >= stay }) // shrinks the table
		default:
			c.Set(k, "passing")
		}
	}
	close(done)
	readers.Wait()
	c.check(t)
}

// TestNeverAboveCapacity reads the account while entries are replaced by larger ones, the table
// grows and the capacity shrinks: no read exceeds the capacity.
func TestNeverAboveCapacity(t *testing.T) {
	const most = 1 << 20
	c, err := New(Options[int, int64]{
		Capacity: most,
		MaxEntry: most / 2,
		Size:     func(_ int, v int64) int64 { return v },
	})
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var above int64
	var reads int
	var reader sync.WaitGroup
	reader.Go(func() {
		for !done.Load() {
			// The capacity is read first: it only decreases in this test.
			capacity := c.Capacity()
			above = max(above, c.Bytes()-capacity)
			reads++
		}
	})
	rng := rand.New(rand.NewPCG(13, 14))
	for i := range 60_000 {
		c.Set(rng.IntN(300), rng.Int64N(1+rng.Int64N(most/2)))
		if i%10_000 == 9_999 {
			if err := c.Resize(c.Capacity() * 9 / 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	done.Store(true)
	reader.Wait()
	if above > 0 {
		t.Errorf("in %d reads the cache was up to %d bytes above its capacity", reads, above)
	}
}

// TestNeverAboveCapacityWriters lets several goroutines replace, load and delete entries of many sizes, and reads
// the account between their operations, in OnEvict, and at all other times. With the tag invariants each charge is
// compared with the capacity.
func TestNeverAboveCapacityWriters(t *testing.T) {
	const most = 256 << 10
	var c *Cache[int, int64]
	var above, reads atomic.Int64
	read := func() {
		reads.Add(1)
		if over := c.Bytes() - most; over > 0 {
			above.Store(over)
		}
	}
	c, err := New(Options[int, int64]{
		Capacity: most,
		MaxEntry: most / 2,
		Size:     func(_ int, v int64) int64 { return v },
		OnEvict:  func(int, int64, Reason) { read() },
	})
	if err != nil {
		t.Fatal(err)
	}
	rounds := 4_000
	if testing.Short() {
		rounds = 500
	}
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				read()
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(17, uint64(w)))
			size := func() int64 { return rng.Int64N(1 + rng.Int64N(most/2)) }
			for range rounds {
				switch k := rng.IntN(200); rng.IntN(10) {
				case 0:
					c.Delete(k)
				case 1:
					if _, err := c.Load(k, func() (int64, bool, error) { return size(), true, nil }); err != nil {
						t.Error(err)
					}
				case 2:
					for range 200 { // grows the table, and makes many evictions of a replacement by a larger one
						c.Set(1000+rng.IntN(4000), 0)
					}
				default:
					c.Set(k, size())
				}
				read()
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	c.check(t)
	if s := c.Stats(); s.Replaced < uint64(rounds)/10 {
		t.Errorf("%d entries were replaced", s.Replaced)
	}
	if n := above.Load(); n > 0 {
		t.Errorf("in %d reads the cache was %d bytes above its capacity", reads.Load(), n)
	}
}
