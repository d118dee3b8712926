package bytecache_test

import (
	"testing"

	"github.com/taredb/tare/sizegen/bytecache"
)

func BenchmarkGetHit(b *testing.B) {
	type key [32]byte
	c, err := bytecache.New(bytecache.Options[key, *int]{
		Capacity: 32 << 20,
		Hash:     func(k key) uint64 { return uint64(k[0]) | uint64(k[1])<<8 | uint64(k[2])<<16 },
		Size:     func(key, *int) int64 { return 2048 },
	})
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]key, 8192)
	for i := range keys {
		keys[i] = key{byte(i), byte(i >> 8), 31: 1}
		if !c.Set(keys[i], new(int)) {
			b.Fatal("refused")
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := c.Get(keys[i&8191]); !ok {
			b.Fatal("miss")
		}
		i++
	}
}

func BenchmarkGetHitParallel(b *testing.B) {
	c, err := bytecache.New(bytecache.Options[[32]byte, int]{Capacity: 32 << 20, Hash: func(k [32]byte) uint64 { return uint64(k[0]) | uint64(k[1])<<8 }})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 8192 {
		c.Set([32]byte{byte(i), byte(i >> 8)}, i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, ok := c.Get([32]byte{byte(i), byte(i>>8) & 31}); !ok {
				b.Error("miss")
				return
			}
		}
	})
}

// BenchmarkSet sets new keys in a full cache: each enters the window, and another one leaves it and contends.
func BenchmarkSet(b *testing.B) {
	c, err := bytecache.New(bytecache.Options[uint64, *int]{
		Capacity: 32 << 20,
		Size:     func(uint64, *int) int64 { return 2000 },
	})
	if err != nil {
		b.Fatal(err)
	}
	v := new(int)
	for i := range uint64(40_000) {
		c.Set(i, v)
		c.Get(i)
	}
	b.ReportAllocs()
	n := uint64(1 << 32)
	for b.Loop() {
		c.Set(n, v)
		n++
	}
}

func BenchmarkLargest(b *testing.B) {
	c, err := bytecache.New(bytecache.Options[int, int]{Capacity: 32 << 20, Size: func(k, _ int) int64 { return int64(k*7919) % 3000 }})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 20_000 {
		c.Set(i, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(c.Largest(20)) != 20 {
			b.Fatal("too few")
		}
	}
}
