package heapsize_test

import (
	"net/netip"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// TestBoxedEdges has values at the edge of those that the runtime has boxes of, by their size.
func TestBoxedEdges(t *testing.T) {
	for name, c := range map[string]struct {
		got  uintptr
		cost bool
	}{
		"bool": {heapsize.Boxed(true), false}, "255 of 1 byte": {heapsize.Boxed(uint8(255)), false},
		"255 of 2 bytes": {heapsize.Boxed(uint16(255)), false}, "256 of 2 bytes": {heapsize.Boxed(uint16(256)), true},
		"255 of 4 bytes": {heapsize.Boxed(uint32(255)), false}, "256 of 4 bytes": {heapsize.Boxed(uint32(256)), true},
		"255 of 8 bytes": {heapsize.Boxed(uint64(255)), false}, "256 of 8 bytes": {heapsize.Boxed(uint64(256)), true},
		"-1": {heapsize.Boxed(-1), true}, "4 bytes of bytes": {heapsize.Boxed([4]byte{}), true}, "a slice of none": {heapsize.Boxed([]int{}), true},
		"nil": {heapsize.Boxed([]int(nil)), false}, "a text": {heapsize.Boxed("x"), true}, "no text": {heapsize.Boxed(""), false}, "a map": {heapsize.Boxed(map[int]int{}), false},
	} {
		if (c.got > 0) != c.cost {
			t.Errorf("%s costs %d bytes", name, c.got)
		}
	}
}

// TestWalkSliceEdges has slices without an array of their own, and one that is visited twice.
func TestWalkSliceEdges(t *testing.T) {
	var w heapsize.Walk
	one := make([]int, 0, 100)
	anySink = one // on the heap: a stack may move
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"nil", heapsize.WalkSlice(&w, []int(nil), false), false},
		{"empty", heapsize.WalkSlice(&w, []int{}, false), false},
		{"of nothing", heapsize.WalkSlice(&w, make([]struct{}, 3), false), false},
		{"room for one", heapsize.WalkSlice(&w, one, false), true},
		{"again", heapsize.WalkSlice(&w, one, false), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: entered %t", c.name, c.got)
		}
	}
	if got, want := w.Finish(), int64(heapsize.Object(100*unsafe.Sizeof(0), false)); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// TestHiddenBoxLayout uses mirrors that differ from the type in a box.
func TestHiddenBoxLayout(t *testing.T) {
	_, held := netip.ParseAddr("no address")
	var w heapsize.Walk
	for name, walk := range map[string]func(){
		"size":  func() { heapsize.HiddenBox[struct{ in string }](&w, unsafe.Pointer(&held), held, true, true) },
		"field": func() { heapsize.HiddenBox[struct{ in, at, msg string }](&w, unsafe.Pointer(&held), held, true, false) },
	} {
		stopped := func() (err error) {
			defer heapsize.Recover(&err)
			walk()
			return nil
		}()
		if stopped == nil {
			t.Errorf("a mirror of another %s is used", name)
		}
	}
}
