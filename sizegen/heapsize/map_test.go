package heapsize_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A mapCase builds maps of one type by random histories, and returns them with their computed cost.
type mapCase struct {
	name  string
	build func(rng *rand.Rand, history []int) (keep any, said int64)
}

// filled returns a case for map[K]V. A history alternates between the number of entries to add and the number
// per thousand to delete.
func filled[K comparable, V any](name string, key func(uint64) K) mapCase {
	return mapCase{name, func(rng *rand.Rand, history []int) (any, int64) {
		shape := heapsize.ShapeOf[K, V]()
		var m map[K]V
		if rng.IntN(2) == 0 {
			m = make(map[K]V, rng.IntN(1+history[0]))
		} else {
			m = make(map[K]V)
		}
		for i, n := range history {
			if i%2 == 0 {
				for range n {
					m[key(rng.Uint64())] = *new(V)
				}
				continue
			}
			for k := range m {
				if rng.IntN(1000) < n {
					delete(m, k)
				}
			}
		}
		return m, int64(heapsize.MapOf(shape, m))
	}}
}

func TestMapAgainstHeap(t *testing.T) {
	if !heapsize.MapsExact() {
		t.Fatal("the map layout of this Go release is not the one that was read: maps are estimated")
	}
	type wide struct{ a [17]uint64 }
	type widePointer struct {
		_ *int
		_ [16]uint64
	}
	cases := []mapCase{
		filled[uint64, uint64]("uint64/uint64", func(u uint64) uint64 { return u }),
		filled[uint32, *int]("uint32/pointer", func(u uint64) uint32 { return uint32(u) }),
		filled[uint64, struct{}]("uint64/struct{}", func(u uint64) uint64 { return u }),
		filled[uint16, bool]("uint16/bool", func(u uint64) uint16 { return uint16(u) }),
		filled[uint64, string]("uint64/string", func(u uint64) uint64 { return u }),
		filled[[2]uint64, [5]string]("[2]uint64/[5]string", func(u uint64) [2]uint64 { return [2]uint64{u} }),
		filled[uint64, [16]uint64]("uint64/128 bytes", func(u uint64) uint64 { return u }),
		filled[uint64, wide]("uint64/136 bytes", func(u uint64) uint64 { return u }),
		filled[wide, widePointer]("136 bytes/136 bytes", func(u uint64) wide { return wide{[17]uint64{u}} }),
		filled[wide, uint8]("136 bytes/uint8", func(u uint64) wide { return wide{[17]uint64{u}} }),
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 15 {
				history := make([]int, 1+rng.IntN(4))
				for i := range history {
					history[i] = rng.IntN(1 << (1 + rng.IntN(13)))
					if i%2 == 1 {
						history[i] = rng.IntN(1001)
					}
				}
				var said int64
				measure := func() int64 {
					keep := make([]any, 4)
					said = 0
					// Building leaves garbage: only live memory counts.
					grew := liveDelta(func() {
						for i := range keep {
							var n int64
							keep[i], n = c.build(rng, history)
							said += n
						}
					})
					for i := range keep { // keep the maps until here
						keep[i] = nil
					}
					return grew
				}
				grew := measure()
				for try := 0; off(grew, said) && try < 3; try++ { // another goroutine's allocation
					grew = measure()
				}
				if off(grew, said) {
					t.Errorf("maps with history %v take %d bytes, Map says %d", history, grew, said)
				}
			}
		})
	}
}

// off reports whether the two differ by more than one percent, or by the memory that the measurement itself
// leaves if that is more.
func off(grew, said int64) bool {
	const waiting = 112 // a runtime.sudog of Go 1.26, with which the measurement waits for the collector
	diff := grew - said
	return max(diff, -diff) > max(said/100, waiting)
}

func TestMapSmall(t *testing.T) {
	const word = unsafe.Sizeof(0)
	if got := heapsize.Map(map[int]int(nil)); got != 0 {
		t.Errorf("a nil map costs %d", got)
	}
	m := map[int]int{}
	sink = m
	if got, want := heapsize.Map(m), heapsize.Object(16+4*word, true); got != want {
		t.Errorf("an empty map costs %d, want its header of %d", got, want)
	}
	m[1] = 1
	if got, want := heapsize.Map(m), heapsize.Object(16+4*word, true)+heapsize.Object(8+8*2*word, false); got != want {
		t.Errorf("a map of one entry costs %d, want header and one group, %d", got, want)
	}
}
