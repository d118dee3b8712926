package slab

import (
	"reflect"
	"testing"
)

// TestPoolStatsAdd adds up each counter.
func TestPoolStatsAdd(t *testing.T) {
	var a, b PoolStats
	for i := range reflect.TypeFor[PoolStats]().NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(10 + i))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(int64(1000 * (i + 1)))
	}
	sum := reflect.ValueOf(a.Add(b))
	for i := range sum.NumField() {
		if got, want := sum.Field(i).Int(), int64(10+i+1000*(i+1)); got != want {
			t.Errorf("%s is %d, want %d", sum.Type().Field(i).Name, got, want)
		}
	}
}

// TestAdmitBytes grants the bytes that are requested at admission, at most those of a query, from the lane of light queries if they fit there.
func TestAdmitBytes(t *testing.T) {
	const most, light = 100, 10
	for _, c := range []struct {
		first   int64
		light   bool
		granted int64
		lane    bool // of light queries
	}{
		{-1, false, most, false},
		{0, false, most, false},
		{1, false, 1, false},
		{most - 1, false, most - 1, false},
		{most, false, most, false},
		{most + 1, false, most, false},
		{light, true, light, true},
		{light + 1, true, light + 1, false},
		{1, true, 1, true},
		{0, true, most, false},
		{light, false, light, false},
	} {
		g := NewGate(GateOptions{Bytes: 1000, PerQuery: most, Light: light})
		q, err := g.AdmitFor(t.Context(), AdmitOptions{First: c.first, Light: c.light})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Granted(); got != c.granted || (g.light.free < light) != c.lane || g.main.free+g.light.free != 1000-c.granted {
			t.Errorf("%+v: %d granted, %d and %d free", c, got, g.main.free, g.light.free)
		}
		if q.Close(); g.main.free != 1000-light || g.light.free != light {
			t.Errorf("%+v: %d and %d free after it", c, g.main.free, g.light.free)
		}
	}
}

// TestView has views of none, all and more than the bytes of a slab.
func TestView(t *testing.T) {
	p := NewPool(PoolOptions{})
	s := p.Bytes(64)
	defer s.Release()
	for _, c := range []struct {
		n      int
		panics bool
	}{{-1, true}, {0, false}, {1, false}, {8, false}, {9, true}} {
		var got []uint64
		panicked := func() (v any) {
			defer func() { v = recover() }()
			got = View[uint64](s, c.n)
			return nil
		}()
		if (panicked != nil) != c.panics || !c.panics && (len(got) != c.n || cap(got) != c.n || (got == nil) != (c.n == 0)) {
			t.Errorf("%d values: %d, %v", c.n, len(got), panicked)
		}
	}
}
