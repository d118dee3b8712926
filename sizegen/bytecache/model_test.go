package bytecache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// check compares the redundant parts of the cache's state, and fails the test if they disagree.
func (c *Cache[K, V]) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	tab := c.table.Load()
	sum, live := c.overhead, 0
	for s := window; s < segments; s++ {
		var bytes int64
		var last *node[K, V]
		for n := c.lists[s].head; n != nil; last, n = n, n.next {
			if n.segment != s || n.prev != last || tab.find(n.hash, n.key) != n {
				t.Fatalf("node %v is linked wrongly in segment %d", n.key, s)
			}
			bytes += n.bytes
			live++
		}
		if c.lists[s].tail != last || c.lists[s].bytes != bytes {
			t.Fatalf("segment %d says %d bytes and holds %d", s, c.lists[s].bytes, bytes)
		}
		sum += bytes
	}
	var inTable, full, deleted int
	tab.all(func(*node[K, V]) bool { inTable++; return true })
	for i := range tab.groups {
		for l := range groupSlots {
			switch tag := tab.groups[i].control.Load() >> (8 * l) & 0xff; {
			case tag == tagDeleted:
				deleted++
			case tag != tagEmpty:
				full++
			}
		}
	}
	if inTable != live || full != live || tab.live != live || tab.free != tableRoom(len(tab.groups))-full-deleted || tab.free < 0 {
		t.Fatalf("lists hold %d nodes; table %d, tags %d, live %d, free %d, deleted %d", live, inTable, full, tab.live, tab.free, deleted)
	}
	if want := c.fixedBytes + structureBytes[K, V](len(tab.groups)); c.overhead != want || len(c.sketch.words) != wordsPerGroup*len(tab.groups) {
		t.Fatalf("overhead %d, want %d; sketch of %d words for %d groups", c.overhead, want, len(c.sketch.words), len(tab.groups))
	}
	if got := c.bytes.Load(); got != sum || got > c.capacity.Load() {
		t.Fatalf("account says %d bytes, parts add up to %d, capacity %d", got, sum, c.capacity.Load())
	}
}

// TestModel performs random operations on the cache and on a map. The cache may drop entries; those it has
// equal the map's, and its account is exact after each operation.
func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			keys := 1 + rng.IntN(1<<(1+rng.IntN(12)))
			largest := 1 + rng.Int64N(1<<(1+rng.IntN(14)))
			weakHash := rng.IntN(8) == 0
			type value struct{ serial, owned int64 }
			model := map[int]value{}
			left := map[Reason]int{}
			o := Options[int, value]{
				Size: func(_ int, v value) int64 { return v.owned },
				OnEvict: func(k int, v value, why Reason) {
					left[why]++
				},
			}
			o.Hash = func(k int) uint64 { return uint64(k) * (2*seed + 1) << 7 }
			if weakHash {
				o.Hash = func(k int) uint64 { return uint64(k) / 16 }
			}
			o.Capacity = 8<<10 + rng.Int64N(1<<(10+rng.IntN(10)))
			if rng.IntN(3) == 0 {
				o.MaxEntry = 200 + rng.Int64N(2*o.Capacity)
			}
			c, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			for serial := range int64(3000) {
				k := rng.IntN(keys)
				switch op := rng.IntN(100); {
				case op < 45:
					v, ok := c.Get(k)
					if want, held := model[k]; ok && (!held || v != want) {
						t.Fatalf("Get(%d) = %v, the model has %v, %v", k, v, want, held)
					}
				case op < 80:
					v := value{serial, rng.Int64N(largest)}
					took := c.Set(k, v)
					got, ok := c.Get(k)
					if took != ok || ok && got != v {
						t.Fatalf("Set(%d) = %v, and then Get = %v, %v", k, took, got, ok)
					}
					delete(model, k)
					if took {
						model[k] = v
					}
				case op < 90:
					made := value{serial, rng.Int64N(largest)}
					want := made
					if v, ok := c.Get(k); ok {
						want = v
					}
					v, err := c.Load(k, func() (value, bool, error) { return made, serial%5 != 0, nil })
					if err != nil || v != want {
						t.Fatalf("Load(%d) = %v, %v, want %v", k, v, err, want)
					}
					delete(model, k)
					if _, ok := c.Get(k); ok {
						model[k] = v
					}
				case op < 97:
					_, held := c.Get(k)
					if got := c.Delete(k); got != held {
						t.Fatalf("Delete(%d) = %v, held %v", k, got, held)
					}
					delete(model, k)
				case op == 97:
					c.DeleteFunc(func(k int, _ value) bool { return k%3 == 0 })
					for k := range model {
						if k%3 == 0 {
							delete(model, k)
						}
					}
				case op == 98 && serial%8 == 0:
					c.Clear()
					clear(model)
				case op == 99:
					if err := c.Resize(8<<10 + rng.Int64N(1<<(10+rng.IntN(10)))); err != nil {
						t.Fatal(err)
					}
				}
				c.check(t)
			}
			n := 0
			for k, v := range c.All() {
				if model[k] != v {
					t.Fatalf("All yields %d: %v, the model has %v", k, v, model[k])
				}
				n++
			}
			s := c.Stats()
			if s.Entries != n || s.Bytes != c.Bytes() {
				t.Fatalf("Stats says %d entries, All yields %d", s.Entries, n)
			}
			var gone uint64
			for _, r := range Reasons() {
				if uint64(left[r]) != s.Evicted[r] {
					t.Errorf("OnEvict was told of %d for %s, Stats has %d", left[r], r, s.Evicted[r])
				}
				gone += s.Evicted[r]
			}
			if s.Inserted+s.Replaced-gone != uint64(n) {
				t.Errorf("%d inserted, %d replaced, %d gone, %d there", s.Inserted, s.Replaced, gone, n)
			}
		})
	}
}
