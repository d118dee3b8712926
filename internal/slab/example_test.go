package slab_test

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/slab"
)

func ExampleGate() {
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20}) // four at once
	quota, err := gate.Admit(context.Background())                              // waits for its turn
	if err != nil {
		fmt.Println(err)
		return
	}
	defer quota.Close()
	if err := quota.Reserve(slab.Chunks, 250<<20); err != nil {
		fmt.Println(err)
		return
	}
	defer quota.Return(slab.Chunks, 250<<20)
	fmt.Println(quota.Reserve(slab.Postings, 12<<20))
	// Output:
	// query bytes: postings ask for 12 MiB on top of 250 MiB, the limit is 256 MiB
}

func ExampleQuota() {
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	quota, err := gate.Admit(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer quota.Close()
	pool := slab.NewPool(slab.PoolOptions{})
	charge := pool.Size(100_000) // the size of the slab, not the requested size
	if err := quota.Reserve(slab.Chunks, charge); err != nil {
		fmt.Println(err)
		return
	}
	defer quota.Return(slab.Chunks, charge)
	s := pool.Bytes(100_000)
	defer s.Release()
	fmt.Println(len(s.Bytes()), "bytes for", quota.Used())
	// Output:
	// 100000 bytes for 114688
}

func ExamplePool() {
	pool := slab.NewPool(slab.PoolOptions{IdleBytes: 64 << 20})
	for range 3 {
		s := pool.Bytes(5000)
		copy(s.Bytes(), "bytes of a range")
		s.Release()
	}
	stats := pool.Stats()
	fmt.Println(stats.Calls, "calls,", stats.Made, "slab made,", stats.IdleBytes, "bytes idle")
	// Output:
	// 3 calls, 1 slab made, 5120 bytes idle
}

func ExampleEntries() {
	type chunk struct{ offset, length uint32 }
	entries := slab.NewEntries[chunk](slab.EntriesOptions{})
	arena := entries.Arena()
	defer arena.Release()
	for series := range 200 {
		run := arena.Make(48) // the chunks of a series, contiguous
		run[0] = chunk{offset: uint32(series), length: 900}
	}
	fmt.Println(entries.Stats().Calls, "calls for", 200*48, "entries")
	// Output:
	// 3 calls for 9600 entries
}
