package tsblock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testwait"
)

// TestHeapBytes loads and unloads the header of a block with many values: the accounted size follows the
// heap.
func TestHeapBytes(t *testing.T) {
	series := randomSeries(rand.New(rand.NewPCG(1, 1)), 200)
	for i := range 30_000 {
		series = append(series, testSeries{labels: labels.FromStrings("number", string(rune('a'+i%26))+labels.FromStrings("n", string(rune(i))).String())})
	}
	dir, name := writeIndex(t, series)
	e := newEnv(t)
	b := e.open(t, dir, name)
	if n := b.HeapBytes(); n != 0 {
		t.Errorf("%d bytes before it is loaded", n)
	}
	if err := b.Load(t.Context()); err != nil { // writes the local file
		t.Fatal(err)
	}
	b.Unload()
	// Garbage of earlier tests may be collected in between.
	testwait.UntilState(t, "the heap to grow by what the block says", func() (string, bool) {
		before := heapInUse()
		if err := b.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		grown, says := heapInUse()-before, b.HeapBytes()
		if says < 20_000 {
			t.Fatalf("a loaded block says %d bytes", says)
		}
		b.Unload()
		return fmt.Sprintf("a loaded block says %d bytes, the heap has grown by %d", says, grown), says >= grown*9/10 && says <= grown*11/10
	})
	if n := b.HeapBytes(); n != 0 {
		t.Errorf("%d bytes after it is unloaded", n)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
