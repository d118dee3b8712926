package heapsize_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

type lexeme struct {
	kind int
	text string
	pos  position
}

type position struct {
	line, column int
	source       *string
}

type node struct {
	at    *position
	words []*int
}

const (
	tokenBytes    = unsafe.Sizeof(lexeme{})
	positionBytes = unsafe.Sizeof(position{})
)

func walkNode(w *heapsize.Walk, n *node) {
	w.Enter(unsafe.Pointer(n), unsafe.Sizeof(*n), true)
	w.Enter(unsafe.Pointer(n.at), positionBytes, true)
	heapsize.WalkSlice(w, n.words, true)
}

// TestParts walks objects that are reached by pointers and slices into them.
func TestParts(t *testing.T) {
	tok := &lexeme{text: "a"}
	array := make([]*int, 16)
	for _, c := range []struct {
		name     string
		node     *node
		also     bool // the lexeme is reached as a whole
		object   uintptr
		parts    int
		where    string // of the error
		separate bool
	}{
		{"a position of its own", &node{at: new(position)}, false, positionBytes, 0, "", true},
		{"a token's position", &node{at: &tok.pos}, false, tokenBytes, 1, "heapsize_test.node.at", false},
		{"the token as well", &node{at: &tok.pos}, true, tokenBytes, 0, "", false},
		{"an array", &node{words: array}, false, 16 * 8, 0, "", true},
		{"a grown array", &node{words: append(array, nil)}, false, 8 * uintptr(cap(append(array, nil))), 0, "", true},
		{"the end of an array", &node{words: array[3:]}, false, 16 * 8, 1, "", false},
		{"the start of an array", &node{words: array[:3:3]}, false, 16 * 8, 1, "", false},
	} {
		if unsafe.Sizeof(uintptr(0)) == 4 && strings.Contains(c.name, "array") {
			continue // of other sizes
		}
		var w heapsize.Walk
		walkNode(&w, c.node)
		if c.also {
			w.Enter(unsafe.Pointer(tok), tokenBytes, true)
		}
		err := w.Check(c.node)
		if parts := w.Parts(); parts != c.parts {
			t.Errorf("%s: %d parts, want %d", c.name, parts, c.parts)
		}
		var of *heapsize.Error
		if ok := errors.As(err, &of); ok != (c.where != "") || ok && !strings.Contains(err.Error(), c.where+": it points to ") {
			t.Errorf("%s: error %v, want one of %q", c.name, err, c.where)
		}
		if got, want := w.Finish(), int64(heapsize.Object(unsafe.Sizeof(node{}), true)+heapsize.Object(c.object, true)); got != want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, want)
		}
	}
}

// TestPathTo finds the field of an error behind values of all kinds.
func TestPathTo(t *testing.T) {
	tok := &lexeme{text: "a"}
	n := &node{at: &tok.pos}
	type holder struct {
		cycle *holder
		any   any
		index map[string][]any
	}
	h := &holder{}
	h.cycle = h
	for name, root := range map[string]any{
		"any":   &holder{cycle: h, any: n},
		"index": &holder{index: map[string][]any{"a": {nil, h, [2]any{1, *n}}}},
	} {
		var w heapsize.Walk
		walkNode(&w, n)
		if err := w.Check(root); err == nil || !strings.Contains(err.Error(), "heapsize_test.node.at: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHolder finds the objects around positions and arrays, and none around those that are separate.
func TestHolder(t *testing.T) {
	const offset = unsafe.Offsetof(lexeme{}.pos)
	type large struct {
		array [4]int32
		_     [200]*int
	}
	tok, big := &lexeme{}, &large{}
	sinks = append(sinks, tok, big)
	holder := func(p *position) *lexeme { return heapsize.Holder[lexeme](unsafe.Pointer(p), offset, true) }
	inLarge := func(s []int32) *large { return heapsize.HolderOf[large](s, 4, 0, true) }
	if holder(&tok.pos) != tok {
		t.Error("a token is not found from its position")
	}
	for range 1000 {
		separate, array := new(position), make([]int32, 4)
		sinks = append(sinks[:2], separate, array)
		if holder(separate) != nil {
			t.Fatalf("a separate position at %p is taken for a token's", separate)
		}
		if inLarge(array) != nil {
			t.Fatalf("a separate array at %p is taken for a part", array)
		}
	}
	for i := range 4 {
		if inLarge(big.array[i:]) != big {
			t.Errorf("the object of an array from its element %d is not found", i)
		}
	}
	if inLarge(make([]int32, 5)) != nil || inLarge(nil) != nil || holder(&position{}) != nil {
		t.Error("a holder where there is none")
	}
}

// TestSiblings finds the array around its elements.
func TestSiblings(t *testing.T) {
	for _, n := range []int{2, 5, 100, 5000} {
		all := make([]lexeme, n)
		for i := range all {
			got := heapsize.Siblings(&all[i], true)
			if unsafe.SliceData(got) != &all[0] || len(got) < n || len(got) > n*9/8+1 {
				t.Fatalf("element %d of %d: %d siblings, the first at %p, want %p", i, n, len(got), unsafe.SliceData(got), &all[0])
			}
		}
	}
	if got := heapsize.Siblings(new(lexeme), true); got != nil {
		t.Errorf("a separate object has %d siblings", len(got))
	}
	if got := heapsize.Siblings(&new(lexeme).pos, true); got != nil {
		t.Errorf("a field has %d siblings", len(got))
	}
}

var (
	variable [100]int
	sinks    []any
)

// TestOutside walks what is not on the heap.
func TestOutside(t *testing.T) {
	var w heapsize.Walk
	text := "a constant of the program"
	w.String(&text)
	w.Enter(unsafe.Pointer(&variable), unsafe.Sizeof(variable), false)
	objects, bytes := w.Outside()
	if sum := w.Finish(); sum != 0 || objects != 2 || bytes != int64(len(text))+int64(unsafe.Sizeof(variable)) {
		t.Errorf("%d bytes are charged, and %d bytes of %d objects are outside", sum, bytes, objects)
	}
}

// TestRecoverIn names the field whose interface has a type without a walk.
func TestRecoverIn(t *testing.T) {
	type holder struct {
		other any
		index map[string]any
	}
	root := &holder{other: 1, index: map[string]any{"a": 2, "b": position{}}}
	err := func() (err error) {
		defer heapsize.RecoverIn(&err, root)
		var w heapsize.Walk
		w.Unknown("any", root.index["b"])
		return nil
	}()
	if want := "size of github.com/taredb/tare/sizegen/heapsize_test.holder.index: no walk is known for the dynamic type heapsize_test.position"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
