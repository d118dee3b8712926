package copier

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// TestMergeStatus merges the statuses of two parts, whose order decides nothing but that of their lists.
func TestMergeStatus(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	early, late := time.Unix(1e9, 0), time.Unix(2e9, 0)
	a := telemetry.Status{
		From: "s1", To: "t1", Servers: []string{"x", "y"}, Started: late, Phase: telemetry.RunVerifying, Throttle: throttle.Status{Share: 0.5, Reason: "a"},
		Tables: []telemetry.TableStatus{{Source: "s.a", Target: "d.a"}}, Waits: []telemetry.WaitStatus{{}},
		Verify: &telemetry.VerifyStatus{Chunks: 1, Compared: 2, Waiting: 3, Mismatches: 4}, Progress: &telemetry.CopyProgress{Percent: 50, Rows: 1, RowsEstimate: 2, RowsDeviation: new(int64), RowsPerSecond: 3, BytesPerSecond: 4, ETASeconds: number(5)},
		Follow: &telemetry.FollowStatus{Position: "p1", LagSeconds: number(1), CaughtUp: true},
	}
	five := int64(5)
	b := telemetry.Status{
		From: "s2", To: "t2", Servers: []string{"y", "z"}, Started: early, Phase: telemetry.RunFollowing, Throttle: throttle.Status{Share: 0.7, Reason: "b"},
		Tables: []telemetry.TableStatus{{Source: "s.b", Target: "d.b"}}, Verify: &telemetry.VerifyStatus{Chunks: 10, Compared: 20, Waiting: 30, Mismatches: 40},
		Progress: &telemetry.CopyProgress{Percent: 100, Rows: 10, RowsEstimate: 20, RowsDeviation: &five, RowsPerSecond: 30, BytesPerSecond: 40, ETASeconds: number(4)},
		Follow:   &telemetry.FollowStatus{Position: "p2", LagSeconds: number(2)},
	}
	for _, parts := range [][]telemetry.Status{{a, b}, {b, a}} {
		first, second := parts[0], parts[1]
		for _, ofSources := range []bool{false, true} {
			got := mergeStatus(parts, ofSources)
			want := telemetry.Status{
				From: first.From, To: "t1,t2", Started: early, Phase: telemetry.RunVerifying, Throttle: a.Throttle, Parts: parts, Waits: []telemetry.WaitStatus{{}},
				Tables: []telemetry.TableStatus{{Source: "s.a", Target: "t1 d.a"}, {Source: "s.b", Target: "t2 d.b"}},
				Verify: &telemetry.VerifyStatus{Chunks: 11, Compared: 22, Waiting: 33, Mismatches: 44}, Follow: &telemetry.FollowStatus{Position: "p2", LagSeconds: number(2)},
				Progress: &telemetry.CopyProgress{Percent: 75, Rows: 11, RowsEstimate: 22, RowsDeviation: &five, RowsPerSecond: 33, BytesPerSecond: 44, ETASeconds: number(5)},
			}
			want.Servers = []string{"x", "y", "z"}
			if first.From == "s2" {
				want.Servers, want.To = []string{"y", "z", "x"}, "t2,t1"
				want.Tables[0], want.Tables[1] = want.Tables[1], want.Tables[0]
			}
			if ofSources {
				want.From, want.To = first.From+","+second.From, first.To
				for i, p := range parts {
					want.Tables[i] = telemetry.TableStatus{Source: p.From + " " + p.Tables[0].Source, Target: p.Tables[0].Target}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("of sources: %t, first %s:\n%s", ofSources, first.From, diff)
			}
		}
	}
	change := func(f func(*telemetry.Status)) telemetry.Status {
		c := b
		f(&c)
		return mergeStatus([]telemetry.Status{a, c}, false)
	}
	if got := change(func(s *telemetry.Status) { s.Throttle.Stopped = true }); got.Throttle.Reason != "b" {
		t.Errorf("a part that is stopped: %+v", got.Throttle)
	}
	if got := change(func(s *telemetry.Status) { s.Throttle.Share = 0.5 }); got.Throttle.Reason != "a" {
		t.Errorf("parts at the same rate: %+v", got.Throttle)
	}
	if got := change(func(s *telemetry.Status) { s.Started = time.Time{} }); !got.Started.Equal(late) {
		t.Errorf("a part that has not started: %v", got.Started)
	}
	if got := change(func(s *telemetry.Status) { s.Progress, s.Verify, s.Follow = nil, nil, nil }); got.Progress != nil || got.Follow != nil || got.Verify.Chunks != 1 {
		t.Errorf("a part without progress: %+v", got)
	}
	if got := change(func(s *telemetry.Status) {
		s.Progress = &telemetry.CopyProgress{Percent: 100}
		s.Follow = &telemetry.FollowStatus{Lag: "finished", CaughtUp: true}
	}); got.Progress.RowsDeviation != nil || *got.Progress.ETASeconds != 5 || got.Follow.Position != "p1" || !got.Follow.CaughtUp {
		t.Errorf("a part that has finished: %+v, %+v", got.Progress, got.Follow)
	}
	if got := change(func(s *telemetry.Status) { s.Follow = &telemetry.FollowStatus{Position: "unknown"} }); got.Follow.Position != "unknown" || got.Follow.CaughtUp {
		t.Errorf("a part whose lag is unknown: %+v", got.Follow)
	}
	if got := change(func(s *telemetry.Status) { s.Phase = telemetry.RunReversing }); got.Phase != telemetry.RunVerifying {
		t.Errorf("the phase is %v", got.Phase)
	}
	if got := mergeStatus([]telemetry.Status{{From: ""}, {From: "s2", Started: early}}, false); got.From != "s2" || !got.Started.Equal(early) || got.Verify != nil {
		t.Errorf("a first part without a status: %+v", got)
	}
}
