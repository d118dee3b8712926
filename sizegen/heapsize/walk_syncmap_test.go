package heapsize_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/internal/alloctest"
)

func walkText(w *heapsize.Walk, x *any) {
	if s, ok := (*x).(string); ok && s != "" {
		if p := heapsize.Unbox(w, unsafe.Pointer(x), s, true); p != nil {
			w.String(p)
		}
	}
}

// TestWalkSyncMap compares maps of many sizes, with entries deleted and replaced, with the heap.
func TestWalkSyncMap(t *testing.T) {
	const copies = 30
	text := strings.Repeat("0123456789abcdef", 10)
	for _, detach := range []bool{false, true} {
		for _, n := range []int{0, 1, 2, 40, 1000} {
			var sum, grown int64
			var maps *[copies]sync.Map
			for range 5 { // the runtime may allocate for itself
				sum = 0
				maps = new([copies]sync.Map)
				w := heapsize.Walk{Detach: detach}
				grown = liveDelta(func() {
					for i := range maps {
						fillSyncMap(&maps[i], n, text)
						w.Reset()
						heapsize.WalkSyncMap(&w, &maps[i], walkText)
						heapsize.WalkSyncMap(&w, &maps[i], walkText)
						sum += w.Finish()
					}
					w = heapsize.Walk{}
				})
				if sum >= grown-8<<10 && sum <= grown+grown/200+8<<10 {
					break
				}
			}
			if sum < grown-8<<10 || sum > grown+grown/200+8<<10 {
				t.Errorf("detach=%t: %d maps of %d entries cost %d bytes, the heap grew by %d", detach, copies, n, sum, grown)
			}
			for i := range maps {
				for k := range n {
					want := strings.Repeat("v", 20+k%20)
					if v, ok := maps[i].Load(fmt.Sprintf("a key that is long: %d", 2*k+1)); !ok || v != want {
						t.Fatalf("detach=%t: key %d has %v, %t, want %s", detach, k, v, ok, want)
					}
				}
			}
			runtime.KeepAlive(maps)
		}
	}
}

// fillSyncMap leaves n of 2n entries in m, with replaced elements.
func fillSyncMap(m *sync.Map, n int, text string) {
	for k := range 2 * n {
		m.Store(fmt.Sprintf("a key that is long: %d", k), text[k%16:][:20])
	}
	for k := range n {
		m.Delete(fmt.Sprintf("a key that is long: %d", 2*k))
		m.Store(fmt.Sprintf("a key that is long: %d", 2*k+1), strings.Repeat("v", 20+k%20))
	}
}

func TestWalkSyncMapAllocs(t *testing.T) {
	var m sync.Map
	for k := range 100 {
		m.Store(fmt.Sprint(k), "value")
	}
	var w heapsize.Walk
	alloctest.PerThousand(t, "count", 0, func() error {
		w.Reset()
		heapsize.WalkSyncMap(&w, &m, walkText)
		if n := w.Finish(); n < 100*40 {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
}
