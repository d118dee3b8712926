package telemetry

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestWaits checks that a long wait is reported when it has lasted and when it is over, and that a short one
// is not.
func TestWaits(t *testing.T) { synctest.Test(t, testWaits) }

func testWaits(t *testing.T) {
	events := make(chan Event, 4)
	w := &Waits{Observe: func(e Event) { events <- e }}
	long := w.Begin("the source", "it is away", time.Minute)
	w.Begin("the target", "", 0)()
	if s := w.Status(); len(s) != 1 || s[0].For != "the source" || s[0].Limit != 60 {
		t.Errorf("waits: %+v, want the one for the source", s)
	}
	if e := testwait.Receive(t, "the wait to be reported", events); e.Kind != EventWait || e.Wait.For != "the source" || e.Wait.Detail != "it is away" {
		t.Errorf("event %+v, want the wait for the source", e)
	}
	long()
	if e := testwait.Receive(t, "its end to be reported", events); e.Kind != EventWaited || e.Wait.For != "the source" {
		t.Errorf("event %+v, want the end of the wait", e)
	}
	if s := w.Status(); len(s) != 0 || len(events) != 0 {
		t.Errorf("waits: %+v, %d more events, want none", s, len(events))
	}
}

// TestWaitsMoving checks that a wait is reported when no further parts arrive, and that its end is reported
// with the next part.
func TestWaitsMoving(t *testing.T) { synctest.Test(t, testWaitsMoving) }

func testWaitsMoving(t *testing.T) {
	events := make(chan Event, 4)
	w := &Waits{Observe: func(e Event) { events <- e }}
	moved, end := w.BeginMoving("rows")
	for range 5 {
		time.Sleep(time.Second)
		moved()
	}
	if len(events) != 0 {
		t.Errorf("an event while pieces came: %+v", <-events)
	}
	time.Sleep(3 * time.Second)
	if e := testwait.Receive(t, "the wait to be reported", events); e.Kind != EventWait || e.Wait.For != "rows" {
		t.Errorf("event %+v, want the wait", e)
	}
	moved()
	if e := testwait.Receive(t, "the next piece to be reported", events); e.Kind != EventWaited || e.Wait.Seconds != 3 {
		t.Errorf("event %+v, want the end of 3 s", e)
	}
	end()
	if s := w.Status(); len(s) != 0 || len(events) != 0 {
		t.Errorf("waits: %+v, %d more events, want none", s, len(events))
	}
}
