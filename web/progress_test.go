package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// secretClause marks the parts of a progress that accounts without statement texts must not see.
const secretClause = "secret_qzx"

// testProgress is the progress of an alteration that was swapped after a failed try.
func testProgress(start time.Time) Progress {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	point := func(s int, ms float64) throttle.LivePoint { return throttle.LivePoint{Time: at(s), P99: &ms} }
	p := Progress{Status: telemetry.IdleStatus(), Lines: []ProgressLine{{Time: at(1), Text: "altered: " + secretClause}, {Time: at(2), Text: "newest line"}}}
	p.From, p.To, p.Started, p.Phase = "db1:3306", "db1:3306", start, telemetry.RunFollowing
	p.Progress = &telemetry.CopyProgress{Percent: 42.5, Rows: 4250, RowsEstimate: 10_000, RowsPerSecond: 120, ETASeconds: new(float64(48))}
	p.Throttle.Share, p.Throttle.Reason = 0.25, "the p99 of live traffic is 31 ms, over 20 ms"
	p.Follow = &telemetry.FollowStatus{Lag: "3 s behind, confirmed 0.2 s ago", LagSeconds: new(float64(3))}
	p.Waits = []telemetry.WaitStatus{{For: "the throttle", Seconds: 7}}
	p.Alter = &telemetry.AlterStatus{
		Table: "shop." + hostile, Alter: "ADD COLUMN a INT DEFAULT " + secretClause, Way: "copy", Why: "no INSTANT: " + secretClause,
		Steps: []telemetry.StepStatus{{Step: telemetry.StepChecking, Start: start}, {Step: telemetry.StepCopying, Start: at(4)}, {Step: telemetry.StepSwapping, Start: at(20)}},
		Tries: []telemetry.LockTry{{Start: at(20), Seconds: 1.5, Error: "lock: " + secretClause}, {Start: at(22), Seconds: 0.004}}, LockTries: 2, LockSeconds: 1.5,
		Queue:        []telemetry.QueueItem{{Line: 3, Table: "shop.first", State: telemetry.QueueEarlier}, {Line: 4, Table: "shop." + hostile, State: telemetry.QueueRunning}},
		PauseSeconds: 0.004, Old: &telemetry.OldTable{Name: "shop._tare_old_t", State: "kept", Until: new(at(3600)), NoWay: "altered by " + secretClause},
	}
	p.Live = &throttle.LiveStatus{Limit: 20, Interval: 2, Points: []throttle.LivePoint{point(0, 5), {Time: at(2)}, point(4, 31)}}
	return p
}

// TestProgress requests the first page of an alteration and its JSON, as an account that sees statement texts and as one that does not.
func TestProgress(t *testing.T) {
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	o := Options{Title: "tare alter", Gatherer: testOptions().Gatherer, Log: testOptions().Log, Now: func() time.Time { return start.Add(30 * time.Second) }}
	o.Progress = func() Progress { return testProgress(start) }
	o.Gate = testGate(t, o.Log)
	h := New(o).Handler()
	for _, user := range []string{"dba", "guest"} {
		code, page := requestAs(t, h, user, "/")
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", user, code, page)
		}
		for _, want := range []string{
			"shop.&lt;script&gt;", "swapping", "4,250 of about", "48 s left", "120 /s", "25 %", "31 ms, over 20 ms", "3 s behind, confirmed 0.2 s ago", "waits for the throttle, 7 s so far",
			"kept", "until 2026-03-04 06:06:07", "1.5 s", "2 in all; the swap took 4 ms", "2026-03-04 05:06:27", `id="live"`, `class="line c2"`, "05:06:11 UTC copying", "/api/v1/progress",
			"shop.first", `<span class="tag good">earlier</span>`, `<span class="tag">running</span>`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page is without %q:\n%s", user, want, page)
			}
		}
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "ZgotmplZ") {
			t.Errorf("%s: a name is shown as markup", user)
		}
		code, body := requestAs(t, h, user, "/api/v1/progress")
		var got Progress
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK || got.Alter.LockTries != 2 || len(got.Live.Points) != 3 || got.Live.Points[1].P99 != nil {
			t.Errorf("%s: %d %v: %s", user, code, err, body)
		}
		sees := user == "dba"
		if n := strings.Count(page, secretClause) + strings.Count(body, secretClause); sees && n < 10 || !sees && n > 0 {
			t.Errorf("%s: %d texts in page and JSON", user, n)
		}
		if newest, older := strings.Index(page, "newest line"), strings.Index(page, "altered: "); sees && (newest < 0 || newest > older) {
			t.Errorf("the newest line is at %d, the one before at %d", newest, older)
		}
	}
}

// TestProgressIdle requests the page before anything has started, and without a gateway.
func TestProgressIdle(t *testing.T) {
	o := testOptions()
	o.Statements = nil
	o.Progress = func() Progress { return Progress{Status: telemetry.IdleStatus(), Lines: []ProgressLine{}} }
	code, page, _ := request(t, New(o).Handler(), "GET", "/")
	if code != http.StatusOK || !strings.Contains(page, "preparing") || !strings.Contains(page, "No events") || strings.Contains(page, `id="live"`) {
		t.Errorf("%d %s", code, page)
	}
}
