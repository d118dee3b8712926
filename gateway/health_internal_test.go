package gateway

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// TestOutcomesAge checks how long Ready returns the outcome of a login.
func TestOutcomesAge(t *testing.T) {
	s := &Server{opts: Options{Diag: slog.New(slog.DiscardHandler)}}
	down := errors.New("down")
	for _, tt := range []struct {
		name   string
		result error
		lost   bool
		age    time.Duration
		want   bool
	}{
		{"ready", nil, false, 20 * time.Second, true},
		{"ready long ago", nil, false, time.Minute, false},
		{"ready just now, before a lost connection", nil, true, 0, true},
		{"ready, before a lost connection", nil, true, 2 * time.Second, false},
		{"down just now", down, false, 0, true},
		{"down", down, false, 2 * time.Second, false},
	} {
		var target target
		s.report(&target, tt.result)
		if tt.lost {
			target.health.lost()
		}
		target.health.at = target.health.at.Add(-tt.age)
		if err, ok := target.health.last(readyLifeDenied); ok != tt.want || !errors.Is(err, tt.result) {
			t.Errorf("%s: %v, %v", tt.name, err, ok)
		}
		s.report(&target, nil)
		if _, ok := target.health.last(readyLifeDenied); !ok {
			t.Errorf("%s: a new outcome is not returned", tt.name)
		}
	}
}
