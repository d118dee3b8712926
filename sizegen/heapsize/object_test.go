package heapsize

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"
)

var keep unsafe.Pointer

// TestObjectAt allocates objects of many sizes, and looks up addresses in them.
func TestObjectAt(t *testing.T) {
	if !ObjectsKnown() {
		t.Fatal("objects are not known on this Go release")
	}
	rng := rand.New(rand.NewPCG(21, 22))
	for range 6000 {
		size, elem := 16+rng.IntN(16<<rng.IntN(12)), reflect.TypeFor[uintptr]()
		if rng.IntN(2) == 0 {
			elem = reflect.TypeFor[*byte]()
		}
		typ := reflect.ArrayOf(size/int(wordSize), elem)
		keep = reflect.New(typ).UnsafePointer()
		pointers := hasPointers(typ)
		want := Object(typ.Size(), pointers)
		o, in := objectAt(keep), objectAt(unsafe.Add(keep, rng.IntN(int(typ.Size()))))
		header := uintptr(keep) - o.base
		if o != in || o.size != want || o.pointers != pointers || header != 0 && header != classes().header {
			t.Fatalf("an object of %v at %p: %+v, by an address within it %+v; want a size of %d", typ, keep, o, in, want)
		}
	}
}

// TestObjectAtElsewhere looks up addresses that are not on the heap.
func TestObjectAtElsewhere(t *testing.T) {
	text := "a constant"
	for name, p := range map[string]unsafe.Pointer{
		"variable": unsafe.Pointer(&keep), "constant": unsafe.Pointer(unsafe.StringData(text)), "nil": nil,
	} {
		if o := objectAt(p); o.size != 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
	var local int
	if o := objectAt(unsafe.Pointer(&local)); o.size != 0 || !onStack(unsafe.Pointer(&local)) {
		t.Error("a local variable is not taken for one")
	}
}
