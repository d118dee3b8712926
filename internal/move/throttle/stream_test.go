package throttle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/tick"
)

// TestStream applies batches of changes with given metrics: at a limit one is applied every ten seconds, and
// none when an operator has paused the copy or the metric is unknown.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type event struct {
			rate   float64
			reason string
		}
		var events []event
		p := NewPacer(PacerOptions{Observe: func(rate float64, reason string) { events = append(events, event{rate, reason}) }})
		p.core, p.values = newThrottle([]Limit{{Kind: LimitP99, Name: "p99", Unit: "ms", Bound: 20}}, time.Hour), make([]reading, 1)
		begun := time.Now()
		notify := func(r reading) {
			t.Helper()
			if err := p.update(time.Since(begun), []reading{r}); err != nil {
				t.Fatal(err)
			}
		}
		share := func(v float64) {
			t.Helper()
			if err := p.SetLimits(LimitChange{Share: &v}); err != nil {
				t.Fatal(err)
			}
		}
		f := p.Stream(tick.New(tick.Interval))
		defer f.Close()
		// batches counts those that are applied within a time, each of which takes a millisecond.
		batches := func(within time.Duration) (n int) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			for ctx.Err() == nil && f.Begin(ctx) == nil {
				time.Sleep(time.Millisecond)
				n++
				if f.End(ctx) != nil {
					break
				}
			}
			return n
		}

		for range 20 {
			notify(reading{value: 5})
			time.Sleep(pollInterval)
		}
		if n := batches(time.Second); n < 999 || p.allowed() != 1 {
			t.Errorf("at full speed, %v: %d batches in a second", p.allowed(), n)
		}
		if held, reason := f.Waited(); held != 0 || reason != "" {
			t.Errorf("held %v: %s", held, reason)
		}
		share(0.25)
		if n := batches(time.Minute); n < 14_000 || n > 16_000 {
			t.Errorf("at a quarter: %d batches in a minute", n)
		}
		share(1)

		notify(reading{value: 50})
		batches(2 * tick.Interval) // metrics are polled once per tick
		before, _ := f.Waited()
		events = nil
		if n := batches(101 * time.Second); n < 9 || n > 10 {
			t.Errorf("at a limit that stays crossed: %d batches in 101 s", n)
		}
		held, reason := f.Waited()
		if held-before < 100*time.Second || reason != "the p99 is 50 ms, over 20 ms" {
			t.Errorf("held %v: %s", held-before, reason)
		}
		if want := (event{0, "changes wait to be applied: " + reason}); len(events) != 4 || events[0] != want {
			t.Errorf("events %+v", events)
		}
		share(0)
		if n := batches(time.Hour); n > 0 {
			t.Errorf("stopped by a person: %d batches", n)
		}
		lower := f.Suspend()
		if n := batches(time.Second); n < 999 {
			t.Errorf("lifted: %d batches in a second", n)
		}
		lower()
		time.AfterFunc(time.Minute, func() { lower = f.Suspend() })
		if n := batches(time.Minute + time.Second); n < 999 || n > 1001 {
			t.Errorf("lifted after a minute: %d batches in a second", n)
		}
		lower()
		share(1)
		notify(reading{err: errors.New("no answer")})
		if n := batches(time.Hour); n > 0 {
			t.Errorf("no figure: %d batches", n)
		}
		for range 2 {
			notify(reading{value: 5})
		}
		if n := batches(time.Minute); n < 1000 {
			t.Errorf("below the limit again: %d batches in a minute", n)
		}
	})
}
