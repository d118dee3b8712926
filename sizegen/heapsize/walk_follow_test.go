package heapsize_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A link is an element of a list; a nest contains itself by slice.
type (
	link struct {
		next  *link
		value [3]int
	}
	nest struct {
		kids []nest
		name string
	}
)

func walkLink(w *heapsize.Walk, p *link) {
	if q := p.next; w.Enter(unsafe.Pointer(q), unsafe.Sizeof(*q), true) {
		heapsize.Follow(w, walkLink, q)
	}
}

func walkNest(w *heapsize.Walk, p *nest) {
	if s := p.kids[:cap(p.kids)]; heapsize.WalkSlice(w, s, true) {
		for i := range s {
			heapsize.Follow(w, walkNest, &s[i])
		}
	}
	w.String(&p.name)
}

// TestFollow walks a list of a million nodes, a ring, and slices nested equally deep, for which recursion
// would exceed the stack.
func TestFollow(t *testing.T) {
	const nodes = 100_000 // a stack of 1 MiB has no room for a frame per node
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	list := new(link)
	for range nodes - 1 {
		list = &link{next: list}
	}
	var tree nest
	for range nodes {
		tree = nest{kids: []nest{tree}, name: "n"}
	}
	object := int64(heapsize.Object(unsafe.Sizeof(link{}), true))
	for _, detach := range []bool{false, true} {
		w := heapsize.Walk{Detach: detach}
		w.Enter(unsafe.Pointer(list), unsafe.Sizeof(*list), true)
		heapsize.Follow(&w, walkLink, list)
		if got := w.Finish(); got != nodes*object {
			t.Errorf("detach=%t: a list of %d nodes costs %d bytes, want %d", detach, nodes, got, nodes*object)
		}
		w.Reset()
		heapsize.Follow(&w, walkNest, &tree)
		least := nodes * int64(heapsize.Object(unsafe.Sizeof(nest{}), true))
		if got := w.Finish(); got < least || got > least+16 {
			t.Errorf("detach=%t: %d nested slices cost %d bytes, want %d", detach, nodes, got, least)
		}
	}
	ring := list
	for ring.next != nil {
		ring = ring.next
	}
	ring.next = list
	var w heapsize.Walk
	heapsize.Follow(&w, walkLink, list)
	if got := w.Finish(); got != nodes*object {
		t.Errorf("a ring of %d nodes costs %d bytes, want %d", nodes, got, nodes*object)
	}
}

// TestFollowError stops a walk with many pending values, and walks again.
func TestFollowError(t *testing.T) {
	list := new(link)
	for range 1000 {
		list = &link{next: list}
	}
	var w heapsize.Walk
	left := 900
	var stop func(w *heapsize.Walk, p *link)
	stop = func(w *heapsize.Walk, p *link) {
		if left--; left == 0 {
			w.Unknown("link", p)
		}
		if p.next != nil {
			heapsize.Follow(w, stop, p.next)
		}
	}
	err := func() (err error) {
		defer heapsize.Recover(&err)
		heapsize.Follow(&w, stop, list)
		return nil
	}()
	if err == nil {
		t.Fatal("the walk did not stop")
	}
	w.Reset()
	heapsize.Follow(&w, walkLink, list)
	if got, want := w.Finish(), 1000*int64(heapsize.Object(unsafe.Sizeof(link{}), true)); got != want {
		t.Errorf("walked again: %d bytes, want %d", got, want)
	}
}

// TestLocation compares zones with the heap; those of the process cost nothing.
func TestLocation(t *testing.T) {
	parsed, err := time.Parse(time.RFC3339, "2026-01-02T03:04:05+02:00")
	if err != nil {
		t.Fatal(err)
	}
	for _, loc := range []*time.Location{nil, time.UTC, time.Local, time.Now().Location(), time.Time{}.Location(), parsed.Location()} {
		var w heapsize.Walk
		w.Location(loc)
		if got := w.Finish(); got != 0 {
			t.Errorf("%v costs %d bytes", loc, got)
		}
	}
	var kept *time.Location
	size := func(loc *time.Location) uintptr {
		var w heapsize.Walk
		w.Detach = true
		w.Location(loc)
		w.Location(loc)
		return uintptr(w.Finish())
	}
	fixed := func() { kept = time.FixedZone("a zone of more than sixteen bytes"[:0], 3600+1800) }
	fixed()
	exactly(t, "FixedZone", size(kept), fixed)
	// A zone at the start of an object, and of its size.
	var w heapsize.Walk
	copied := []time.Location{*kept}
	heapsize.WalkSlice(&w, copied, true)
	w.LocationParts(&copied[0])
	if got, want := w.Finish(), int64(size(kept)); got != want {
		t.Errorf("a copy of a zone costs %d bytes, want %d", got, want)
	}

	// A thread that the runtime starts meanwhile takes some 5 KB, which are to be well below 1 %.
	const copies = 500
	zones := make([]*time.Location, copies)
	live := func() int64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	w.Reset()
	before := live()
	for i := range zones {
		if zones[i], err = time.LoadLocation("Europe/Berlin"); err != nil {
			t.Fatal(err)
		}
	}
	grown := live() - before
	for _, z := range zones {
		w.Location(z)
	}
	if got := w.Finish(); got < copies*1000 || off(got, grown) {
		t.Errorf("%d zones of Berlin cost %d bytes, the heap grew by %d", copies, got, grown)
	}
	runtime.KeepAlive(zones)
}

// TestInside walks parts of objects that are not reached as a whole.
func TestInside(t *testing.T) {
	type object struct {
		head  [10]int
		array [4]int32
		next  *object
	}
	const (
		whole = unsafe.Sizeof(object{})
		array = unsafe.Offsetof(object{}.array)
		next  = unsafe.Offsetof(object{}.next)
	)
	charged := int64(heapsize.Object(whole, true))
	// They are on the heap because the functions below refer to them. A stack that grows during the walk would be moved.
	a, b, more := new(object), new(object), make([]int32, 8)
	for _, c := range []struct {
		name string
		walk func(w *heapsize.Walk)
		want int64
	}{
		{"one part", func(w *heapsize.Walk) { heapsize.InsideSlice(w, a.array[:2], 4, array, whole, true) }, charged},
		{"two parts of one", func(w *heapsize.Walk) {
			heapsize.InsideSlice(w, a.array[2:], 4, array, whole, true)
			w.Inside(unsafe.Pointer(&a.next), unsafe.Sizeof(a.next), next, whole, true)
		}, charged},
		{"the whole as well", func(w *heapsize.Walk) {
			heapsize.InsideSlice(w, a.array[:], 4, array, whole, true)
			w.Enter(unsafe.Pointer(a), whole, true)
		}, charged},
		{"parts of two", func(w *heapsize.Walk) {
			heapsize.InsideSlice(w, a.array[:], 4, array, whole, true)
			w.Inside(unsafe.Pointer(&b.next), unsafe.Sizeof(b.next), next, whole, true)
		}, 2 * charged},
		{"an array of more", func(w *heapsize.Walk) {
			heapsize.InsideSlice(w, more, 4, array, whole, false)
		}, int64(heapsize.Object(32, false))},
		{"the end of an array of more", func(w *heapsize.Walk) {
			heapsize.InsideSlice(w, more[6:], 4, array, whole, false)
			heapsize.InsideSlice(w, more, 4, array, whole, false)
		}, int64(heapsize.Object(32, false))},
	} {
		var w heapsize.Walk
		c.walk(&w)
		if got := w.Finish(); got != c.want {
			t.Errorf("%s costs %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestInsideStarts allocates objects of many sizes: the start of each is recognized, and hardly any address
// within it.
func TestInsideStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var inner, wrong int
	for range 6000 {
		size, pointers := 16+rng.IntN(16<<rng.IntN(12)), rng.IntN(2) == 0
		typ := allocation(size, pointers)
		p := reflect.New(typ).UnsafePointer()
		sink = p
		var w heapsize.Walk
		w.Inside(p, 8, 0, typ.Size(), pointers)
		if got, want := w.Finish(), int64(heapsize.Object(typ.Size(), pointers)); got != want {
			t.Fatalf("an object of %d bytes, pointers %v, that starts at %p costs %d bytes, want %d", typ.Size(), pointers, p, got, want)
		}
		if typ.Size() < 64 || typ.Size() > 1024 {
			continue
		}
		w.Reset()
		w.Inside(unsafe.Add(p, 8*(1+rng.IntN(7))), 8, 0, typ.Size(), pointers)
		inner++
		if w.Finish() > 16 {
			wrong++
		}
	}
	if wrong > inner/20 {
		t.Errorf("%d of %d addresses inside of objects are taken for their start", wrong, inner)
	}
}

// TestInsideSeparate walks slices that a caller takes for parts of objects of 112 bytes: separate arrays,
// on pages with others of which some cannot be such parts, and arrays of a variable. All are charged alone.
func TestInsideSeparate(t *testing.T) {
	const whole = 112
	var w heapsize.Walk
	arrays := crowded(t, 1000, 2*8192/whole) // twice as many as such parts fit on a page
	for _, array := range arrays {
		heapsize.InsideSlice(&w, array, 2, 64, whole, true)
	}
	if got, want := w.Finish(), int64(len(arrays)*16); got != want {
		t.Errorf("%d slices with separate arrays are charged %d bytes, want %d", len(arrays), got, want)
	}
	if strconv.IntSize == 32 {
		return // the heap may be near the variables
	}
	for i := range len(variables) - 1 {
		w.Reset()
		heapsize.InsideSlice(&w, variables[i:i+2:i+2], 2, 64, whole, true)
		if got := w.Finish(); got != 16 {
			t.Errorf("two elements of a variable, from %d, are charged %d bytes", i, got)
		}
	}
}

// crowded allocates at least n arrays of 16 bytes, of which at least least are on each page of 8 KiB. Arrays that
// fill free places elsewhere in the heap are not among them.
func crowded(t *testing.T, n, least int) [][]int64 {
	t.Helper()
	const most = 1 << 20
	var arrays [][]int64
	pages := make(map[uintptr][][]int64)
	for range most {
		array := make([]int64, 2)
		page := uintptr(unsafe.Pointer(&array[0])) / 8192
		pages[page] = append(pages[page], array)
		switch on := pages[page]; {
		case len(on) == least:
			arrays = append(arrays, on...)
		case len(on) > least:
			arrays = append(arrays, array)
		}
		if len(arrays) >= n {
			return arrays
		}
	}
	t.Fatalf("of %d arrays, %d are on pages with at least %d of them, want %d", most, len(arrays), least, n)
	return nil
}

// variables are no part of the heap.
var variables [200]int64

// TestChanDirections counts one channel once, for any direction of its variables.
func TestChanDirections(t *testing.T) {
	c := make(chan int32, 7)
	var w heapsize.Walk
	heapsize.WalkChan(&w, c)
	heapsize.WalkChan(&w, (<-chan int32)(c))
	heapsize.WalkSendChan(&w, c)
	if got, want := w.Finish(), int64(heapsize.Chan(7, 4, false)); got != want {
		t.Errorf("a channel costs %d bytes, want %d", got, want)
	}
}
