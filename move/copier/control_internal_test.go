package copier

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestControlBetweenRuns checks that a lost lease stops a run but not the control socket, and that an
// accepted finish applies to the next run.
func TestControlBetweenRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	aborted := false
	c := &controlled{path: path, abort: func() { aborted = true }}
	defer c.close(nil)
	if c.finishes(telemetry.RunReversing) {
		t.Error("a finish is known before it was requested")
	}
	options := &Options{Follow: true, To: mysqlconn.Config{Addr: "target:3306"}, waits: &telemetry.Waits{}}
	start := func() (*run, *fakeStream) {
		r := newRun(options, options.newPacer(), c)
		r.from = sourceAt{addr: "source:3306"}
		if err := c.attach(r.monitor); err != nil {
			t.Fatal(err)
		}
		f := &fakeStream{}
		r.monitor.watch(f, telemetry.RunReversing)
		return r, f
	}
	_, f := start()
	if err := c.finish(); err != nil {
		t.Fatal(err)
	}
	if !f.finish {
		t.Error("the follower was not told to finish")
	}
	c.detach()
	if s := c.status(); s.Phase != telemetry.RunPreparing || s.From != "source:3306" {
		t.Errorf("between two runs the status is %+v", s)
	}
	if err := c.finish(); !errors.Is(err, control.ErrBetweenRuns) {
		t.Errorf("finish between two runs: %v", err)
	}
	if err := c.change(throttle.LimitChange{}); !errors.Is(err, control.ErrBetweenRuns) {
		t.Errorf("throttle between two runs: %v", err)
	}
	if _, f := start(); !f.finish {
		t.Error("the next run's follower does not finish")
	}
	c.abort()
	if !aborted {
		t.Error("abort did not arrive")
	}
}

// A fakeStream records a call of Finish.
type fakeStream struct{ finish bool }

func (f *fakeStream) Finish() { f.finish = true }

func (f *fakeStream) Status() *telemetry.FollowStatus { return nil }

// sourceAt is a source with only an address.
type sourceAt struct {
	binlog.Follower
	addr string
}

func (s sourceAt) Addr() string { return s.addr }
