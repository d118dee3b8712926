package heaptest

import (
	"runtime"
	"runtime/debug"
)

// A Result is what values cost, in bytes.
type Result struct {
	Accounted int64 // as the size function says
	Heap      int64 // what the heap grew by
}

// Off returns by how many percent the account is above the heap, or below it.
func (r Result) Off() float64 {
	if r.Heap == 0 {
		return 0
	}
	return 100 * float64(r.Accounted-r.Heap) / float64(r.Heap)
}

// Compare has build make n values and size add them up, and returns what size says and what the heap
// grew by. What size changes, as by detaching strings, counts; what it allocates for itself must be
// free when it returns. Both are called once beforehand, so that they have what they keep.
func Compare[T any](n int, build func(i int) T, size func([]T) (int64, error)) (Result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if _, err := size([]T{build(0)}); err != nil {
		return Result{}, err
	}
	values := make([]T, 0, n)
	before := Live()
	for i := range n {
		values = append(values, build(i))
	}
	accounted, err := size(values)
	if err != nil {
		return Result{}, err
	}
	grown := Live() - before
	runtime.KeepAlive(values)
	return Result{Accounted: accounted, Heap: grown}, nil
}

// Live collects, and returns the bytes of the objects that are alive. It collects three times: what
// has a finalizer goes at the second, and pools let go of theirs.
func Live() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
