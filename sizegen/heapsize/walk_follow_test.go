package heapsize_test

import (
	"runtime"
	"runtime/debug"
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
