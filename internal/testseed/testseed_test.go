package testseed

import (
	"fmt"
	"strings"
	"testing"
)

// A recorder replaces the test that requests a seed.
type recorder struct {
	testing.TB
	log, fatal string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Logf(format string, a ...any)   { r.log += fmt.Sprintf(format, a...) }
func (r *recorder) Fatalf(format string, a ...any) { r.fatal = fmt.Sprintf(format, a...) }

func TestSeed(t *testing.T) {
	r := &recorder{TB: t}
	t.Setenv(Env, "")
	first, second := New(r), New(r)
	if first == second {
		t.Errorf("two random seeds are %d", first)
	}
	if !strings.Contains(r.log, fmt.Sprintf("%s=%d ", Env, first)) {
		t.Errorf("logged %q, want the seed %d", r.log, first)
	}
	t.Setenv(Env, fmt.Sprint(first))
	if again := New(t); again != first {
		t.Errorf("got %d, given was %d", again, first)
	}
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("one seed gave %d and %d", a, b)
	}
	t.Setenv(Env, "seven")
	if New(r); !strings.Contains(r.fatal, Env+"=seven") {
		t.Errorf("accepted a seed that is no number: %q", r.fatal)
	}
}
