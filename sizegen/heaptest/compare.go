package heaptest

import (
	"runtime"
	"runtime/debug"
)

// A Result is the size of values, in bytes.
type Result struct {
	Accounted int64 // returned by the size function
	Heap      int64 // growth of the heap
}

// Off returns the percentage by which the account exceeds the heap, negative if it is lower.
func (r Result) Off() float64 {
	if r.Heap == 0 {
		return 0
	}
	return 100 * float64(r.Accounted-r.Heap) / float64(r.Heap)
}

// Compare builds n values with build, sizes them with size, and returns that size and the bytes by which the heap
// shrinks when the values are dropped. Changes that size makes to the values, such as detached strings, count. Other
// allocations of the process do not, nor does memory that either function retains.
func Compare[T any](n int, build func(i int) T, size func([]T) (int64, error)) (Result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	values := make([]T, 0, n)
	for i := range n {
		values = append(values, build(i))
	}
	accounted, err := size(values)
	if err != nil {
		return Result{}, err
	}
	held := live()
	clear(values)
	freed := held - live()
	runtime.KeepAlive(values)
	return Result{Accounted: accounted, Heap: freed}, nil
}

// live runs the garbage collector and returns the bytes of live objects. It collects three times:
// objects with finalizers, and those that pools release, are freed at the second collection.
func live() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
