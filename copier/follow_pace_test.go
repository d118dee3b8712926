package copier

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/tick"
)

// TestFollowPace has batches of changes wait for a throttle that is told its figures: at a limit
// one is applied every ten seconds, and none when a person has stopped the copy or the figure is
// not known.
func TestFollowPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []Event
		p := &pacer{
			core: newThrottle([]Limit{{Kind: LimitP99, Name: "p99", Unit: "ms", Bound: 20}}, time.Hour), values: make([]reading, 1), gate: newGate(),
			observe: func(e Event) { events = append(events, e) },
		}
		begun := time.Now()
		tell := func(r reading) {
			t.Helper()
			if err := p.look(time.Since(begun), []reading{r}); err != nil {
				t.Fatal(err)
			}
		}
		share := func(v float64) {
			t.Helper()
			if err := p.change(ThrottleChange{Share: &v}); err != nil {
				t.Fatal(err)
			}
		}
		f := newFollowPace(p, tick.New(tick.Interval))
		defer f.close()
		// batches counts those that are applied within a time, each of which takes a millisecond.
		batches := func(within time.Duration) (n int) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			for ctx.Err() == nil && f.begin(ctx) == nil {
				time.Sleep(time.Millisecond)
				n++
				if f.end(ctx) != nil {
					break
				}
			}
			return n
		}

		for range 20 {
			tell(reading{value: 5})
			time.Sleep(lookEvery)
		}
		if n := batches(time.Second); n < 999 || p.allowed() != 1 {
			t.Errorf("at full speed, %v: %d batches in a second", p.allowed(), n)
		}
		if held, reason := f.hold(); held != 0 || reason != "" {
			t.Errorf("held %v: %s", held, reason)
		}
		share(0.25)
		if n := batches(time.Minute); n < 14_000 || n > 16_000 {
			t.Errorf("at a quarter: %d batches in a minute", n)
		}
		share(1)

		tell(reading{value: 50})
		batches(2 * tick.Interval) // within a tick nothing is asked again
		before, _ := f.hold()
		events = nil
		if n := batches(101 * time.Second); n < 9 || n > 10 {
			t.Errorf("at a limit that stays crossed: %d batches in 101 s", n)
		}
		held, reason := f.hold()
		if held-before < 100*time.Second || reason != "the p99 is 50 ms, over 20 ms" {
			t.Errorf("held %v: %s", held-before, reason)
		}
		if len(events) != 4 || events[0].Text != "changes wait to be applied: "+reason || *events[0].Share != 0 {
			t.Errorf("events %+v", events)
		}
		share(0)
		if n := batches(time.Hour); n > 0 {
			t.Errorf("stopped by a person: %d batches", n)
		}
		lower := f.lift()
		if n := batches(time.Second); n < 999 {
			t.Errorf("lifted: %d batches in a second", n)
		}
		lower()
		time.AfterFunc(time.Minute, func() { lower = f.lift() })
		if n := batches(time.Minute + time.Second); n < 999 || n > 1001 {
			t.Errorf("lifted after a minute: %d batches in a second", n)
		}
		lower()
		share(1)
		tell(reading{err: errors.New("no answer")})
		if n := batches(time.Hour); n > 0 {
			t.Errorf("no figure: %d batches", n)
		}
		for range 2 {
			tell(reading{value: 5})
		}
		if n := batches(time.Minute); n < 1000 {
			t.Errorf("below the limit again: %d batches in a minute", n)
		}
	})
}

// TestFollowThrottled stops a copy that has caught up: what is written then waits, the status says
// why, and is applied once the copy is let go.
func TestFollowThrottled(t *testing.T) {
	p := newPair(t, "followheld")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "ANALYZE TABLE a")
	o := p.options("a")
	o.Follow = true
	o.Control = filepath.Join(t.TempDir(), "c.sock")
	events := make(chan Event, 10_000)
	o.Observe = func(e Event) { events <- e }
	ended := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), o)
		ended <- err
	}()
	until := func(is func(Event) bool) {
		t.Helper()
		for {
			select {
			case e := <-events:
				if is(e) {
					return
				}
			case err := <-ended:
				t.Fatalf("it ended before: %v", err)
			}
		}
	}
	until(func(e Event) bool { return e.Kind == EventCaughtUp })
	c := NewControl(o.Control)
	defer c.Close()
	stop := 0.0
	if _, err := c.Throttle(t.Context(), ThrottleChange{Share: &stop}); err != nil {
		t.Fatal(err)
	}
	until(func(e Event) bool { return e.Kind == EventThrottle }) // within a tick nothing is asked again
	before := tick.Process().Now()
	hold := tick.Process().Hold()
	defer hold()
	until(func(e Event) bool { return tick.Process().Now() != before })
	sqlExec(t, p.source, "INSERT INTO a VALUES (2)")
	until(func(e Event) bool {
		return e.Kind == EventThrottle && strings.HasPrefix(e.Text, "changes wait to be applied: stopped by")
	})
	s, err := c.Status(t.Context())
	if err != nil || s.Follow == nil || s.Follow.HeldSeconds <= 0 || s.Follow.Held != "stopped by tare copy ctl throttle" {
		t.Errorf("%+v, %v", s, err)
	}
	if got := read(t, p.target, "SELECT COUNT(*) FROM followheld.a"); got[0] != `["1"]` {
		t.Errorf("%v rows while it is stopped", got)
	}
	if _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	p.same(t, "a")
}
