package cache

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

const budget = 32 << 20

// A trace is a sequence of keys by number.
type trace struct {
	name string
	keys func() []uint64
}

const accesses = 1_000_000

var traces = []trace{
	{"zipf", func() []uint64 { return zipf(1.01, 0, 0) }},
	{"zipf+scans", func() []uint64 { return zipf(1.01, 40_000, 0) }},
	{"zipf+scans+drift", func() []uint64 { return zipf(1.01, 40_000, 100_000) }},
}

// zipf draws keys from 300,000 by popularity. If scan is not 0, one-off keys are mixed one to one with the
// others after every 100,000 accesses; after every drift accesses, other keys become the popular ones.
func zipf(s float64, scan, drift int) []uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(rng, s, 20, 300_000)
	keys := make([]uint64, 0, accesses)
	oneOff := uint64(1 << 40)
	var shift uint64
	for i := 0; len(keys) < accesses; i++ {
		if drift > 0 && i%drift == drift-1 {
			shift += 100 // the next hundred keys become the most popular
		}
		keys = append(keys, z.Uint64()+shift)
		if i%100_000 < scan {
			oneOff++
			keys = append(keys, oneOff)
		}
	}
	return keys
}

// body returns the size of a key's plan: 300 bytes to 8 KiB, most of them small.
func body(k uint64) int {
	h := (k ^ k>>31) * 0x9E3779B97F4A7C15
	return 300 + int(h>>33)%(200<<(h>>60%6))
}

func run(c cache, keys []uint64) (hits int) {
	for _, n := range keys {
		k := makeKey(n)
		if c.get(k) {
			hits++
			continue
		}
		c.set(k, &plan{make([]byte, body(n))})
	}
	c.settle()
	return hits
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHitRatio gives each cache 32 MiB, measures the heap that it uses, and adjusts its capacity such that
// all use 32 MiB of heap.
func TestHitRatio(t *testing.T) {
	fmt.Printf("%-18s %-10s %10s %14s %12s %10s\n", "trace", "cache", "told", "heap it takes", "told again", "hits")
	for _, tr := range traces {
		keys := tr.keys()
		ratios := map[string]float64{}
		for _, s := range subjects {
			capacity := int64(budget)
			var taken []int64
			var hits int
			for range 3 {
				idle := heapInUse()
				c := s.make(capacity)
				hits = run(c, keys)
				heap := heapInUse() - idle
				taken = append(taken, heap)
				c.close()
				if heap < budget*1005/1000 && heap > budget*995/1000 {
					break
				}
				capacity = int64(float64(capacity) * budget / float64(heap))
			}
			ratios[s.name] = float64(hits) / float64(len(keys))
			fmt.Printf("%-18s %-10s %10s %14s %12s %9.2f%%\n", tr.name, s.name, "32.00 MiB", mib(taken[0]), mib(taken[len(taken)-1]), 100*ratios[s.name])
		}
		if ratios["bytecache"] < ratios["lru"] {
			t.Errorf("%s: bytecache has fewer hits (%.4f) than a plain LRU (%.4f)", tr.name, ratios["bytecache"], ratios["lru"])
		}
	}
}

func mib(n int64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }

// BenchmarkTrace runs whole traces, including the creation of plans on misses.
func BenchmarkTrace(b *testing.B) {
	keys := traces[1].keys()
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			hits, i := 0, 0
			c := s.make(budget)
			defer c.close()
			for b.Loop() {
				n := keys[i%len(keys)]
				i++
				if k := makeKey(n); c.get(k) {
					hits++
				} else {
					c.set(k, &plan{make([]byte, body(n))})
				}
			}
			b.ReportMetric(100*float64(hits)/float64(i), "hits%")
		})
	}
}

// hotKeys fills c and returns 4,096 keys that it contains.
func hotKeys(b *testing.B, c cache) []key {
	var keys []key
	for i := range uint64(6000) {
		k := makeKey(i)
		for range 4 { // a doorkeeper admits a key on its second access
			if !c.get(k) {
				c.set(k, &plan{make([]byte, 1000)})
			}
		}
	}
	c.settle()
	for i := range uint64(6000) {
		if k := makeKey(i); c.get(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) < 4096 {
		b.Fatalf("only %d of 6,000 keys are held, though all fit", len(keys))
	}
	return keys[:4096]
}

func BenchmarkHit(b *testing.B) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			c := s.make(budget)
			defer c.close()
			keys := hotKeys(b, c)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !c.get(keys[i&4095]) {
					b.Fatal("missed")
				}
				i += 7
			}
		})
	}
}

func BenchmarkHitParallel(b *testing.B) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			c := s.make(budget)
			defer c.close()
			keys := hotKeys(b, c)
			b.ReportAllocs()
			var worker atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(worker.Add(1)) * 1001 & 4095; pb.Next(); i += 7 {
					if !c.get(keys[i&4095]) {
						b.Error("missed")
						return
					}
				}
			})
		})
	}
}
