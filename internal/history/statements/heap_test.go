package statements_test

import (
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// heapInUse returns the bytes of live objects.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC() // of objects in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestHeapBytes compares the bytes of the counters that a request leaves with the heap, until they are dropped.
func TestHeapBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2000)
		r.start()
		for hour := range 2 {
			for n := range 1500 {
				r.call(n, time.Duration(1+hour)*time.Millisecond, false)
			}
			time.Sleep(50 * time.Minute)
		}
		read := func() {
			_, err := r.reader.Top(t.Context(), statements.TopQuery{From: r.options.Now().Add(-90 * time.Minute), To: r.options.Now(), Limit: 10})
			r.must(err)
		}
		read() // a first request allocates for good
		time.Sleep(31 * time.Second)
		if n := r.reader.HeapBytes(); n != 0 {
			t.Errorf("%d bytes half a minute after a request", n)
		}
		before := heapInUse()
		read()
		kept := heapInUse() - before
		if n := float64(r.reader.HeapBytes()); n < 200e3 || math.Abs(n-kept) > 0.05*kept {
			t.Errorf("%.0f bytes are counted, and the heap has grown by %.0f", n, kept)
		}
		time.Sleep(2 * time.Second)
		if n := r.reader.HeapBytes(); n < 200e3 {
			t.Errorf("%d bytes two seconds after a request", n)
		}
		time.Sleep(30 * time.Second)
		if n := r.reader.HeapBytes(); n != 0 {
			t.Errorf("%d bytes half a minute after a request", n)
		}
		r.stop()
	})
}
