package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWithin succeeds at the third try, and stops at a final error, after the patience and with the context.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passing := errors.New("it passes")
		tries := 0
		if err := Within(t.Context(), time.Minute, func() error {
			if tries++; tries < 3 {
				return passing
			}
			return nil
		}); err != nil || tries != 3 {
			t.Errorf("%d tries, %v", tries, err)
		}
		var gone *ExhaustedError
		lasting := errors.New("it lasts")
		if err := Within(t.Context(), time.Minute, func() error { return Final(lasting) }); !errors.Is(err, lasting) || errors.As(err, &gone) {
			t.Errorf("a final error: %v", err)
		}
		tries = 0
		err := Within(t.Context(), time.Minute, func() error { tries++; return passing })
		if !errors.As(err, &gone) || !errors.Is(err, passing) || err.Error() != "it passes; tried for 1m0s" || tries < 20 {
			t.Errorf("after %d tries: %v", tries, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := Within(ctx, time.Minute, func() error { cancel(lasting); return passing }); !errors.Is(err, lasting) || errors.As(err, &gone) {
			t.Errorf("a context that ends: %v", err)
		}
	})
}
