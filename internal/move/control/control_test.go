package control

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// fakeControlled records the commands it receives.
type fakeControlled struct {
	reported []string
	p        *throttle.Pacer
	observe  func(telemetry.Event)
}

func (f *fakeControlled) controlled() Controlled {
	return Controlled{
		Status: func() telemetry.Status {
			return telemetry.Status{Version: telemetry.StatusVersion, From: "db1:3306", To: "db2:3306", Phase: telemetry.RunCopying, Throttle: f.p.Status()}
		},
		Change: f.p.SetLimits, Observe: f.observe,
		Abort:  func() { f.reported = append(f.reported, "abort") },
		Finish: func() error { return ErrNotFollowing },
	}
}

func TestControl(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Name("db2:3306", []tabledef.Spec{{Schema: "shop", Name: "orders"}}))
	limits := throttle.Options{MaxP99: 20 * time.Millisecond, Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:1"}}
	var calls []string
	f := &fakeControlled{p: throttle.NewPacer(throttle.PacerOptions{Limits: limits}), observe: func(e telemetry.Event) {
		if e.Kind == telemetry.EventControl {
			calls = append(calls, e.Text)
		}
	}}
	stale, err := net.Listen("unix", path) // left behind by a killed copy
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	if running, err := Running(t.Context(), dir); err != nil || len(running) != 0 {
		t.Errorf("beside a stale socket: %v, %v", running, err)
	}
	end, err := Serve(path, f.controlled())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Serve(path, f.controlled()); err == nil || !strings.Contains(err.Error(), "another copy listens there") {
		t.Errorf("a second one: %v", err)
	}
	if sockets, err := Sockets(dir); err != nil || len(sockets) != 1 || sockets[0] != path {
		t.Errorf("sockets %v, %v", sockets, err)
	}

	c := NewClient(path)
	defer c.Close()
	ctx := t.Context()
	number := func(v float64) *float64 { return &v }
	if s, err := c.Status(ctx); err != nil || s.Version != 1 || s.Throttle.Limits[0].Bound != 20 || s.Throttle.Reason == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := c.Throttle(ctx, throttle.LimitChange{Share: number(0), P99: number(30)}); err != nil || !s.Throttle.Stopped || s.Throttle.Limits[0].Bound != 30 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := c.Resume(ctx); err != nil || s.Throttle.Most != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, wrong := range []struct {
		change throttle.LimitChange
		want   string
	}{
		{throttle.LimitChange{Share: number(1.5)}, "a share of 1.5: use 0 to 1"},
		{throttle.LimitChange{Share: number(0.5), Lag: number(3)}, "started without option max-lag"},
		{throttle.LimitChange{P99: number(-1)}, "option max-p99 -1: use 0 or more"},
	} {
		if _, err := c.Throttle(ctx, wrong.change); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("got %v, want %s", err, wrong.want)
		}
	}
	if s := f.p.Status(); s.Most != 1 || s.Limits[0].Bound != 30 {
		t.Errorf("a change that was refused was made in part: %+v", s)
	}
	if _, err := c.Finish(ctx); err == nil || !strings.Contains(err.Error(), "does not follow") {
		t.Errorf("finish: %v", err)
	}
	if _, err := c.Abort(ctx); err != nil || len(f.reported) != 1 {
		t.Errorf("abort: %v, told %v", err, f.reported)
	}
	end(ErrAborted)
	const by = " by the owner of the control socket: status "
	want := []string{
		"POST /v1/throttle" + by + "200", "POST /v1/resume" + by + "200", "POST /v1/throttle" + by + "409", "POST /v1/throttle" + by + "409",
		"POST /v1/throttle" + by + "409", "POST /v1/finish" + by + "409", "POST /v1/abort" + by + "200",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("recorded calls %q, want %q", calls, want)
	}
	stopped := func(wants ...string) {
		t.Helper()
		_, err := c.Status(ctx)
		last := LastStopped(dir)
		for _, want := range append(wants, "no copy listens at "+path) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("after the end: %v, want %q", err, want)
			}
			if last == nil || !strings.Contains(last.Error(), want) {
				t.Errorf("the last stop in the directory: %v, want %q", last, want)
			}
		}
	}
	stopped("db1:3306 to db2:3306, process 0, stopped at ", ": stopped by ctl abort: the same command resumes from here")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(path)+endedSuffix {
		t.Errorf("left behind: %v, %v", left, err)
	}

	if end, err = Serve(path, f.controlled()); err != nil {
		t.Fatal(err)
	}
	if e := notRunning(path); e.Last != nil {
		t.Errorf("the record %v outlives the start of another copy", e.Last)
	}
	end(nil)
	stopped("db1:3306 to db2:3306, process 0, finished at ")

	if err := forgetEnded(path); err != nil { // as a copy does that is killed afterwards
		t.Fatal(err)
	}
	if stale, err = net.Listen("unix", path); err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	stopped("the last one was killed")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(ctx); err == nil || !strings.Contains(err.Error(), "none has left a record there") {
		t.Errorf("where none was started: %v", err)
	}
	if last := LastStopped(dir); last != nil {
		t.Errorf("the last stop in an empty directory: %v", last)
	}
}

// TestControlPaths checks paths that cannot be sockets, and the names of control sockets.
func TestControlPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "there is a file of that name, which is no socket",
		filepath.Join(dir, strings.Repeat("x", 100)): "name a shorter one with option control-socket",
		filepath.Join(dir, "no", "dir"):              "no such file or directory",
	} {
		if _, err := listen(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	long := Name("db:1", []tabledef.Spec{{Schema: strings.Repeat("ü/", 40), Name: "b"}, {Schema: "z", Name: "y"}})
	other := Name("db:2", []tabledef.Spec{{Schema: "z", Name: "y"}, {Schema: strings.Repeat("ü/", 40), Name: "b"}})
	if len(long) > 64 || strings.Contains(long, "/") || long == other {
		t.Errorf("names %s and %s", long, other)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	made, err := Dir()
	if err != nil || made != filepath.Join(dir, "tare") {
		t.Errorf("%s, %v", made, err)
	}
	if err := os.Chmod(made, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(); err == nil || !strings.Contains(err.Error(), "only you can enter") {
		t.Errorf("a directory for all: %v", err)
	}
}

// TestSocketWithoutCopy checks that requests between the copies of a tare alter name the phase to wait for.
func TestSocketWithoutCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	s, err := Open(path, SocketOptions{Status: telemetry.IdleStatus, Abort: func() {}, Observe: func(telemetry.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(nil)
	c := NewClient(path)
	defer c.Close()
	none := 0.0
	for what, request := range map[string]func() error{
		ErrNotBack.Error():             func() error { _, err := c.Revert(t.Context(), false); return err },
		string(telemetry.RunReversing): func() error { _, err := c.Finish(t.Context()); return err },
		ErrNoCopy.Error():              func() error { _, err := c.Throttle(t.Context(), throttle.LimitChange{Share: &none}); return err },
	} {
		if err := request(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
}
