package slab

import (
	"fmt"
	"testing"
)

// BenchmarkEntries allocates the entries of a query in runs of 48, like a series' chunks, and releases them:
// for queries of 50 and of 1,000 series, by the number of entries in a slab, and from a pool of the process
// or one of the block (which is new after each of 20 queries: a process has more blocks than consecutive
// queries of the same block).
func BenchmarkEntries(b *testing.B) {
	for _, series := range []int{50, 1000} {
		for _, entries := range []int{1024, 4096, 16_384, 65_536} {
			for _, scope := range []string{"process", "block"} {
				b.Run(fmt.Sprintf("series=%d/entries=%d/pool=%s", series, entries, scope), func(b *testing.B) {
					o := EntriesOptions{SlabEntries: entries}
					e := NewEntries[ref](o)
					var queries, calls, peak int64
					b.ReportAllocs()
					for b.Loop() {
						if scope == "block" && queries%20 == 0 {
							e = NewEntries[ref](o)
						}
						before := e.Stats().Calls
						a := e.Arena()
						for i := range series {
							run := a.Make(48)
							for j := range run {
								run[j] = ref{offset: uint64(i), from: int32(j)}
							}
						}
						peak = max(peak, a.Bytes())
						a.Release()
						calls += e.Stats().Calls - before
						queries++
					}
					b.ReportMetric(float64(calls)/float64(queries), "calls/op")
					b.ReportMetric(float64(peak)/float64(series*48*16), "held/used")
				})
			}
		}
	}
}

// BenchmarkPool lends and releases a slab.
func BenchmarkPool(b *testing.B) {
	p := NewPool(PoolOptions{})
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Bytes(1 << 20).Release()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Bytes(1 << 20).Release()
			}
		})
	})
}

func BenchmarkQuota(b *testing.B) {
	g := NewGate(GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	q, err := g.Admit(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Reserve(Chunks, 100); err != nil {
			b.Fatal(err)
		}
		q.Return(Chunks, 100)
	}
	q.Close()
}
