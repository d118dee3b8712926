package follow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A slowSource fails to take the first heartbeats, and has the others in its log.
type slowSource struct {
	binlog.Follower
	fail    []error // of the first heartbeats, in turn
	written uint64
}

func (s *slowSource) CurrentPosition(context.Context) (binlog.Position, error) { return at(1), nil }

func (s *slowSource) WriteHeartbeat(_ context.Context, h binlog.Heartbeat) error {
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = s.fail[1:]
		return err
	}
	s.written = h.Number
	return nil
}

func (s *slowSource) Follow(context.Context, binlog.FollowOptions) (binlog.Changes, error) {
	return slowLog{s: s}, nil
}

type slowLog struct {
	binlog.Changes
	s *slowSource
}

func (l slowLog) Next(_ context.Context, b *binlog.ChangeBatch) error {
	b.Heartbeat, b.Upto = l.s.written, binlog.Position{File: "log.000001", Offset: 2, Heartbeat: "mark"}
	return nil
}

func (slowLog) Close() error { return nil }

// TestFirstHeartbeat starts at sources that do not take the first heartbeat at once: one that takes too long, or
// whose table is locked, is awaited for the patience; one that refuses it is not.
func TestFirstHeartbeat(t *testing.T) {
	late := errors.New("write a heartbeat: no response within 5s")
	locked := &mysqlconn.ServerError{Number: 1205, State: "HY000", Message: "Lock wait timeout exceeded"}
	denied := &mysqlconn.ServerError{Number: 1142, State: "42000", Message: "INSERT command denied"}
	for _, tt := range []struct {
		name  string
		fails []error
		want  string
	}{
		{"at once", nil, ""},
		{"late", []error{late, late}, ""},
		{"locked", []error{locked}, ""},
		{"denied", []error{denied}, "INSERT command denied"},
		{"late, then denied", []error{late, denied}, "INSERT command denied"},
		{"read-only", []error{binlog.ErrReadOnly}, "read-only"},
	} {
		h := NewHeartbeat(HeartbeatOptions{
			Source: &slowSource{fail: tt.fails}, Copy: "copy", Patience: time.Minute, Observe: func(telemetry.Event) {}, Waits: &telemetry.Waits{Observe: func(telemetry.Event) {}},
		})
		mark, err := h.First(t.Context(), []*rowstream.Table{})
		switch {
		case tt.want == "" && (err != nil || mark != "mark"):
			t.Errorf("%s: mark %q, %v", tt.name, mark, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
