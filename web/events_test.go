package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// eventsOf returns the events of a page, one per line: the tag and the text.
func eventsOf(body string) string {
	_, list, _ := strings.Cut(body, `<ul class="events">`)
	list, _, _ = strings.Cut(list, "</ul>")
	tags := regexp.MustCompile(`<[^>]*>`)
	var lines []string
	for _, item := range strings.Split(list, "<li>")[1:] {
		lines = append(lines, strings.Join(strings.Fields(tags.ReplaceAllString(item, " ")), " "))
	}
	return strings.Join(lines, "\n")
}

// TestEvents expects the first page to list events that need attention, grave and current ones first.
func TestEvents(t *testing.T) {
	now := time.Date(2026, 1, 31, 2, 30, 0, 0, time.UTC)
	o := testOptions()
	o.Statements = &fakeStatements{}
	o.Now = func() time.Time { return now }
	o.Ready = func(context.Context) error { return errors.New("backend db:3306: connection refused") }
	o.Routes = []Route{NewRoute(access.For(access.Operator), "GET /api/v1/route", http.NotFoundHandler()).Listed("/api/v1/route", "the route")}
	o.Gate = testGate(t, o.Log)
	o.Events = func() []Event {
		return []Event{
			{Time: now.Add(-20 * time.Minute), Name: "Switched", Text: "To the standby.", Link: "/api/v1/route"},
			{Time: now.Add(-10 * time.Minute), Name: "Digests made room", Text: "7."},
			{Time: now.Add(-2 * time.Hour), Name: "Too early", Text: "For this time."},
			{Time: now.Add(-2 * time.Hour), Lasts: true, Name: "Early", Text: "And lasts."},
		}
	}
	asked := 0
	o.Copies = func(context.Context) Copies {
		asked++
		return Copies{
			Target: "b:3306", Problems: []string{"read _tare: " + hostile},
			Jobs: []state.Job{
				{Target: "shop.orders", Source: "a:3306", Started: now.Add(-time.Hour), Chunks: 9, Copied: 4},
				{Target: "shop.items", Source: "a:3306", Started: now.Add(-time.Hour), Chunks: 9, Copied: 4},
				{Target: "shop.done", Started: now, Finished: &now},
			},
			Running: []*telemetry.Status{
				{From: "a:3306", To: "b:3306", Tables: []telemetry.TableStatus{{Target: "shop.items"}}, Throttle: throttle.Status{Stopped: true, Reason: "lag 9 s"}},
				{From: "c:3306", To: "d:3306", Throttle: throttle.Status{Share: 1}, Verify: &telemetry.VerifyStatus{Mismatches: 2}},
				{From: "e:3306", To: "f:3306", Throttle: throttle.Status{Share: 1}, Follow: &telemetry.FollowStatus{Held: "p99 31 ms"}},
				{From: "g:3306", To: "g:3306", Throttle: throttle.Status{Share: 1}, Alter: &telemetry.AlterStatus{Table: "shop.notes", Steps: []telemetry.StepStatus{{Step: telemetry.StepPostponed, Start: now}}}},
			},
		}
	}
	h := New(o).Handler()
	_, body := browse(t, h, "/", "dba")
	want := `Not ready Backend db:3306: connection refused.
Rows differ The copy from c:3306 to d:3306 found differing rows: 2.
Early 2026-01-31 00:30:00 And lasts.
Copy waits The copy from a:3306 to b:3306 is paused: lag 9 s.
Copy waits The changes of the copy from e:3306 to f:3306 wait: p99 31 ms.
Alteration waits The alteration of shop.notes on g:3306 is ready: tare alter ctl cutover swaps the tables.
Copies unreadable Read _tare: &lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;.
Digests made room 2026-01-31 02:20:00 7.
Switched 2026-01-31 02:10:00 To the standby.
Copy not done 2026-01-31 01:30:00 shop.orders from a:3306: 4 of 9 chunks copied; no copy is running here.`
	if got := eventsOf(body); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, link := range []string{`<a href="/copies">`, `<a href="/api/v1/route">To the standby.</a>`} {
		if !strings.Contains(body, link) {
			t.Errorf("there is no %s", link)
		}
	}
	if _, body := browse(t, h, "/", "guest"); strings.Contains(body, `href="/api/v1/route"`) {
		t.Error("a link that the account may not follow")
	}
	now = now.Add(copiesFresh - time.Second)
	if browse(t, h, "/", "dba"); asked != 1 {
		t.Errorf("copies were asked for %d times in half a minute", asked)
	}
	now = now.Add(2 * time.Second)
	if browse(t, h, "/", "dba"); asked != 2 {
		t.Errorf("copies were asked for %d times in half a minute and a second", asked)
	}
}

// risingStatements has two statements whose loads rise half an hour before the end, one of them negligible.
type risingStatements struct{ *fakeStatements }

func (f risingStatements) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	f.rows = 2
	top, err := f.fakeStatements.Top(ctx, q)
	if err != nil {
		return nil, err
	}
	top.Source = statements.SourceSamples
	for i := range top.Rows {
		r := &top.Rows[i]
		r.New, r.Text = false, fmt.Sprintf("SELECT %c FROM t", 'a'+i)
		for p := range r.Points {
			r.Points[p] = []float64{0.2, 0.001}[i]
			if p >= len(r.Points)/2 {
				r.Points[p] = []float64{1.2, 0.003}[i]
			}
		}
	}
	for p := range top.Series.Load {
		top.Series.Calls[p], top.Series.Load[p] = 1, 2
	}
	return top, nil
}

func (f risingStatements) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := f.fakeStatements.Statement(ctx, q)
	if err != nil {
		return nil, err
	}
	for p := range st.Series.Load {
		st.Series.Calls[p], st.Series.Load[p], st.Series.Errors[p] = 10, 0.2, 0
		if p >= len(st.Series.Load)/2 {
			st.Series.Calls[p], st.Series.Load[p], st.Series.Errors[p] = 20, 1.2, 0.5
		}
	}
	return st, nil
}

// TestSinceWhen expects pages to show the start of a rise and its causes.
func TestSinceWhen(t *testing.T) {
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC) }
	h := New(o).Handler()
	_, body := browse(t, h, "/", "")
	if got, want := eventsOf(body), "Heavier 2026-01-31 02:30:00 SELECT a FROM t: 6× heavier (load 0.20 active → 1.20 active)."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for path, want := range map[string]string{
		"/": "× 6 since 02:30", "/queries": "× 6 since 02:30",
		"/query/" + someDigest: "6× heavier since 02:30: each call takes 3× longer (20 ms → 60 ms); 2× as many calls (10 /s → 20 /s); errors 0.5 /s.",
	} {
		if _, body := browse(t, h, path, ""); !strings.Contains(body, want) || strings.Contains(body, "× 3 since") {
			t.Errorf("%s does not say %q alone", path, want)
		}
	}
}

// TestPagesAreDescribed expects docs/tasks/find-a-slow-statement.md to name each chart of the first page and
// of a statement's.
func TestPagesAreDescribed(t *testing.T) {
	doc, err := os.ReadFile("../docs/tasks/find-a-slow-statement.md")
	if err != nil {
		t.Fatal(err)
	}
	o, _ := pageOptions()
	h := New(o).Handler()
	name := regexp.MustCompile(`<figcaption><span class="name">([^<]*)</span>`)
	seen := 0
	for _, path := range []string{"/", "/query/" + someDigest} {
		_, body := browse(t, h, path, "")
		for _, m := range name.FindAllStringSubmatch(body, -1) {
			seen++
			if !strings.Contains(string(doc), "*"+m[1]+"*") {
				t.Errorf("docs/tasks/find-a-slow-statement.md does not say what *%s* on %s shows", m[1], path)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d charts were looked for", seen)
	}
}
