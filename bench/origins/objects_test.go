package main

import (
	"runtime"
	"testing"
)

//go:noinline
func allocate(n int) (last *[100]byte) {
	for range n {
		last = new([100]byte)
		runtime.KeepAlive(last)
	}
	return last
}

// TestObjectProfile counts the allocations of a function.
func TestObjectProfile(t *testing.T) {
	rate := runtime.MemProfileRate
	t.Cleanup(func() { runtime.MemProfileRate = rate })
	countAllObjects()
	allocate(1)
	before := readObjectProfile()
	allocate(5000)
	p := readObjectProfile()
	p.subtract(before)
	const name = "github.com/taredb/tare/bench/origins.allocate"
	if n := p.By[name]; n != 5000 {
		t.Errorf("%d objects of %s, want 5000", n, name)
	}
	if p.Objects < 5000 || p.Loading != 0 {
		t.Errorf("%d objects, %d in loading", p.Objects, p.Loading)
	}
}
