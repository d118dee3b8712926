package heapsize_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// TestPutBackKeepsTheMap proves PutBack's assumption on this Go release: an assignment to an existing key
// replaces the key's bytes, and does not change the map's memory.
func TestPutBackKeepsTheMap(t *testing.T) {
	for n := range 300 {
		for _, deleted := range []int{0, 1, n / 2} {
			text := strings.Repeat("0123456789abcdef", 400)
			m := make(map[string]string)
			for i := range n + deleted {
				m[text[i:i+16]+fmt.Sprint(i)] = text[i : i+20]
			}
			i := 0
			for k := range m {
				if i++; i > n {
					delete(m, k)
				}
			}
			before := heapsize.Map(m)
			old := make(map[*byte]bool)
			for k, v := range m {
				old[unsafe.StringData(k)], old[unsafe.StringData(v)] = true, true
			}
			want := len(m)

			w := &heapsize.Walk{Detach: true}
			if !heapsize.WalkMap(w, m, heapsize.ShapeOf[string, string]()) {
				t.Fatal("not the first visit")
			}
			es := heapsize.Entries(m)
			for i := range es {
				w.String(&es[i].Key)
				w.String(&es[i].Elem)
			}
			heapsize.PutBack(w, m, es)
			w.Finish()

			if got := heapsize.Map(m); got != before || len(m) != want {
				t.Fatalf("%d entries, %d deleted: %d bytes and %d entries, were %d and %d", n, deleted, got, len(m), before, want)
			}
			for k, v := range m {
				if old[unsafe.StringData(k)] || old[unsafe.StringData(v)] {
					t.Fatalf("%d entries, %d deleted: %q: %q is where it was", n, deleted, k, v)
				}
			}
		}
	}
}

func TestPutBackNaN(t *testing.T) {
	m := map[float64]string{math.NaN(): "x"}
	walk := func(w *heapsize.Walk) (err error) {
		defer heapsize.Recover(&err)
		es := heapsize.Entries(m)
		w.String(&es[0].Elem)
		heapsize.PutBack(w, m, es)
		return nil
	}
	if err := walk(&heapsize.Walk{}); err != nil {
		t.Errorf("counting: %v", err)
	}
	var e *heapsize.Error
	if err := walk(&heapsize.Walk{Detach: true}); !errors.As(err, &e) || len(m) != 1 {
		t.Errorf("detaching: %v, %d entries", err, len(m))
	}
}

// TestUnbox detaches the strings of two variables that share a box.
func TestUnbox(t *testing.T) {
	const word = unsafe.Sizeof(0)
	text := strings.Repeat("z", 100)
	type named struct{ name string }
	var a any = named{text[3:30]}
	b := a
	for _, c := range []struct {
		detach bool
		want   int64
	}{
		{false, int64(heapsize.Object(2*word, true) + heapsize.String(text))}, // the string keeps its text alive
		{true, int64(2*heapsize.Object(2*word, true) + heapsize.Object(27, false))},
	} {
		w := &heapsize.Walk{Detach: c.detach}
		for _, x := range []*any{&a, &b, &a} {
			if v := heapsize.Unbox(w, unsafe.Pointer(x), (*x).(named), true); v != nil {
				w.String(&v.name)
			}
		}
		if got := w.Finish(); got != c.want {
			t.Errorf("detach=%t: %d bytes, want %d", c.detach, got, c.want)
		}
	}
	for _, x := range []any{a, b} {
		if n := x.(named).name; n != text[3:30] || unsafe.StringData(n) == unsafe.StringData(text[3:]) {
			t.Errorf("%q is not detached", n)
		}
	}
}

// TestStaticTables walks values that the runtime never allocates: walk and heap agree that they cost nothing.
func TestStaticTables(t *testing.T) {
	unseen := strings.Repeat("x", 3) // not a constant to the compiler
	values := func() []any {
		return []any{
			[]string(nil), []any(nil), []byte(nil), []string(nil)[:len(unseen)-3],
			unseen[3:], uint16(len(unseen)), int32(len(unseen)), len(unseen), uint64(255 + len(unseen) - 3),
		}
	}
	var kept []any
	walk := func(w *heapsize.Walk) int64 {
		for i := range kept {
			switch v := kept[i].(type) {
			case []string:
				if c := heapsize.Unbox(w, unsafe.Pointer(&kept[i]), v, true); c != nil {
					heapsize.WalkSlice(w, *c, true)
				}
			case []any:
				if c := heapsize.Unbox(w, unsafe.Pointer(&kept[i]), v, true); c != nil {
					heapsize.WalkSlice(w, *c, true)
				}
			case []byte:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), true)
			case string:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), true)
			case uint16:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), false)
			case int32:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), false)
			case int:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), false)
			case uint64:
				w.Box(unsafe.Pointer(&kept[i]), unsafe.Sizeof(v), false)
			}
		}
		return w.Finish()
	}
	array := heapsize.Slice(values())
	exactly(t, "static values", array, func() { kept = values() })
	for _, detach := range []bool{false, true} {
		if got := walk(&heapsize.Walk{Detach: detach}); got != 0 {
			t.Errorf("detach=%t: values of the static tables cost %d bytes, want 0", detach, got)
		}
	}
	if s, ok := kept[0].([]string); !ok || s != nil {
		t.Errorf("a boxed nil slice became %#v", kept[0])
	}

	kept = []any{1000 * len(unseen), make([]string, 0, len(unseen))}
	want := int64(heapsize.Object(unsafe.Sizeof(0), false) + heapsize.Object(unsafe.Sizeof([]string{}), true) + heapsize.Array(3, unsafe.Sizeof(""), true))
	if got := walk(&heapsize.Walk{}); got != want {
		t.Errorf("a large number and a slice cost %d bytes, want %d", got, want)
	}

	w := &heapsize.Walk{}
	one, two := string([]byte(unseen)[:1]), string([]byte(unseen)[:2])
	w.String(&one)
	if got := w.Finish(); got != 0 {
		t.Errorf("a string of one byte costs %d bytes, want 0", got)
	}
	w.String(&two)
	if got, want := w.Finish(), int64(heapsize.String(two)); got != want {
		t.Errorf("a string of two bytes costs %d bytes, want %d", got, want)
	}
}

func TestWalkChan(t *testing.T) {
	c := make(chan [3]int32, 50)
	var w heapsize.Walk
	if !heapsize.WalkChan(&w, c) || heapsize.WalkChan(&w, c) || heapsize.WalkChan[int](&w, nil) {
		t.Error("the first visit of c and no other is a visit")
	}
	if got, want := w.Finish(), int64(heapsize.Chan(50, 12, false)); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

func TestRecover(t *testing.T) {
	stop := func(panics any) (err error) {
		defer heapsize.Recover(&err)
		if panics != nil {
			panic(panics)
		}
		return nil
	}
	if err := stop(nil); err != nil {
		t.Error(err)
	}
	want := "size of a.T.F: no walk is known for the dynamic type int"
	err := func() (err error) {
		defer heapsize.Recover(&err)
		new(heapsize.Walk).Unknown("a.T.F", 5)
		return nil
	}()
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	defer func() {
		if r := recover(); r != "BUG: mine" {
			t.Errorf("another's panic became %v", r)
		}
	}()
	err = stop("BUG: mine")
	t.Errorf("another's panic became the error %v", err)
}

func ExampleWalk_Unknown() {
	size := func(v any) (bytes int64, err error) { // in the form generated by sizegen
		var w heapsize.Walk
		defer heapsize.Recover(&err)
		switch v := v.(type) {
		case *int64:
			w.Enter(unsafe.Pointer(v), unsafe.Sizeof(*v), false)
		default:
			w.Unknown("Plan.Value", v)
		}
		return w.Finish(), nil
	}
	fmt.Println(size(new(int64)))
	fmt.Println(size(3.5))
	// Output:
	// 16 <nil>
	// 0 size of Plan.Value: no walk is known for the dynamic type float64
}
