package copier_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// awaitEvent waits for an event of a running copy.
func awaitEvent(t *testing.T, events <-chan telemetry.Event, ended <-chan error, is func(telemetry.Event) bool) telemetry.Event {
	t.Helper()
	late := time.After(testwait.Limit)
	for {
		select {
		case e := <-events:
			if is(e) {
				return e
			}
		case err := <-ended:
			t.Fatalf("it ended before: %v", err)
		case <-late:
			t.Fatal("waited too long for the event")
		}
	}
}

// TestThrottledCopy stops a copy by its limits, changes them while it is stopped, aborts it and resumes it:
// directly and through a service.
func TestThrottledCopy(t *testing.T) {
	p := newPair(t, "throttled")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(100))",
		"CREATE TABLE load_ (v INT)", "INSERT INTO load_ VALUES (7)", "INSERT INTO a SELECT seq, REPEAT('x', 100) FROM seq_1_to_3000", "ANALYZE TABLE a")
	for _, how := range []string{"direct", "wire"} {
		t.Run(how, func(t *testing.T) {
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS throttled", "DROP DATABASE IF EXISTS _tare")
			o := p.options("a")
			if how == "wire" {
				o.From = overTheWire(t, root(p.from), wire.NoCompression)
			}
			o.ChunkBytes, o.Workers = 15_000, 2
			o.Control = filepath.Join(t.TempDir(), "c.sock")
			o.Throttle = throttle.Options{Server: root(p.from), Query: "SELECT v FROM throttled.load_", Above: 3}
			c := control.NewClient(o.Control)
			defer c.Close()
			events := make(chan telemetry.Event, 1000)
			o.Observe = func(e telemetry.Event) { events <- e }
			ended := make(chan error, 1)
			until := func(share float64) telemetry.Event {
				t.Helper()
				return awaitEvent(t, events, ended, func(e telemetry.Event) bool {
					return e.Kind == telemetry.EventThrottle && (*e.Share == 0) == (share == 0)
				})
			}
			var report *copier.Report
			start := func() {
				go func() {
					var err error
					report, err = copier.Run(t.Context(), o)
					ended <- err
				}()
			}

			start()
			if e := until(0); !strings.Contains(e.Text, "the answer to the throttle query is 7, over 3") {
				t.Errorf("%+v", e)
			}
			s, err := c.Status(t.Context())
			if err != nil || s.Phase == telemetry.RunVerifying || !s.Throttle.Stopped || s.Throttle.Limits[0].Value != 7 || s.Tables[0].Rows != 0 {
				t.Fatalf("%+v, %v", s, err)
			}
			if _, err := c.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := testwait.Receive(t, "the copy to stop", ended); !errors.Is(err, control.ErrAborted) {
				t.Fatalf("aborted: %v", err)
			}

			start()
			until(0)
			above := 100.0
			if _, err := c.Throttle(t.Context(), throttle.LimitChange{Above: &above}); err != nil {
				t.Fatal(err)
			}
			until(1)
			if err := testwait.Receive(t, "the copy to finish", ended); err != nil {
				t.Fatal(err)
			}
			if l := report.Throttle.Limits[0]; l.Bound != 100 || l.HeldSeconds <= 0 || report.Tables[0].Rows != 3000 {
				t.Errorf("%+v", report)
			}
			p.same(t, "a")
		})
	}
}

// TestSilentSource sets a limit on a metric that is unavailable: the copy writes no rows, and its error gives
// the reason.
func TestSilentSource(t *testing.T) {
	p := newPair(t, "silent")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	o := p.options("a")
	o.Throttle = throttle.Options{MaxP99: time.Millisecond, Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:1"}, Patience: time.Millisecond}
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the p99 of live traffic is not known for 1ms") {
		t.Fatal(err)
	}
	// The copy may end before or after it has created the table.
	if tables := read(t, p.target, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'silent'"); len(tables) == 0 {
		return
	}
	if got := read(t, p.target, "SELECT COUNT(*) FROM silent.a"); got[0] != `["0"]` {
		t.Errorf("%v rows were written", got)
	}
}
