package slab

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expectMisuse runs f, which misuses an object: with -tags invariants it must panic with a text that contains
// what, otherwise the count must rise by one.
func expectMisuse(t *testing.T, count func() int64, what string, f func()) {
	t.Helper()
	before := count()
	defer func() {
		t.Helper()
		p := recover()
		text, _ := p.(string)
		if invariants && (!strings.HasPrefix(text, "BUG: ") || !strings.Contains(text, what)) {
			t.Errorf("panic: got %v, want a BUG with %q", p, what)
		}
		if !invariants && p != nil {
			t.Errorf("panic without -tags invariants: %v", p)
		}
		if got := count() - before; got != 1 {
			t.Errorf("misuses counted: got %d, want 1", got)
		}
	}()
	f()
}
