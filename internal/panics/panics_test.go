package panics_test

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/panics"
)

func TestOf(t *testing.T) {
	guarded := panics.Guard(func() error {
		var m map[string]int
		m["x"] = 1 //nolint:govet,staticcheck // it panics
		return nil
	})
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":          {nil, false},
		"another":      {errors.New("x"), false},
		"guarded":      {guarded, true},
		"wrapped":      {errors.Join(errors.New("select"), guarded), true},
		"engine's bug": {errors.New("BUG: x"), true},
	} {
		if got := panics.Of(c.err); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if p := panics.Of(guarded); p.Stack == nil || p.Unwrap() == nil {
		t.Errorf("%+v", p)
	}
	if p := panics.Of(guarded); !p.ToReport() || panics.Of(guarded).ToReport() {
		t.Error("a panic is not reported once")
	}
}
