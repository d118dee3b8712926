// Package heaptest compares the result of a size function with the heap bytes of the values.
//
//	r, err := heaptest.Compare(1000, newPlan, func(plans []*Plan) (sum int64, err error) {
//		var w heapsize.Walk
//		for _, p := range plans {
//			n, err := p.CachedSize(&w)
//			…
//		}
//	})
//	fmt.Printf("%d bytes accounted, %d real, %+.2f %%\n", r.Accounted, r.Heap, r.Off())
//
// [Random] and [Real] are for the tests that sizegen -measure generates.
//
// # Terms
//
// Heap bytes are those of live objects: the growth of runtime.MemStats.HeapAlloc between two points
// at which the collector has just run. A [Filler] sets values at random, unexported fields included.
//
// # Limits
//
// Compare switches the collector off and measures the whole process, so nothing else should allocate
// meanwhile: other goroutines are counted. A Filler does not maintain invariants of the types that it fills;
// such values are for measuring, not for use.
package heaptest
