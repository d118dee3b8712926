package heapsize_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A tree is a small type with the difficult cases of walking: shared pointers, cycles, pointers into other
// objects, shared strings.
type tree struct {
	inner    struct{ n, m int } // at the address of the tree itself
	name     string
	children []*tree
	up       *tree
	number   *int
	small    *byte
	boxed    any // an int, a pair, or nothing
	index    map[string]pair
}

var treeIndex = heapsize.ShapeOf[string, pair]()

func walkTree(w *heapsize.Walk, t *tree) {
	if !w.Enter(unsafe.Pointer(t), unsafe.Sizeof(*t), true) {
		return
	}
	w.String(&t.name)
	heapsize.WalkSlice(w, t.children, true)
	for _, c := range t.children {
		walkTree(w, c)
	}
	walkTree(w, t.up)
	w.Enter(unsafe.Pointer(t.number), unsafe.Sizeof(*t.number), false)
	w.Enter(unsafe.Pointer(t.small), 1, false)
	switch v := t.boxed.(type) {
	case int:
		w.Box(unsafe.Pointer(&t.boxed), unsafe.Sizeof(v), false)
	case pair:
		if !w.Detach {
			if w.Box(unsafe.Pointer(&t.boxed), unsafe.Sizeof(v), true) {
				w.String(&v.s)
			}
			break
		}
		w.Add(heapsize.Object(unsafe.Sizeof(v), true))
		w.String(&v.s)
		w.After(func() { t.boxed = v })
	}
	if heapsize.WalkMap(w, t.index, treeIndex) {
		for k, v := range t.index {
			w.String(&k)
			w.String(&v.s)
			if w.Detach {
				w.After(func() { t.index[k] = v })
			}
		}
	}
}

// grow creates a random tree whose strings are substrings of text.
func grow(rng *rand.Rand, text string, nodes int) *tree {
	cut := func() string {
		from := rng.IntN(len(text) - 40)
		return text[from : from+rng.IntN(40)]
	}
	all := []*tree{{name: cut()}}
	for range nodes {
		p := all[rng.IntN(len(all))]
		n := &tree{name: cut(), up: p}
		switch rng.IntN(8) {
		case 0:
			n.number = &all[rng.IntN(len(all))].inner.m // into another object
		case 1:
			n.number = all[rng.IntN(len(all))].number // shared
		case 2:
			n.boxed = pair{rng.Int(), cut()}
		case 3:
			n.boxed = rng.IntN(2) * rng.IntN(100_000)
		case 4:
			n.index = map[string]pair{}
			for range rng.IntN(40) {
				n.index[cut()] = pair{1, cut()}
			}
		}
		p.children = append(p.children, n)
		all = append(all, n)
		if rng.IntN(4) == 0 {
			p.children = append(p.children, all[rng.IntN(len(all))]) // a second path, or a cycle
		}
	}
	return all[0]
}

// render formats all reachable values, to compare trees before and after a walk.
func render(t *tree, seen map[*tree]int, b *strings.Builder) {
	if n, ok := seen[t]; ok {
		fmt.Fprintf(b, "#%d", n)
		return
	}
	seen[t] = len(seen)
	fmt.Fprintf(b, "%q %v %v(", t.name, t.boxed, t.index)
	for _, c := range t.children {
		render(c, seen, b)
	}
	b.WriteString(")")
}

// TestWalkAgainstHeap creates random trees with substrings of a large text, detaches them, and compares the
// live heap with the walk's result: the text must be free.
func TestWalkAgainstHeap(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 8))
		w := heapsize.Walk{Detach: true}
		keep := make([]*tree, 20)
		var said int64
		walk := func() int64 {
			said = 0
			return liveDelta(func() {
				for i := range keep {
					text := strings.Repeat(fmt.Sprint("the quick brown fox ", rng.IntN(10)), 2000)
					keep[i] = grow(rng, text, 1+rng.IntN(300))
					var before, after strings.Builder
					render(keep[i], map[*tree]int{}, &before)
					walkTree(&w, keep[i])
					said += w.Finish()
					w.Reset()
					render(keep[i], map[*tree]int{}, &after)
					if before.String() != after.String() {
						t.Fatalf("seed %d: the walk changed the tree from\n%s\nto\n%s", seed, &before, &after)
					}
				}
			})
		}
		walk() // the walk's buffers reach their size
		clear(keep)
		grew := walk()
		for try := 0; off(grew, said) && try < 3; try++ {
			clear(keep)
			grew = walk()
		}
		if off(grew, said) {
			t.Errorf("seed %d: trees take %d bytes, the walk says %d", seed, grew, said)
		}
		runtime.KeepAlive(keep)

		// When only counting, the walk charges each string of the one copy separately: slightly more, never
		// less.
		w.Detach = false
		var counted int64
		for _, n := range keep {
			walkTree(&w, n)
			counted += w.Finish()
			w.Reset()
		}
		if counted < said || counted > said*11/10 {
			t.Errorf("seed %d: detaching said %d bytes, counting %d", seed, said, counted)
		}
	}
}

func TestDetach(t *testing.T) {
	parent := strings.Repeat("0123456789", 10)
	a, b, c, again, empty, none := parent[10:30], parent[20:40], parent[25:27], parent[10:30], parent[50:50], ""
	w := heapsize.Walk{Detach: true}
	for _, s := range []*string{&c, &empty, &a, &again, &b, &none, &a} {
		w.String(s)
	}
	if got, want := w.Finish(), int64(heapsize.Object(30, false)); got != want {
		t.Errorf("strings over 30 bytes of a text cost %d, want %d", got, want)
	}
	for i, s := range []struct{ got, want string }{{a, parent[10:30]}, {b, parent[20:40]}, {c, parent[25:27]}, {again, parent[10:30]}, {empty, ""}, {none, ""}} {
		if s.got != s.want {
			t.Errorf("string %d is now %q, want %q", i, s.got, s.want)
		}
		at := uintptr(unsafe.Pointer(unsafe.StringData(s.got))) - uintptr(unsafe.Pointer(unsafe.StringData(parent)))
		if at < uintptr(len(parent)) {
			t.Errorf("string %d still points into the text it was cut from", i)
		}
	}
	if unsafe.StringData(a) != unsafe.StringData(again) {
		t.Error("equal strings of one text got two copies")
	}
}

func TestWalkForgetsHugeValues(t *testing.T) {
	var w heapsize.Walk
	parts := make([][64]byte, 100_000)
	for i := range parts {
		w.Enter(unsafe.Pointer(&parts[i]), 64, true)
	}
	if got := w.Finish(); got != int64(heapsize.Object(64*100_000, false)) {
		t.Errorf("100,000 elements of 64 bytes cost %d", got)
	}
	runtime.KeepAlive(parts)
	kept := liveDelta(w.Reset)
	if kept > -1<<20 {
		t.Errorf("Reset after a huge value freed only %d bytes", -kept)
	}
	w.Reset()
	if w.Finish() != 0 {
		t.Error("a fresh walk is not empty")
	}
}

func ExampleWalk() {
	type row struct{ table, column string }
	query := "select name from users where id = 7 and " + strings.Repeat("1 = 1 and ", 100_000) + "true"
	r := &row{table: query[17:22], column: query[7:11]}

	w := heapsize.Walk{Detach: true}
	w.Enter(unsafe.Pointer(r), unsafe.Sizeof(*r), true)
	w.String(&r.table)
	w.String(&r.column)
	fmt.Println(w.Finish() <= 48, "instead of", heapsize.String(query), "bytes")
	fmt.Println(*r)
	// Output:
	// true instead of 1007616 bytes
	// {users name}
}
