package copier_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/move/copier"
)

// TestFollowThrottled stops a copy that has caught up: later changes wait, the status reports the reason, and
// they are applied once the copy is resumed.
func TestFollowThrottled(t *testing.T) {
	p := newPair(t, "followheld")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "ANALYZE TABLE a")
	o := p.options("a")
	o.Follow = true
	o.Control = filepath.Join(t.TempDir(), "c.sock")
	events := make(chan telemetry.Event, 10_000)
	o.Observe = func(e telemetry.Event) { events <- e }
	ended := make(chan error, 1)
	go func() {
		_, err := copier.Run(t.Context(), o)
		ended <- err
	}()
	until := func(is func(telemetry.Event) bool) {
		t.Helper()
		awaitEvent(t, events, ended, is)
	}
	until(func(e telemetry.Event) bool { return e.Kind == telemetry.EventCaughtUp })
	c := control.NewClient(o.Control)
	defer c.Close()
	stop := 0.0
	if _, err := c.Throttle(t.Context(), throttle.LimitChange{Share: &stop}); err != nil {
		t.Fatal(err)
	}
	until(func(e telemetry.Event) bool { return e.Kind == telemetry.EventThrottle }) // limits are checked only once per tick
	before := tick.Process().Now()
	hold := tick.Process().Acquire()
	defer hold()
	until(func(e telemetry.Event) bool { return tick.Process().Now() != before })
	sqlExec(t, p.source, "INSERT INTO a VALUES (2)")
	until(func(e telemetry.Event) bool {
		return e.Kind == telemetry.EventThrottle && strings.HasPrefix(e.Text, "changes wait to be applied: paused by")
	})
	s, err := c.Status(t.Context())
	if err != nil || s.Follow == nil || s.Follow.HeldSeconds <= 0 || s.Follow.Held != "paused by ctl pause or throttle" {
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
	if err := testwait.Receive(t, "the copy to finish", ended); err != nil {
		t.Fatal(err)
	}
	p.same(t, "a")
}
