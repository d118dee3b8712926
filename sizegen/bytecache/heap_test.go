package bytecache

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A thing is a value of many shapes, like a plan: a struct with an arena, a list and a map.
type thing struct {
	text  string
	list  []*[40]byte
	index map[uint32]*int
	next  *thing
}

var thingIndex = heapsize.ShapeOf[uint32, *int]()

func newThing(rng *rand.Rand) *thing {
	t := &thing{text: string(make([]byte, 16+rng.IntN(1<<rng.IntN(13))))}
	if rng.IntN(3) == 0 {
		t.list = make([]*[40]byte, rng.IntN(200))
		for i := range t.list {
			if rng.IntN(2) == 0 {
				t.list[i] = new([40]byte)
			}
		}
	}
	if rng.IntN(4) == 0 {
		t.index = make(map[uint32]*int)
		for range rng.IntN(100) {
			t.index[rng.Uint32()] = nil
		}
	}
	if rng.IntN(5) == 0 {
		t.next = newThing(rng)
	}
	return t
}

func (t *thing) heapBytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(*t), true) + heapsize.String(t.text) +
		heapsize.Array(uintptr(cap(t.list)), unsafe.Sizeof(t), true) + heapsize.MapOf(thingIndex, t.index)
	for _, p := range t.list {
		if p != nil {
			n += heapsize.Object(40, false)
		}
	}
	total := int64(n)
	if t.next != nil {
		total += t.next.heapBytes()
	}
	return total
}

func heapInUse() int64 {
	// Twice: the first cycle's sweep is accounted in the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHeapTruth fills a cache to its steady state and beyond, from several goroutines, and
// compares its account with the heap: while full, after Clear, and when dropped.
func TestHeapTruth(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	// The first round is for allocations that occur once per process and are not the cache's: the size
	// classes, the descriptors of goroutines and collector workers.
	for round, capacity := range []int64{1 << 20, 4 << 20, 32 << 20} {
		idle := heapInUse()
		c, err := New(Options[[16]byte, *thing]{
			Capacity: capacity,
			Hash:     func(k [16]byte) uint64 { return binary.LittleEndian.Uint64(k[:]) },
			Size:     func(_ [16]byte, v *thing) int64 { return v.heapBytes() },
		})
		if err != nil {
			t.Fatal(err)
		}
		truth := func(when string) {
			t.Helper()
			said, grew := c.Bytes(), heapInUse()-idle
			t.Logf("%s: heap %d, account %d (%+.3f %%), %d entries", when, grew, said, 100*float64(grew-said)/float64(said), c.Stats().Entries)
			if diff := grew - said; round > 0 && max(diff, -diff)*100 > said {
				t.Errorf("%s: the heap grew by %d bytes, the cache accounts for %d", when, grew, said)
			}
		}
		churn := func(workers int) {
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(capacity), uint64(w)))
					zipf := rand.NewZipf(rng, 1.1, 8, 1<<20)
					for range int(capacity>>9) / workers {
						var k [16]byte
						binary.LittleEndian.PutUint64(k[:], zipf.Uint64()*0x9E3779B97F4A7C15)
						switch rng.IntN(20) {
						case 0:
							c.Delete(k)
						case 1:
							c.Set(k, newThing(rng))
						default:
							if _, err := c.Load(k, func() (*thing, bool, error) { return newThing(rng), true, nil }); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
		}
		churn(1)
		truth("filled by one goroutine")
		if s := c.Stats(); s.Evicted[Capacity]+s.Evicted[Contest] == 0 {
			t.Errorf("the cache was never full: %+v", s)
		}
		churn(4)
		truth("churned by four")
		if err := c.Resize(capacity / 2); err != nil {
			t.Fatal(err)
		}
		truth("halved")
		c.Clear()
		if left := heapInUse() - idle; round > 0 && left > c.Bytes()+capacity/100 {
			t.Errorf("after Clear the heap keeps %d bytes, the cache accounts for %d", left, c.Bytes())
		}
		churn(2)
		truth("filled again")
		c.check(t)
		runtime.KeepAlive(c)
		c = nil
		// The runtime keeps the descriptors of the goroutines that have ended.
		if left := heapInUse() - idle; round > 0 && left > 16<<10 {
			t.Errorf("after the cache was dropped the heap keeps %d bytes more than before", left)
		}
	}
}

func TestHeapTruthEmpty(t *testing.T) {
	const copies = 1000
	idle := heapInUse()
	caches := make([]*Cache[[32]byte, *thing], copies)
	var said int64
	for i := range caches {
		c, err := New(Options[[32]byte, *thing]{
			Capacity: 1 << 20,
			Hash:     func(k [32]byte) uint64 { return binary.LittleEndian.Uint64(k[:]) },
			Size:     func(_ [32]byte, v *thing) int64 { return v.heapBytes() },
		})
		if err != nil {
			t.Fatal(err)
		}
		caches[i] = c
		said += c.Bytes()
	}
	grew := heapInUse() - idle - int64(heapsize.Slice(caches))
	if diff := grew - said; max(diff, -diff)*100 > said {
		t.Errorf("%d empty caches take %d bytes and account for %d", copies, grew, said)
	}
	runtime.KeepAlive(caches)
}
