package bytecache

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"unsafe"
)

func newTestCache(t *testing.T, capacity int64) *Cache[int, string] {
	t.Helper()
	c, err := New(Options[int, string]{
		Capacity: capacity,
		Hash:     func(k int) uint64 { return uint64(k) * 0x9E3779B97F4A7C15 },
		Size:     func(_ int, v string) int64 { return int64(len(v)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outcome is the result of one caller of Load.
type outcome struct {
	value    string
	err      error
	panicked any
	exited   bool
}

// together has n goroutines Load key 1 concurrently: fill runs in one of them and, once all others wait,
// continues with act.
func together(t *testing.T, c *Cache[int, string], n int, during func(), act func() (string, bool, error)) (got []outcome, fills int) {
	synctest.Test(t, func(*testing.T) {
		var ran atomic.Int32
		proceed := make(chan struct{})
		got = make([]outcome, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				o := &got[i]
				o.exited = true
				defer func() {
					if r := recover(); r != nil {
						o.panicked, o.exited = r, false
					}
				}()
				o.value, o.err = c.Load(1, func() (string, bool, error) {
					ran.Add(1)
					<-proceed
					return act()
				})
				o.exited = false
			})
		}
		synctest.Wait()
		if during != nil {
			during()
		}
		close(proceed)
		wg.Wait()
		fills = int(ran.Load())
	})
	for i := range c.calls {
		if c.calls[i].first.Load() != nil {
			t.Error("a call is still in its list")
		}
	}
	return got, fills
}

func TestLoadOnce(t *testing.T) {
	c := newTestCache(t, 1<<20)
	got, fills := together(t, c, 50, nil, func() (string, bool, error) { return "made", true, nil })
	if fills != 1 {
		t.Errorf("made %d times", fills)
	}
	for _, o := range got {
		if o != (outcome{value: "made"}) {
			t.Fatalf("a caller got %+v", o)
		}
	}
	if v, ok := c.Get(1); !ok || v != "made" {
		t.Errorf("Get after Load = %q, %v", v, ok)
	}
}

func TestLoadError(t *testing.T) {
	c := newTestCache(t, 1<<20)
	want := errors.New("no such table")
	got, fills := together(t, c, 20, nil, func() (string, bool, error) { return "", true, want })
	for _, o := range got {
		if !errors.Is(o.err, want) || fills != 1 {
			t.Fatalf("a caller got %+v after %d tries", o, fills)
		}
	}
	if _, ok := c.Get(1); ok {
		t.Error("a failed value was kept")
	}
}

func TestLoadUncacheable(t *testing.T) {
	c := newTestCache(t, 1<<20)
	v, err := c.Load(1, func() (string, bool, error) { return "once", false, nil })
	if _, ok := c.Get(1); ok || v != "once" || err != nil || c.Stats().Uncacheable != 1 {
		t.Errorf("Load = %q, %v; kept: %v; counted %d", v, err, ok, c.Stats().Uncacheable)
	}
}

func TestLoadPanic(t *testing.T) {
	c := newTestCache(t, 1<<20)
	got, _ := together(t, c, 20, nil, func() (string, bool, error) { panic("planner broke") })
	var original int
	for _, o := range got {
		if o.panicked == "planner broke" {
			original++
			continue
		}
		if e, ok := o.panicked.(*PanicError); !ok || e.Value != "planner broke" || len(e.Stack) == 0 {
			t.Errorf("a waiting caller got %+v", o)
		}
	}
	if original != 1 {
		t.Errorf("%d callers panicked with the original value, want 1", original)
	}
	if v, err := c.Load(1, func() (string, bool, error) { return "well", true, nil }); v != "well" || err != nil {
		t.Errorf("Load after the panic = %q, %v", v, err)
	}
}

func TestLoadGoexit(t *testing.T) {
	c := newTestCache(t, 1<<20)
	got, _ := together(t, c, 20, nil, func() (string, bool, error) { runtime.Goexit(); return "", false, nil })
	var exited int
	for _, o := range got {
		switch {
		case o.exited:
			exited++
		case !errors.Is(o.err, ErrGoexit):
			t.Errorf("a waiting caller got %+v", o)
		}
	}
	if exited != 1 {
		t.Errorf("%d goroutines exited, want 1", exited)
	}
}

// TestLoadOutdated checks that a change of a key, or of all keys, while a value is created takes precedence
// over that value.
func TestLoadOutdated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Cache[int, string])
		want   string
	}{
		"Set":        {func(c *Cache[int, string]) { c.Set(1, "newer") }, "newer"},
		"Delete":     {func(c *Cache[int, string]) { c.Delete(1) }, ""},
		"Clear":      {func(c *Cache[int, string]) { c.Clear() }, ""},
		"DeleteFunc": {func(c *Cache[int, string]) { c.DeleteFunc(func(int, string) bool { return false }) }, ""},
		"other key":  {func(c *Cache[int, string]) { c.Set(2, "other"); c.Delete(2) }, "made"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newTestCache(t, 1<<20)
			got, _ := together(t, cache, 3, func() { c.change(cache) }, func() (string, bool, error) { return "made", true, nil })
			for _, o := range got {
				if o.value != "made" {
					t.Errorf("a caller from before the change got %+v", o)
				}
			}
			if v, _ := cache.Get(1); v != c.want {
				t.Errorf("afterwards the cache holds %q, want %q", v, c.want)
			}
			if stale := cache.Stats().RefusedStale; (stale == 1) != (c.want != "made") {
				t.Errorf("%d stale values refused", stale)
			}
		})
	}
}

// TestLoadDoesNotJoinOld checks that a Load after a Clear does not return a value whose creation started
// before it.
func TestLoadDoesNotJoinOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, 1<<20)
		proceed := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := c.Load(1, func() (string, bool, error) { <-proceed; return "old", true, nil }); v != "old" || err != nil {
				t.Errorf("the first Load = %q, %v", v, err)
			}
		})
		synctest.Wait()
		c.Clear()
		v, err := c.Load(1, func() (string, bool, error) { return "new", true, nil })
		if v != "new" || err != nil {
			t.Errorf("a Load after Clear = %q, %v", v, err)
		}
		close(proceed)
		wg.Wait()
		if v, _ := c.Get(1); v != "new" {
			t.Errorf("the cache holds %q", v)
		}
	})
}

func ExampleCache_Load() {
	plans, err := New(Options[string, int]{
		Capacity: 1 << 20,
		Size:     func(k string, _ int) int64 { return int64(len(k)) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		v, err := plans.Load("select ?", func() (int, bool, error) {
			fmt.Println("planned")
			return 42, true, nil
		})
		fmt.Println(v, err)
	}
	// Output:
	// planned
	// 42 <nil>
	// 42 <nil>
}

// TestLoadRecursive loads keys whose creation requires themselves: directly, through another key, and through another
// goroutine.
func TestLoadRecursive(t *testing.T) {
	c, err := New(Options[string, int]{Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	load := func(k string, then func() (int, error)) (int, error) {
		return c.Load(k, func() (int, bool, error) {
			v, err := then()
			return v, true, err
		})
	}
	one := func() (int, error) { return 1, nil }
	if _, err := load("a", func() (int, error) { return load("a", one) }); !errors.Is(err, ErrRecursive) {
		t.Errorf("its own key: %v", err)
	}
	if _, err := load("a", func() (int, error) {
		return load("b", func() (int, error) { return load("a", one) })
	}); !errors.Is(err, ErrRecursive) {
		t.Errorf("through another key: %v", err)
	}
	// Each goroutine has begun its key before it loads that of the other.
	var begun sync.WaitGroup
	begun.Add(2)
	results := make(chan error, 2)
	for _, keys := range [][2]string{{"a", "b"}, {"b", "a"}} {
		go func() {
			_, err := load(keys[0], func() (int, error) {
				begun.Done()
				begun.Wait()
				return load(keys[1], one)
			})
			results <- err
		}()
	}
	if a, b := <-results, <-results; !errors.Is(a, ErrRecursive) || !errors.Is(b, ErrRecursive) {
		t.Errorf("two goroutines: %v, %v", a, b)
	}
	// Other loads are not affected.
	if v, err := load("a", func() (int, error) { return load("b", one) }); v != 1 || err != nil || c.Len() != 2 {
		t.Errorf("afterwards: %d, %v, %d entries", v, err, c.Len())
	}
}

// TestKeysOfTexts uses keys that are cut from a text: the cache has copies of them, and no others.
func TestKeysOfTexts(t *testing.T) {
	type name string
	var kept name
	c, err := New(Options[name, int]{Capacity: 1 << 20, OnEvict: func(k name, _ int, _ Reason) { kept = k }})
	if err != nil {
		t.Fatal(err)
	}
	text := name(strings.Repeat("a text of a statement ", 1000))
	whole := name(strings.Clone("a key of its own"))
	for _, k := range []name{text[10:40], whole} {
		c.Set(k, 1)
		c.Delete(k)
		same := unsafe.StringData(string(kept)) == unsafe.StringData(string(k))
		if kept != k || same != (k == whole) {
			t.Errorf("%q is kept as %q, in place %t", k, kept, same)
		}
	}
}
