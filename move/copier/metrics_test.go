package copier_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// gathered returns the values of the metrics, by name and label values.
func gathered(t *testing.T, m *copier.Metrics) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "tare_copy_")
			for _, l := range one.GetLabel() {
				name = fmt.Sprint(name, " ", l.GetValue())
			}
			all[name] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return all
}

// TestMetricsOfStatus compares the gauges with a status: unknown values are absent.
func TestMetricsOfStatus(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	bytes := int64(77)
	phases := func(now telemetry.RunPhase, more map[string]float64) map[string]float64 {
		for _, p := range []telemetry.RunPhase{telemetry.RunPreparing, telemetry.RunCopying, telemetry.RunVerifying, telemetry.RunFollowing, telemetry.RunReversing} {
			more["phase "+string(p)] = 0
		}
		more["phase "+string(now)] = 1
		return more
	}
	for _, tt := range []struct {
		name   string
		status telemetry.Status
		want   map[string]float64
	}{
		{"preparing", telemetry.Status{Phase: telemetry.RunPreparing, Throttle: throttle.Status{Share: 1}}, phases(telemetry.RunPreparing, map[string]float64{"throttle_rate": 1})},
		{
			"copying, and waiting",
			telemetry.Status{
				Phase: telemetry.RunCopying, Progress: &telemetry.CopyProgress{Percent: 25, Rows: 10, RowsEstimate: 40},
				Throttle: throttle.Status{Share: 0.5, Limits: []throttle.LimitStatus{
					{Name: "lag of r", Unit: "s", Bound: 10, Value: 4, HeldSeconds: 2},
					{Name: "lag of r", Unit: "s", Bound: 10, Value: 6, HeldSeconds: 3},
					{Name: "p99", Unit: "ms", Bound: 20, Value: 12},
					{Name: "threads", Bound: 8, Error: "unreachable"},
				}},
				Waits: []telemetry.WaitStatus{{For: "the throttle", Seconds: 9}, {For: "the throttle", Seconds: 4}, {For: "a lock", Seconds: 1}},
			},
			phases(telemetry.RunCopying, map[string]float64{
				"throttle_rate": 0.5, "throttle_held_seconds_total lag of r": 5, "limit_value lag of r": 6, "limit_bound lag of r": 10,
				"limit_value p99": 0.012, "limit_bound p99": 0.02, "limit_bound threads": 8, "rows": 10, "rows_estimate": 40, "progress_ratio": 0.25,
				"wait_seconds the throttle": 9, "wait_seconds a lock": 1,
			}),
		},
		{"a lag that was never proven", telemetry.Status{Phase: telemetry.RunFollowing, Follow: &telemetry.FollowStatus{}}, phases(telemetry.RunFollowing, map[string]float64{"throttle_rate": 0, "caught_up": 0, "outrun": 0})},
		{
			"a lag that is no longer known",
			telemetry.Status{Phase: telemetry.RunFollowing, Follow: &telemetry.FollowStatus{ConfirmedSeconds: number(40), CaughtUp: true}},
			phases(telemetry.RunFollowing, map[string]float64{"throttle_rate": 0, "caught_up": 1, "outrun": 0, "lag_confirmed_timestamp_seconds": 960}),
		},
		{
			"a lag",
			telemetry.Status{Phase: telemetry.RunReversing, Follow: &telemetry.FollowStatus{LagSeconds: number(0.5), ConfirmedSeconds: number(0.25), LagBytes: &bytes, Outrun: &telemetry.Outrun{}}},
			phases(telemetry.RunReversing, map[string]float64{
				"throttle_rate": 0, "caught_up": 0, "outrun": 1, "lag_seconds": 0.5, "lag_confirmed_timestamp_seconds": 999.75, "lag_bytes": 77,
			}),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &copier.Metrics{}
			m.Show(time.Unix(1000, 0), func() telemetry.Status { return tt.status })
			got := gathered(t, m)
			maps.DeleteFunc(got, func(name string, v float64) bool { return v == 0 && strings.Contains(name, "_total") })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMetrics compares the metrics of a copy with its rows and changes, while it follows and after its end.
func TestMetrics(t *testing.T) {
	p := newPair(t, "metered")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a SELECT seq, seq FROM seq_1_to_500")
	o := p.options("a")
	o.Metrics = &copier.Metrics{}
	if got := gathered(t, o.Metrics); got["phase preparing"] != 1 || got["rows_total"] != 0 {
		t.Errorf("before the run: %v", got)
	}
	begun := float64(time.Now().Unix())
	f := startFollowing(t, o)
	sqlExec(t, p.source, "INSERT INTO a VALUES (1000, 1), (1001, 1), (1002, 1)", "UPDATE a SET v = 0 WHERE id IN (1, 2)", "DELETE FROM a WHERE id = 3")
	var got map[string]float64
	want := map[string]float64{
		"rows_total": 500, "rows": 500, "progress_ratio": 1, "changes_total insert": 3, "changes_total update": 2, "changes_total delete": 1,
		"phase following": 1, "phase copying": 0, "throttle_rate": 1, "caught_up": 1,
	}
	testwait.UntilState(t, "the changes, and a proof of the lag after them", func() (string, bool) { // values are read one after the other
		got = gathered(t, o.Metrics)
		lag, ok := got["lag_seconds"]
		ok = ok && lag < 10
		for name, v := range want {
			ok = ok && got[name] == v
		}
		return fmt.Sprint(got), ok
	})
	if got["chunks_total"] < 1 || got["row_bytes_total"] < 500 {
		t.Errorf("%v chunks of %v bytes", got["chunks_total"], got["row_bytes_total"])
	}
	if proven := got["lag_confirmed_timestamp_seconds"]; proven < begun || proven > float64(time.Now().Unix()+1) {
		t.Errorf("the lag was proven at %v, the copy began at %v", proven, begun)
	}
	f.finish()
	if after := gathered(t, o.Metrics); after["changes_total insert"] != 3 || after["rows_total"] != 500 {
		t.Errorf("after the run: %v", after)
	}
}
