package parallel

import (
	"context"
	"errors"
	"testing"
)

// TestInCaller calls do in the caller's goroutine for one item, and for several with a bound of at most 1: its panic is the caller's. Otherwise a panic
// is an error.
func TestInCaller(t *testing.T) {
	for _, tt := range []struct {
		n      int
		items  []int
		caller bool
	}{{0, []int{1, 2}, true}, {1, []int{1, 2}, true}, {5, []int{1}, true}, {2, []int{1, 2}, false}, {5, []int{1, 2}, false}} {
		var err error
		panicked := func() (v any) {
			defer func() { v = recover() }()
			err = ForEach(t.Context(), tt.n, tt.items, func(context.Context, int) error { panic("x") })
			return nil
		}()
		if (panicked != nil) != tt.caller || (err != nil) == tt.caller {
			t.Errorf("%d of %d at a time: panicked with %v, %v", len(tt.items), tt.n, panicked, err)
		}
	}
	failed, called := errors.New("failed"), 0
	if err := ForEach(t.Context(), 1, []int{1, 2, 3}, func(_ context.Context, i int) error {
		if called++; i == 2 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) || called != 2 {
		t.Errorf("%v after %d calls", err, called)
	}
}
