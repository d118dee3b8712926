package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/DmitriyVTitov/size"
	"github.com/Yiling-J/theine-go"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/heaptest"
)

// A result is the size of one subject's values, in bytes: on the heap, and as estimated by each sizer.
type result struct {
	values          int
	accounted, heap int64
	node            float64 // nanoseconds of CPU per visited object

	byReflection, byOwn int64 // 0 where a sizer cannot size them

	byTheine, theineHeap int64 // a theine cache of the values: its estimate, and the heap of cache and values
}

// sized is the pointer type of a root.
type sized[T any] interface {
	*T
	CachedSize(*heapsize.Walk) (int64, error)
}

// A subject is one kind of values.
type subject struct {
	name, dir string
	measure   func(bytes int64) (result, error)
}

// A maker builds values of a subject and sizes them in other ways.
type maker[T any] struct {
	build  func(i int) (*T, error)
	detach bool              // the parser returns substrings of its text
	cost   func(i int) int64 // by a simple cost function: the root and the length of its text
	own    func(*T) int64    // by methods of the types; nil: they have none
}

// newSubject returns the subject of a root type.
func newSubject[T any, P sized[T]](name, dir string, m maker[T]) subject {
	return subject{name, dir, func(bytes int64) (result, error) { return measure[T, P](m, bytes) }}
}

func measure[T any, P sized[T]](m maker[T], bytes int64) (result, error) {
	weigh := func(values []*T) (sum int64, err error) {
		w := heapsize.Walk{Detach: m.detach}
		for _, v := range values {
			n, err := P(v).CachedSize(&w)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
	n, err := count(m, weigh, bytes)
	if err != nil {
		return result{}, err
	}
	var buildErr error
	build := func(i int) *T {
		v, err := m.build(i)
		if err != nil {
			buildErr = err
			return new(T)
		}
		return v
	}
	c, err := heaptest.Compare(n, build, weigh)
	kept := make([]*T, n) // Compare drops its values
	for i := range kept {
		kept[i] = build(i)
	}
	if err != nil || buildErr != nil {
		return result{}, fmt.Errorf("%w %w", err, buildErr)
	}
	r := result{values: n, accounted: c.Accounted, heap: c.Heap}
	if r.node, err = walkTime[T, P](kept); err != nil {
		return result{}, err
	}
	var overhead int64
	if r.byTheine, overhead, err = inTheine(kept, m.cost, bytes); err != nil {
		return result{}, err
	}
	r.theineHeap = r.heap + overhead
	for _, v := range kept {
		if m.own != nil {
			r.byOwn += m.own(v)
		}
		if got := size.Of(v); got > 0 {
			r.byReflection += int64(got)
		}
	}
	return r, nil
}

// inTheine fills a theine cache of a capacity with values. It returns the cache's estimate of its size, which
// its cost function determines, and the heap bytes of the cache besides the values.
func inTheine[T any](values []*T, cost func(i int) int64, capacity int64) (estimate, overhead int64, err error) {
	type entry struct {
		value *T
		i     int
	}
	before := heaptest.Live()
	cache, err := theine.NewBuilder[int, entry](capacity).Cost(func(e entry) int64 { return cost(e.i) }).Build()
	if err != nil {
		return 0, 0, fmt.Errorf("build theine: %w", err)
	}
	defer cache.Close()
	for i, v := range values {
		cache.Set(i, entry{v, i}, 0) // 0: the cost function decides
	}
	cache.Wait()
	if cache.Len() != len(values) {
		return 0, 0, fmt.Errorf("theine has %d of %d values", cache.Len(), len(values))
	}
	overhead = heaptest.Live() - before
	return int64(cache.EstimatedSize()), overhead, nil
}

// count returns the number of values that take about the given bytes.
func count[T any](m maker[T], weigh func([]*T) (int64, error), bytes int64) (int, error) {
	const sample = 100
	var values []*T
	for i := range sample {
		v, err := m.build(i)
		if err != nil {
			return 0, err
		}
		values = append(values, v)
	}
	sum, err := weigh(values)
	if err != nil {
		return 0, err
	}
	return int(max(1, bytes*sample/sum)), nil
}

// walkTime returns the median of the nanoseconds that a walk takes per visited object, in runs over
// all values.
func walkTime[T any, P sized[T]](values []*T) (float64, error) {
	var runs []float64
	for range 9 {
		var w heapsize.Walk
		objects := 0
		start, err := cpuTime()
		if err != nil {
			return 0, err
		}
		for _, v := range values {
			if _, err := P(v).CachedSize(&w); err != nil {
				return 0, err
			}
			objects += w.Objects()
		}
		end, err := cpuTime()
		if err != nil {
			return 0, err
		}
		runs = append(runs, float64((end-start).Nanoseconds())/float64(objects))
	}
	slices.Sort(runs)
	return runs[len(runs)/2], nil
}

// cpuTime returns the CPU time of the process, which other load affects less than wall time.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
