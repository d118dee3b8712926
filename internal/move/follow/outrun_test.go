package follow

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
)

// A writingSource is a source whose log grows by 20 MB per second of the test's clock.
type writingSource struct {
	binlog.Follower
	now *time.Time
}

func at(offset int64) binlog.Position {
	return binlog.Position{File: "log.000001", Offset: uint64(offset)}
}

func (s writingSource) CurrentPosition(context.Context) (binlog.Position, error) {
	return at(20e6 * s.now.Unix()), nil
}

func (s writingSource) LogBytes(_ context.Context, from, to binlog.Position) (int64, error) {
	return int64(to.Offset) - int64(from.Offset), nil
}

// TestOutrun checks that the status, the lag and, at intervals, an event report a source that is too fast
// to catch up with, for as long as it is.
func TestOutrun(t *testing.T) {
	now := time.Unix(1000, 0)
	var notified []string
	var last *telemetry.Lag
	f := &Follower{
		now: func() time.Time { return now }, changed: make(chan struct{}), stop: make(chan struct{}),
		o: Options{Source: writingSource{now: &now}, From: at(0), Shared: Shared{Observe: func(e telemetry.Event) {
			if e.Kind == telemetry.EventOutrun {
				notified = append(notified, e.Text)
			}
			if e.Kind == telemetry.EventLag {
				last = e.Lag
			}
		}}},
		applied: at(20e6 * 900),
	}
	w := lagWatch{f: f}
	second := func(applied int64) {
		t.Helper()
		now = now.Add(time.Second)
		f.mu.Lock()
		f.applied, f.changes = at(int64(f.applied.Offset)+applied), f.changes+applied/1000
		f.mu.Unlock()
		if err := w.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		second(5e6)
	}
	if s := f.Status(); s.Outrun != nil || len(notified) > 0 {
		t.Errorf("before the window is full: %v, %q", s.Outrun, notified)
	}
	for range 60 {
		second(5e6)
	}
	const rates = "over 30 s the source wrote 20.00 MB/s of binary log and the target applied 5.00 MB/s (about 20000 rows/s against 5000, the lag grows by 15.00 MB/s)"
	if s := f.Status(); s.Outrun == nil || s.Outrun.String() != rates || last.Outrun == nil || *last.Outrun != *s.Outrun {
		t.Errorf("the status is %v, the lag's %v", s.Outrun, last.Outrun)
	}
	if len(notified) != 1 || !strings.HasPrefix(notified[0], "it will not catch up: "+rates) {
		t.Errorf("it was told %q", notified)
	}
	for range 31 {
		second(0)
	}
	if s := f.Status(); s.Outrun == nil || s.Outrun.SourceRows != 0 || strings.Contains(s.Outrun.String(), "rows/s") {
		t.Errorf("with nothing applied, %v", s.Outrun)
	}
	for range 31 {
		second(21e6)
	}
	if s := f.Status(); s.Outrun != nil || last.ETASeconds == 0 {
		t.Errorf("when it catches up again: %v, %+v", s.Outrun, last)
	}
}
