package heapsize_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// heapDelta returns the growth of the heap while f runs, in bytes. The collector must be off and its sweep
// complete. Reading the statistics flushes the allocator's caches.
func heapDelta(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc - before.HeapAlloc)
}

// collectorOff stops the collector until the function it returns is called.
func collectorOff() (on func()) {
	percent := debug.SetGCPercent(-1)
	runtime.GC()
	return func() { debug.SetGCPercent(percent) }
}

// sink makes a test's allocations escape to the heap.
var sink any

// allocation allocates one object of a random type of about size bytes, and returns its type.
func allocation(size int, pointers bool) reflect.Type {
	if !pointers {
		return reflect.ArrayOf(size, reflect.TypeFor[byte]())
	}
	// A pointer followed by bytes: any size is possible, not only whole words.
	return reflect.StructOf([]reflect.StructField{
		{Name: "P", Type: reflect.TypeFor[*byte]()},
		{Name: "B", Type: reflect.ArrayOf(size, reflect.TypeFor[byte]())},
	})
}

func TestObjectAgainstHeap(t *testing.T) {
	sizes := []int{1, 7, 8, 9, 15, 16, 17, 500, 503, 504, 505, 511, 512, 513, 520, 1016, 1017, 1024, 1025, 32752, 32753, 32760, 32761, 32767, 32768, 32769, 40960, 100_000}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		sizes = append(sizes, 1+rng.IntN(1<<(1+rng.IntN(16))))
	}
	const copies = 8
	keep := make([]unsafe.Pointer, copies)
	defer collectorOff()()
	for i, n := range sizes {
		if i%256 == 0 {
			runtime.GC()
		}
		for _, pointers := range []bool{false, true} {
			typ := allocation(n, pointers)
			if !pointers && n < 16 {
				continue // tiny: TestTinyObjects
			}
			want := int64(heapsize.Object(typ.Size(), pointers)) * copies
			measure := func() int64 {
				return heapDelta(func() {
					for i := range keep {
						keep[i] = reflect.New(typ).UnsafePointer()
					}
				})
			}
			got := measure()
			for try := 0; got != want && try < 5; try++ { // another goroutine's allocation
				got = measure()
			}
			if got != want {
				t.Errorf("%d objects of %d bytes, pointers %v: heap grew by %d, Object says %d", copies, typ.Size(), pointers, got, want)
			}
		}
	}
	runtime.KeepAlive(keep)
}

// TestObjectAllSizes compares every size up to two pages past the largest class with the capacity after
// append, which is the allocator's rounding.
func TestObjectAllSizes(t *testing.T) {
	const most = 48 << 10
	text := make([]byte, most)
	for n := 16; n <= most; n++ {
		if got, want := heapsize.Object(uintptr(n), false), cap(append([]byte(nil), text[:n]...)); got != uintptr(want) {
			t.Fatalf("Object(%d, false) = %d, a slice of that size gets %d", n, got, want)
		}
	}
}

func TestTinyObjects(t *testing.T) {
	const copies = 4096
	keep := make([]*[3]byte, copies)
	defer collectorOff()()
	var bytes, walked int64
	for range 5 { // another goroutine may allocate
		bytes = heapDelta(func() {
			for i := range keep {
				keep[i] = new([3]byte)
			}
		})
		var w heapsize.Walk
		for _, p := range keep {
			w.Enter(unsafe.Pointer(p), 3, false)
		}
		if walked = w.Finish(); walked >= bytes-64 && walked <= bytes+64 {
			break
		}
	}
	// The tiny allocator packs them; each one may keep its block alive.
	if charged := int64(heapsize.Object(3, false)) * copies; bytes > charged {
		t.Errorf("%d tiny objects took %d bytes, more than the %d charged", copies, bytes, charged)
	}
	if walked < bytes-64 || walked > bytes+64 {
		t.Errorf("a walk over them says %d, the heap %d", walked, bytes)
	}
	runtime.KeepAlive(keep)
}

func TestZeroSize(t *testing.T) {
	if got := heapsize.Object(0, false) + heapsize.Object(0, true) + heapsize.String("") + heapsize.Slice([]struct{}{{}}); got != 0 {
		t.Errorf("nothing costs %d bytes", got)
	}
}

func ExampleObject() {
	fmt.Println(heapsize.Object(33, false), heapsize.Object(1024, false), heapsize.Object(1024, true))
	// Output: 48 1024 1152
}
