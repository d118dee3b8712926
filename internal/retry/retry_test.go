package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/alloctest"
)

var errTry = errors.New("failed")

// TestDo expects the tries and the pauses of each limit, and the error of the last try.
func TestDo(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  Policy
		try     func(n int) error // n counts from 1
		tries   int
		longest time.Duration // in all
		want    error
	}{
		{"success", Policy{First: time.Second, Most: time.Second}, func(int) error { return nil }, 1, 0, nil},
		{"third", Policy{First: time.Second, Most: 4 * time.Second}, func(n int) error {
			if n == 3 {
				return nil
			}
			return errTry
		}, 3, 3 * time.Second, nil},
		{"tries", Policy{First: time.Second, Most: 2 * time.Second, Tries: 4}, func(int) error { return errTry }, 4, 5 * time.Second, errTry},
		{"final", Policy{First: time.Second, Most: time.Second}, func(int) error { return Final(errTry) }, 1, 0, errTry},
		{"patience", Policy{First: time.Second, Most: time.Second, Patience: 400 * time.Millisecond}, func(int) error { return errTry }, 1, 0, errTry},
		{"patience within a try", Policy{First: time.Second, Most: time.Second, Patience: 5 * time.Second}, func(int) error {
			time.Sleep(3 * time.Second)
			return errTry
		}, 2, 7 * time.Second, errTry},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, started := 0, time.Now()
			err := c.policy.Do(t.Context(), func() error { n++; return c.try(n) })
			took := time.Since(started)
			if !errors.Is(err, c.want) || IsFinal(err) || n != c.tries || took > c.longest || took < c.longest/2 {
				t.Errorf("%s: %v after %d tries and %v, want %v after %d and at most %v", c.name, err, n, took, c.want, c.tries, c.longest)
			}
		})
	}
}

// TestDoneContext expects the error of the last try as soon as the context is done, which ends a pause.
func TestDoneContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		err := Policy{First: time.Hour, Most: time.Hour}.Do(ctx, func() error { return errTry })
		if took := time.Since(started); !errors.Is(err, errTry) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if err := Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sleep: %v", err)
		}
	})
}

// TestPauses expects pauses that are doubled, each between half of its length and all of it.
func TestPauses(t *testing.T) {
	pauses := Policy{First: 8 * time.Second, Most: time.Minute}.Pauses()
	for range 1000 {
		pauses.Reset()
		for _, most := range []time.Duration{8, 16, 32, 60, 60} {
			if d := pauses.NextBackOff(); d < most*time.Second/2-time.Millisecond || d > most*time.Second+time.Millisecond {
				t.Fatalf("a pause of %v, want half of %d s to all of it", d, most)
			}
		}
	}
}

func TestAllocs(t *testing.T) {
	p, ctx := Policy{First: time.Second, Most: time.Second, Tries: 3}, t.Context()
	try := func() error { return nil }
	alloctest.Run(t, []alloctest.Case{{Name: "the first try", Op: func() error { return p.Do(ctx, try) }}})
}
