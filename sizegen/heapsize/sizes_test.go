package heapsize_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/internal/alloctest"
)

// liveDelta returns the growth of live memory through f.
func liveDelta(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// exactly checks that a hundred of f's objects occupy a hundred times want.
func exactly(t *testing.T, name string, want uintptr, f func()) {
	t.Helper()
	const copies = 100
	var got int64
	defer collectorOff()()
	for range 5 { // other goroutines may allocate
		got = heapDelta(func() {
			for range copies {
				f()
			}
		})
		if got == copies*int64(want) {
			return
		}
	}
	t.Errorf("%d × %s take %d bytes, said to be %d", copies, name, got, copies*int64(want))
}

var (
	anySink     any
	chanSink    chan int
	chanPtrSink chan *int
	sliceSink   [][3]*int
	byteSink    []byte
)

type pair struct {
	n int
	s string
}

func TestSlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		n := 16 + rng.IntN(3000)
		exactly(t, fmt.Sprintf("[][3]*int of %d", n), heapsize.Slice(make([][3]*int, n)), func() { sliceSink = make([][3]*int, n) })
		exactly(t, fmt.Sprintf("[]byte of %d", n), heapsize.Bytes(make([]byte, n)), func() { byteSink = make([]byte, n) })
		text := string(make([]byte, n))
		exactly(t, fmt.Sprintf("string of %d", n), heapsize.String(text), func() { anySink = nil; byteSink = []byte(text)[:0:n] })
	}
	s := make([]int, 2, 100)
	if got, want := heapsize.Slice(s), heapsize.Object(100*unsafe.Sizeof(0), false); got != want {
		t.Errorf("a slice of capacity 100 costs %d, want %d", got, want)
	}
}

func TestBoxed(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	small, large, text, empty := r.IntN(200), 1000+r.IntN(200), fmt.Sprint(r.IntN(1000)), fmt.Sprint()
	letter, p, none := byte(r.IntN(250)), new(int), []int(nil)
	array, float, zero := [3]int{r.IntN(9)}, 1.5+r.Float64(), r.Float64()*0
	value := pair{large, text}
	exactly(t, "any(small int)", heapsize.Boxed(small), func() { anySink = small })
	exactly(t, "any(string)", heapsize.Boxed(text), func() { anySink = text })
	exactly(t, `any("")`, heapsize.Boxed(empty), func() { anySink = empty })
	exactly(t, "any(byte)", heapsize.Boxed(letter), func() { anySink = letter })
	exactly(t, "any(pointer)", heapsize.Boxed(p), func() { anySink = p })
	exactly(t, "any(nil slice)", heapsize.Boxed(none), func() { anySink = none })
	exactly(t, "any(array)", heapsize.Boxed(array), func() { anySink = array })
	exactly(t, "any(0.0)", heapsize.Boxed(zero), func() { anySink = zero })
	exactly(t, "any(struct)", heapsize.Boxed(value), func() { anySink = value })
	exactly(t, "any(struct{})", heapsize.Boxed(struct{}{}), func() { anySink = struct{}{} })
	exactly(t, "any(struct of a pointer)", heapsize.Boxed(struct{ p *int }{p}), func() { anySink = struct{ p *int }{p} })
	// A boxed word without pointers is a tiny object: charged with the block it may keep alive.
	for _, got := range []uintptr{heapsize.Boxed(large), heapsize.Boxed(float)} {
		if got != 16 {
			t.Errorf("a boxed word costs %d, want 16", got)
		}
	}
}

func TestChan(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100, 1000} {
		exactly(t, fmt.Sprintf("chan int of %d", n), heapsize.Chan(n, unsafe.Sizeof(0), false), func() { chanSink = make(chan int, n) })
		exactly(t, fmt.Sprintf("chan *int of %d", n), heapsize.Chan(n, unsafe.Sizeof(0), true), func() { chanPtrSink = make(chan *int, n) })
	}
}

func TestHasPointers(t *testing.T) {
	for name, c := range map[string]struct{ got, want bool }{
		"int":               {heapsize.HasPointers[int](), false},
		"uintptr":           {heapsize.HasPointers[uintptr](), false},
		"string":            {heapsize.HasPointers[string](), true},
		"[0]*int":           {heapsize.HasPointers[[0]*int](), false},
		"[2][]int":          {heapsize.HasPointers[[2][]int](), true},
		"struct, plain":     {heapsize.HasPointers[struct{ a, b [4]float32 }](), false},
		"struct, deep":      {heapsize.HasPointers[struct{ a struct{ f func() } }](), true},
		"any":               {heapsize.HasPointers[any](), true},
		"map":               {heapsize.HasPointers[map[int]int](), true},
		"struct{complex64}": {heapsize.HasPointers[struct{ c complex64 }](), false},
	} {
		if c.got != c.want {
			t.Errorf("HasPointers of %s = %v", name, c.got)
		}
	}
}

func TestAllocs(t *testing.T) {
	m := map[string]int{"a": 1}
	shape := heapsize.ShapeOf[string, int]()
	var w heapsize.Walk
	text := fmt.Sprint("some text ", 1)
	mapBytes := heapsize.MapOf(shape, m)
	want := int64(mapBytes + heapsize.String(text))
	object := heapsize.Object(600, true)
	alloctest.PerThousand(t, "Object", 0, func() error { return expect(heapsize.Object(600, true), object) })
	alloctest.PerThousand(t, "Slice of words", 0, func() error { return expect(heapsize.Slice(byteSink[:0:0]), 0) })
	alloctest.PerThousand(t, "MapOf", 0, func() error { return expect(heapsize.MapOf(shape, m), mapBytes) })
	alloctest.PerThousand(t, "ShapeWith", 0, func() error {
		if heapsize.ShapeWith[string, int](true, false) != shape {
			return fmt.Errorf("shapes differ")
		}
		return nil
	})
	alloctest.PerThousand(t, "warm Walk", 0, func() error {
		w.Reset()
		heapsize.WalkMap(&w, m, shape)
		w.String(&text)
		return expect(w.Finish(), want)
	})
}

func expect[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}
