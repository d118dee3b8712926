package zoo_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/internal/alloctest"
	. "github.com/taredb/tare/sizegen/internal/zoo"
	"github.com/taredb/tare/sizegen/internal/zoo/habitat"
	"github.com/taredb/tare/sizegen/internal/zoo/parts"
)

// live returns the bytes of live objects. The caller has switched the collector off, so that only these
// collections happen.
func live() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// warmUp makes heapsize learn the allocator, and the collector start its workers.
func warmUp(t *testing.T) {
	t.Helper()
	if _, err := newBuilder(1).cage(1).CachedSize(&heapsize.Walk{Detach: true}); err != nil {
		t.Fatal(err)
	}
	live()
}

// TestWalkAgainstHeap builds random cages and compares the walks' sum with the growth of the heap.
func TestWalkAgainstHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	warmUp(t)
	for _, mode := range []struct {
		name         string
		detach, tiny bool
	}{
		{"count", false, false},
		{"detach", true, false},
		// Tiny objects of several cages share blocks: one walk over all of them counts
		// each block once.
		{"count tiny", false, true},
		{"detach tiny", true, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			for seed := range uint64(4) {
				sum, grown := attempts(func() (sum, grown int64) {
					return measure(t, seed, mode.detach, mode.tiny)
				})
				t.Logf("seed %d: walked %d, heap %d, %+.4f %%", seed, sum, grown, 100*float64(sum-grown)/float64(grown))
				if !near(sum, grown) {
					t.Errorf("seed %d: walked %d bytes, the heap grew by %d", seed, sum, grown)
				}
			}
		})
	}
}

// near allows for the runtime's allocations: an occasional object, and the table of the strings of one byte;
// some 200 bytes either way, of megabytes.
func near(walked, grown int64) bool { return walked-512 <= grown && grown <= walked+512 }

// attempts measures again, up to twice, if the sizes differ: a goroutine that the runtime starts or ends
// between two readings is some kilobytes. A wrong size stays wrong.
func attempts(measure func() (walked, grown int64)) (walked, grown int64) {
	for range 3 {
		if walked, grown = measure(); near(walked, grown) {
			break
		}
	}
	return walked, grown
}

// measure builds cages, and returns the walks' sum and the growth of the heap.
func measure(t *testing.T, seed uint64, detach, tiny bool) (walked, grown int64) {
	t.Helper()
	const copies = 20
	cages := make([]*Cage, copies)
	before := live()
	for i := range cages {
		b := newBuilder(seed)
		b.tiny = tiny
		cages[i] = b.cage(2)
	}
	w := &heapsize.Walk{Detach: detach}
	for _, c := range cages {
		if tiny {
			c.WalkHeap(w)
			continue
		}
		n, err := c.CachedSize(w)
		if err != nil {
			t.Fatal(err)
		}
		walked += n
	}
	if tiny {
		walked = w.Finish()
	}
	w = nil
	grown = live() - before
	runtime.KeepAlive(cages)
	return walked, grown
}

// TestDetachLetsTheTextGo makes all strings of a cage substrings of one text, and drops the text.
func TestDetachLetsTheTextGo(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const textBytes = 2 << 20
	warmUp(t)
	for seed := range uint64(5) {
		walked, grown := attempts(func() (walked, grown int64) {
			before := live()
			b := newBuilder(seed)
			raw := make([]byte, textBytes)
			for i := range raw {
				raw[i] = 'a' + byte(i*7%26) ^ byte(i>>12)
			}
			b.text = string(raw)
			c := b.cage(2)
			name := []byte(c.Name)
			b, raw = nil, nil
			if held := live() - before; held < textBytes {
				t.Fatalf("seed %d: %d bytes held before detaching: the strings do not pin the text", seed, held)
			}
			walked, err := c.CachedSize(&heapsize.Walk{Detach: true})
			if err != nil {
				t.Fatal(err)
			}
			grown = live() - before
			if c.Name != string(name) {
				t.Errorf("seed %d: name is %q, was %q", seed, c.Name, name)
			}
			again, err := c.CachedSize(&heapsize.Walk{Detach: true})
			if err != nil || again != walked {
				t.Errorf("seed %d: detached again: %d bytes, %v; were %d", seed, again, err, walked)
			}
			runtime.KeepAlive(c)
			return walked, grown
		})
		if !near(walked, grown) {
			t.Errorf("seed %d: heap grew by %d bytes with the text dropped, walked %d", seed, grown, walked)
		}
	}
}

// TestDetachKeepsTheValue compares a detached cage with its twin.
func TestDetachKeepsTheValue(t *testing.T) {
	for seed := range uint64(20) {
		want, got := newBuilder(seed).cage(0), newBuilder(seed).cage(0)
		if _, err := got.CachedSize(&heapsize.Walk{Detach: true}); err != nil {
			t.Fatal(err)
		}
		// DeepEqual compares the addresses of values it cannot inspect.
		if a, b := want.Current.Load(), got.Current.Load(); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: current is %v, was %v", seed, b, a)
		}
		for _, c := range []*Cage{want, got} {
			c.Less, c.Ticks = nil, nil
			c.Current.Store(nil)
		}
		equalSynced(t, &want.Synced, &got.Synced)
		for i := range want.Zones {
			if a, b := want.Zones[i].String(), got.Zones[i].String(); a != b {
				t.Errorf("seed %d: zone %d is %s, was %s", seed, i, b, a)
			}
		}
		want.Zones, got.Zones = nil, nil
		if !reflect.DeepEqual(want, got) {
			t.Errorf("seed %d: the cage is another one", seed)
		}
	}
}

// equalSynced compares the keys and elements of two maps, and leaves both empty in the same state.
func equalSynced(t *testing.T, want, got *sync.Map) {
	t.Helper()
	left := 0
	want.Range(func(k, v any) bool {
		if other, ok := got.LoadAndDelete(k); !ok || !reflect.DeepEqual(v, other) {
			t.Errorf("synced: %v has %v, %t, had %v", k, other, ok, v)
		}
		return true
	})
	got.Range(func(any, any) bool { left++; return true })
	if left > 0 {
		t.Errorf("synced: %d entries more", left)
	}
	for _, m := range []*sync.Map{want, got} {
		reflect.ValueOf(m).Elem().SetZero()
	}
}

type stranger struct{ Shape }

// TestUnknownDynamicType uses a type that sizegen could not find: it is declared in a test.
func TestUnknownDynamicType(t *testing.T) {
	const cage = "size of github.com/taredb/tare/sizegen/internal/zoo.Cage."
	for _, c := range []struct {
		name string
		cage *Cage
		want string
	}{
		{"interface", &Cage{Shape: stranger{}}, cage + "Shape: no walk is known for the dynamic type zoo_test.stranger"},
		{"any", &Cage{Any: struct{}{}}, cage + "Any: no walk is known for the dynamic type struct {}"},
		{"listed", &Cage{Either: 1}, cage + "Either: no walk is known for the dynamic type int"},
		{"other package", &Cage{Animal: struct{ Animal }{}}, cage + "Animal: no walk is known for the dynamic type struct { zoo.Animal }"},
		{"embedded", &Cage{Animal: struct{ *habitat.Dog }{}}, cage + "Animal: no walk is known for the dynamic type struct { *habitat.Dog }"},
		{"NaN", &Cage{Sparse: map[float64]string{math.NaN(): "a"}}, "size of map[float64]string: a NaN key's strings cannot be detached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Repeat("x", 100)
			c.cage.Name = text[10:20]
			n, err := c.cage.CachedSize(&heapsize.Walk{Detach: true})
			var e *heapsize.Error
			if n != 0 || !errors.As(err, &e) || err.Error() != c.want {
				t.Errorf("got %d, %v; want %s", n, err, c.want)
			}
			if unsafe.StringData(c.cage.Name) != unsafe.StringData(text[10:20]) {
				t.Error("a walk that stopped has changed the value")
			}
		})
	}
}

// TestSharedBox detaches boxes that two variables share.
func TestSharedBox(t *testing.T) {
	text := strings.Repeat("y", 1000)
	var box Shape = Square{1, text[10:30]}
	c := &Cage{Shape: box, Shapes: []Shape{box, box}, Name: text[:20]}
	if _, err := c.CachedSize(&heapsize.Walk{Detach: true}); err != nil {
		t.Fatal(err)
	}
	for i, s := range append(c.Shapes, c.Shape) {
		name := s.(Square).Name
		if name != text[10:30] || unsafe.StringData(name) == unsafe.StringData(text[10:30]) {
			t.Errorf("shape %d: name %q still lies in the text", i, name)
		}
	}
}

func TestAllocs(t *testing.T) {
	c := newBuilder(3).cage(0)
	// Values walked as copies allocate: maps and boxes whose own bytes change.
	c.Counts, c.Names, c.Deep, c.ByPair, c.Big, c.Sparse, c.ByAny, c.ByShape = nil, nil, nil, nil, nil, nil, nil, nil
	c.Tree, c.Foreign, c.Part, c.Parts = nil, parts.Stack[Pair]{}, parts.Part{}, nil
	c.Shape, c.Shapes, c.Any, c.Anys, c.Either = &Circle{Name: "round"}, []Shape{&Circle{}, Unit(5), Polygon{"a"}}, 5, nil, c.Pair
	c.Animal, c.Animals = &habitat.Dog{Name: "dog"}, nil
	c.List.Init()
	c.Synced.Clear()
	walk := func(w *heapsize.Walk) func() error {
		return func() error {
			n, err := c.CachedSize(w)
			if err == nil && n < int64(unsafe.Sizeof(*c)) {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		}
	}
	alloctest.PerThousand(t, "count", 0, walk(new(heapsize.Walk)))
	alloctest.PerThousand(t, "detach: the arena", 1000, walk(&heapsize.Walk{Detach: true}))
}

func BenchmarkCachedSize(b *testing.B) {
	c := newBuilder(3).cage(2)
	for _, detach := range []bool{false, true} {
		b.Run(fmt.Sprintf("detach=%t", detach), func(b *testing.B) {
			w := &heapsize.Walk{Detach: detach}
			b.ReportAllocs()
			for b.Loop() {
				n, err := c.CachedSize(w)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
		})
	}
}

// TestLongLists walks structures for which recursion would require a large stack: lists, trees of maps,
// nested interfaces and slices. TestFollow in heapsize has a list of a million.
func TestLongLists(t *testing.T) {
	const depth = 100_000
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	keeper, tree, shape, nest := new(Keeper), new(Tree), Shape(&Circle{}), Nest{}
	var value any = "text"
	for range depth {
		keeper = &Keeper{Boss: keeper}
		tree = &Tree{Up: tree}
		shape = &Group{Of: []Shape{shape}}
		nest = Nest{nest}
		value = []any{value}
	}
	object := func(size uintptr) int64 { return int64(heapsize.Object(size, true)) }
	word := unsafe.Sizeof(0)
	for _, c := range []struct {
		name string
		cage *Cage
		node int64
	}{
		{"list", &Cage{Keeper: keeper}, object(unsafe.Sizeof(Keeper{}))},
		{"tree", &Cage{Tree: tree}, object(unsafe.Sizeof(Tree{}))},
		{"interfaces", &Cage{Shape: shape}, object(unsafe.Sizeof(Group{})) + object(2*word)},
		{"slices", &Cage{Nested: nest}, object(3 * word)},
		{"any", &Cage{Any: value}, object(3*word) + object(2*word)},
	} {
		for _, detach := range []bool{false, true} {
			n, err := c.cage.CachedSize(&heapsize.Walk{Detach: detach})
			if rest := n - depth*c.node; err != nil || rest < 0 || rest > 4096 {
				t.Errorf("%s, detach=%t: %d bytes, %v; want %d for the nodes alone", c.name, detach, n, err, depth*c.node)
			}
		}
	}
}
