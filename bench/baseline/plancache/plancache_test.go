package plancache

import (
	"fmt"
	"slices"
	"testing"
)

// TestPlan checks the plans of statements, with and without each fix.
func TestPlan(t *testing.T) {
	for _, o := range []Options{{}, {SizeClasses: true}, {Detach: true}, {HashKeys: true}} {
		o.Capacity = 1 << 20
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Plan("shop", "insert into shop.orders (id, note) values (1, 'a'), (2, 'b')")
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Tables) != 1 || *p.Tables[0] != (Table{"shop", "orders"}) ||
			!slices.Equal(p.Columns, []string{"id", "note"}) || !slices.Equal(p.Rows, []string{"(1, 'a')", "(2, 'b')"}) {
			t.Errorf("%+v: %+v", o, p)
		}
		again, err := c.Plan("shop", "insert into shop.orders (id, note) values (1, 'a'), (2, 'b')")
		if err != nil || again != p || c.Bytes() != p.CachedSize(o.SizeClasses) {
			t.Errorf("%+v: the plan is not found again: %v", o, err)
		}
		if c.Has("other", "insert into shop.orders (id, note) values (1, 'a'), (2, 'b')") {
			t.Errorf("%+v: one plan for two schemas", o)
		}
	}
}

// TestBound fills a cache past its capacity.
func TestBound(t *testing.T) {
	c, err := New(Options{Capacity: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := c.Plan("shop", fmt.Sprintf("select a from t%d", i)); err != nil {
			t.Fatal(err)
		}
		if c.Bytes() > 10_000 {
			t.Fatalf("%d bytes after %d plans", c.Bytes(), i)
		}
	}
	if !c.Has("shop", "select a from t199") || c.Has("shop", "select a from t0") || c.Len() < 10 {
		t.Error("what was used last is not what is kept")
	}
}
