package web

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestMarks expects charts to have a line per marker in their range, the list below to have its text, the
// rise to name its possible cause, and accounts without texts to see no part of a statement.
func TestMarks(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return now }
	o.Gate = testGate(t, o.Log)
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	o.Markers = store
	plans := &changingPlans{}
	o.PlanSource = plans
	finished := now.Add(-5 * time.Minute)
	o.Copies = func(context.Context) Copies {
		alter := &telemetry.AlterStatus{Table: "shop.altered", Steps: []telemetry.StepStatus{
			{Step: telemetry.StepCopying, Start: now.Add(-3 * time.Hour)}, {Step: telemetry.StepSwapping, Start: finished.Add(time.Minute)},
		}}
		return Copies{
			Backend: "mysql 1",
			Jobs: []state.Job{
				{Target: "shop.copied", Source: "mysql 1", Started: now.Add(-3 * time.Hour), Finished: &finished},
				{Target: "shop.foreign", Source: "mysql 2", Started: now.Add(-3 * time.Hour), Finished: &finished},
			},
			Running: []*telemetry.Status{{Alter: alter}},
		}
	}
	h := New(o).Handler()
	rise := now.Add(-30 * time.Minute)
	add := func(m markers.Marker) {
		m.End = m.Time
		store.Add(m)
	}
	add(markers.Marker{Kind: "deploy", Title: "shop 4.2 " + hostile, Time: rise.Add(-5 * time.Second), User: "ci"})
	add(markers.Marker{Kind: markers.KindDDL, Title: "Schema change", Text: "ALTER TABLE other DROP INDEX k", Tables: []string{"shop.other"}, Time: rise.Add(-10 * time.Second)})
	add(markers.Marker{Kind: "deploy", Title: "too old", Time: now.Add(-2 * time.Hour)})
	_, body := browse(t, h, "/", "dba")
	cause := "Near in time, without evidence: shop 4.2 " + `&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;` + ", 5 s before; ALTER TABLE other DROP INDEX k, 10 s before (another table)."
	if got := eventsOf(body); !strings.HasSuffix(got, cause) {
		t.Errorf("got %s, want the cause %s", got, cause)
	}
	if n := strings.Count(body, `<g class="mark">`); n != 16 { // on four charts
		t.Errorf("%d marks, want 16", n)
	}
	for _, want := range []string{"4 events are marked; they are listed under Events.", "Copy finished: shop.copied", "tare alter of shop.altered: swapping", `<span class="tag">ddl</span>`, `<h2 id="marks">Events</h2>`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(body, "too old") || strings.Contains(body, "Copy started") || strings.Contains(body, "shop.altered: copying") || strings.Contains(body, "shop.foreign") {
		t.Error("a marker outside the range, or of another server, is shown")
	}
	now = now.Add(2 * time.Second) // the page is cached for a second
	add(markers.Marker{Kind: markers.KindDDL, Title: "Schema change", Text: "ALTER TABLE t DROP INDEX k", Tables: []string{"T"}, Time: rise.Add(-20 * time.Second), User: "root", Client: "10.0.0.7"})
	used := explain.Plan{ID: "1", Steps: []explain.Step{{Table: "t", Access: "ref", Key: "K"}}, Last: rise.Add(-time.Minute)}
	plans.state = explain.State{Plans: []explain.Plan{used}, At: used.Last}
	cause = "Caused by ALTER TABLE t DROP INDEX k, 02:29:40, by root from 10.0.0.7: index k was used before."
	_, body = browse(t, h, "/", "dba")
	if got := eventsOf(body); !strings.Contains(got, cause) || strings.Contains(got, "DROP INDEX k, 22 s before") {
		t.Errorf("got %s, want the cause %s", got, cause)
	}
	_, body = browse(t, h, "/query/"+someDigest, "dba")
	if strings.Count(body, `<g class="mark">`) < 8 || !strings.Contains(body, "<strong>"+cause+"</strong>") {
		t.Errorf("the statement's page has no marks or no cause")
	}
	for _, path := range []string{"/", "/query/" + someDigest} {
		_, body = browse(t, h, path, "guest")
		if strings.Contains(body, "ALTER TABLE") || !strings.Contains(body, "Schema change") || !strings.Contains(body, "Near in time, without evidence: shop 4.2") || strings.Contains(body, "Caused by") {
			t.Errorf("%s without texts: the list has a statement, or lacks a title or a cause", path)
		}
	}
}

// TestManyMarks expects the cause of a rise to be found before any number of later events, of which the list and
// the charts have the newest and say so.
func TestManyMarks(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return now }
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	o.Markers = store
	rise := now.Add(-30 * time.Minute)
	store.Add(markers.Marker{Kind: markers.KindDDL, Title: "Schema change", Text: "ALTER TABLE t DROP INDEX k", Tables: []string{"T"}, Time: rise.Add(-20 * time.Second)})
	for i := range 3 * maxMarks {
		store.Add(markers.Marker{Kind: "deploy", Title: fmt.Sprint("release ", i), Time: rise.Add(time.Minute + time.Duration(i)*time.Second)})
	}
	_, body := browse(t, New(o).Handler(), "/", "dba")
	if got := eventsOf(body); !strings.Contains(got, "Near in time, without evidence: ALTER TABLE t DROP INDEX k, 20 s before.") {
		t.Errorf("got %s, want the event before the rise", got)
	}
	for want, n := range map[string]int{
		`<g class="mark">`: 4 * maxChartMarks, `<span class="tag">deploy</span>`: maxMarks, "Older events of this range are not listed.": 1,
		"The newest 8 of 121 events are marked; they are listed under Events.": 4, "release 119": 5,
	} {
		if got := strings.Count(body, want); got != n {
			t.Errorf("%s occurs %d times, want %d", want, got, n)
		}
	}
}

// TestMarkRows lists markers of the range, the newest first: how many, how long they took, and the text of those that are no statement.
func TestMarkRows(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	v := &view{span: spanOf(now.Add(-time.Hour), now)}
	at := func(start, end time.Duration) markers.Marker {
		return markers.Marker{Kind: "deploy", Title: "t", Text: "x", Time: v.span.From.Add(start), End: v.span.From.Add(end), User: "ci", Link: "/l", Count: 2}
	}
	row := func(start time.Duration, took string) markRow {
		return markRow{Time: v.span.From.Add(start), Kind: "deploy", Name: "t", Text: "x", By: "ci", Took: took, Link: "/l", Count: 2}
	}
	ddl := markers.Marker{Kind: markers.KindDDL, Text: "ALTER TABLE a ADD b INT", Tables: []string{"a"}, Time: now, End: now}
	for name, c := range map[string]struct {
		all  []markers.Marker
		want []markRow
	}{
		"none":                       {nil, nil},
		"ended before, another not":  {[]markers.Marker{at(-2*time.Second, -1), at(-time.Second, 0), at(-5*time.Second, -2*time.Second), at(time.Second, time.Second)}, []markRow{row(time.Second, ""), row(-time.Second, "1 s")}},
		"less than a millisecond":    {[]markers.Marker{at(0, time.Millisecond-1)}, []markRow{row(0, "")}},
		"a millisecond":              {[]markers.Marker{at(0, time.Millisecond)}, []markRow{row(0, "1 ms")}},
		"a statement without a text": {[]markers.Marker{ddl}, []markRow{{Time: now, Kind: "ddl", Name: ddl.Name(), By: ddl.By()}}},
	} {
		if diff := cmp.Diff(c.want, markRows(v, c.all)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for n, want := range map[int]int{maxMarks - 1: maxMarks - 1, maxMarks: maxMarks, maxMarks + 1: maxMarks + 1, 3 * maxMarks: maxMarks + 1} {
		all := []markers.Marker{at(-2, -1)}
		for i := range n {
			all = append(all, at(time.Duration(i), time.Duration(i)))
		}
		rows := markRows(v, all)
		if len(rows) != want || rows[0] != row(time.Duration(n-1), "") || rows[len(rows)-1].Older != (n > maxMarks) {
			t.Errorf("%d markers: %d rows, the last %+v", n, len(rows), rows[len(rows)-1])
		}
	}
}

// changingPlans has the same plans for each statement.
type changingPlans struct{ state explain.State }

func (f *changingPlans) State([16]byte) (explain.State, bool) { return f.state, true }

// fakePlans has one statement, whose plan has changed.
type fakePlans struct{ state explain.State }

func (f fakePlans) State([16]byte) (explain.State, bool) { return f.state, true }

// TestPlansOfAStatement expects the page of a statement to have the plans before and after a change, with the
// different steps marked, for accounts that may see texts.
func TestPlansOfAStatement(t *testing.T) {
	plan := func(id, access, key string) explain.Plan {
		return explain.Plan{ID: id, Steps: []explain.Step{{Table: "same", Access: "const"}, {Table: "orders" + hostile, Access: access, Key: key, Rows: 9}}}
	}
	o, _ := pageOptions()
	o.Gate = testGate(t, o.Log)
	before, after := plan("1", "ref", "k"), plan("2", "ALL", "")
	f := fakePlans{explain.State{
		Plans: []explain.Plan{after, before}, At: time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC), Changes: []explain.Change{{Before: before, After: after}},
	}}
	o.PlanSource = f
	_, body := browse(t, New(o).Handler(), "/query/"+someDigest, "dba")
	escaped := `orders&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;`
	for _, want := range []string{"<code>  same const, 0 rows</code>", `<code class="warn">≠ ` + escaped + ` ref by k, 9 rows</code>`, `<code class="warn">≠ ` + escaped + ` full scan, 9 rows</code>`, "last at 2026-01-31 03:00:00 UTC"} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if _, body = browse(t, New(o).Handler(), "/query/"+someDigest, "guest"); strings.Contains(body, "full scan") {
		t.Error("an account without texts sees a plan")
	}
	o.PlanSource = fakePlans{explain.State{Why: "EXPLAIN took longer"}}
	if _, body = browse(t, New(o).Handler(), "/query/"+someDigest, "dba"); !strings.Contains(body, "Not explained: EXPLAIN took longer.") {
		t.Error("the page does not say why there is no plan")
	}
}

// fakeCounts has the server's counts of each statement: with twelve rows examined per call before half past two, and
// 1,200 since.
type fakeCounts struct {
	status serverstats.Status
	locks  []serverstats.LockWait
}

func (f fakeCounts) LockWaits(from, to time.Time) ([]serverstats.LockWait, string) {
	return f.locks, "The holders of metadata locks are unknown."
}

func (f fakeCounts) Statement(sqldigest.Digest, string) (serverstats.Statement, serverstats.Status, bool) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 31, 2, minute, 0, 0, time.UTC) }
	s := serverstats.Statement{Intervals: []serverstats.Interval{
		{From: at(27), To: at(28), Counts: serverstats.Counts{Calls: 10, RowsExamined: 120, RowsSent: 10}},
		{From: at(28), To: at(29), Counts: serverstats.Counts{Calls: 10, RowsExamined: 120, RowsSent: 10}},
		{From: at(29), To: at(31), Counts: serverstats.Counts{Calls: 10, RowsExamined: 5000}}, // the load rose within it
		{From: at(31), To: at(32), Counts: serverstats.Counts{Calls: 10, RowsExamined: 12000, RowsSent: 10, NoIndex: 5}},
	}}
	return s, f.status, true
}

func (fakeCounts) Tables(context.Context, []string) ([]serverstats.Table, error) {
	return []serverstats.Table{
		{Schema: "shop", Name: "orders" + hostile, Rows: 5000, Indexes: []serverstats.Index{{Name: "k", Columns: []string{"a", "b"}, Cardinality: 50}}},
		{Schema: "shop", Name: "gone", Missing: true},
	}, nil
}

// TestServerCounts expects the pages and the JSON of a statement to have the server's counts before and since its rise, for
// accounts that may see texts.
func TestServerCounts(t *testing.T) {
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC) }
	o.Gate = testGate(t, o.Log)
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	o.Markers = store
	o.Counts = fakeCounts{status: serverstats.Status{At: o.Now(), Notes: []string{"One row is not joined."}}}
	h := New(o).Handler()
	for _, path := range []string{"/query/", "/incident/"} {
		_, body := browse(t, h, path+someDigest, "dba")
		for _, want := range []string{
			`<th scope="col" class="n">02:27:00 – 02:29:00</th><th scope="col" class="n">02:31:00 – 02:32:00</th>`,
			`<th scope="row">Rows examined per call</th><td class="n">12</td><td class="n">1,200</td>`,
			`<th scope="row">Calls without an index</th><td class="n">0 %</td><td class="n">50 %</td>`, "One row is not joined.", "read at 2026-01-31 03:00:00 UTC",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		if strings.Contains(body, "Sort merge passes") {
			t.Error("a measure without counts is displayed")
		}
		if _, body := browse(t, h, path+someDigest, "guest"); strings.Contains(body, "Rows examined") {
			t.Errorf("%s has the counts without texts", path)
		}
	}
	_, body := browse(t, h, "/api/v1/incidents/"+someDigest, "dba")
	for _, want := range []string{`"before":{"calls":20,"seconds":0,"lock_seconds":0,"rows_examined":240,`, `"since":{"calls":10,"seconds":0,"lock_seconds":0,"rows_examined":12000,`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s in %s", want, body)
		}
	}
	for want, status := range map[string]serverstats.Status{
		"Counts of the server unavailable: the performance schema is off.": {Problem: "the performance schema is off"}, "The server&#39;s counts are not read yet.": {},
	} {
		o.Counts = fakeCounts{status: status}
		if _, body := browse(t, New(o).Handler(), "/query/"+someDigest, "dba"); !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestTablesOfAStatement expects the page of a statement to have the statistics of its tables.
func TestTablesOfAStatement(t *testing.T) {
	o, _ := pageOptions()
	store, err := markers.Open(markers.Options{Log: o.Log})
	if err != nil {
		t.Fatal(err)
	}
	o.Markers, o.Counts = namedTables{store}, fakeCounts{}
	_, body := browse(t, New(o).Handler(), "/query/"+someDigest, "")
	for _, want := range []string{
		`<code>shop.orders&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;</code></th><td class="n">about 5,000</td>`, "<code>k (a, b), about 50 values</code>", "does not exist",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestLockWaits expects the first page and the pages of waiting statements to name the session that holds a lock, with
// texts for accounts that may see them.
func TestLockWaits(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o, _ := pageOptions()
	o.Now = func() time.Time { return now }
	o.Gate = testGate(t, o.Log)
	digest, err := sqldigest.Parse(someDigest)
	if err != nil {
		t.Fatal(err)
	}
	wait := serverstats.LockWait{
		From: now.Add(-12 * time.Second), To: now.Add(-2 * time.Second), Kind: serverstats.RowLock, Table: "shop.secrets" + hostile, Waiters: 5, Longest: 10 * time.Second,
		Waiting: []sqldigest.Digest{digest, {}}, // the fake's statements have no digest
		Holder:  serverstats.Holder{Connection: 17, User: "batch", Client: "10.0.0.7:41200", Transaction: 40 * time.Second, Digest: digest, Text: "SELECT secret" + hostile},
	}
	o.Counts = fakeCounts{locks: []serverstats.LockWait{wait}}
	h := New(o).Handler()
	const holder = "onnection 17 (batch from 10.0.0.7:41200)"
	escaped := strings.NewReplacer("<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "&", "&amp;").Replace(hostile)
	for path, want := range map[string]string{
		"/":                                "C" + holder + " holds a row lock on shop.secrets" + escaped + " in a transaction of 40 s; 5 sessions wait, up to 10 s.",
		"/query/" + someDigest:             "<strong>C" + holder + " holds a row lock on shop.secrets" + escaped,
		"/incident/" + someDigest:          "<code>SELECT secret" + escaped + "</code>",
		"/api/v1/incidents/" + someDigest:  `"connection":17,"user":"batch","client":"10.0.0.7:41200","transaction_seconds":40,`,
		"/incident/" + someDigest + "?a=b": "The holders of metadata locks are unknown.",
	} {
		if _, body := browse(t, h, path, "dba"); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", path, want)
		}
		if _, body := browse(t, h, path, "guest"); !strings.Contains(body, "10.0.0.7:41200") || strings.Contains(body, "secret") {
			t.Errorf("%s without texts lacks the client, or has a text", path)
		}
	}
	if _, body := browse(t, h, "/", "dba"); !strings.Contains(body, `href="/incident/`+someDigest) {
		t.Error("the first page has no link to the incident")
	}
	now = now.Add(time.Minute)
	if _, body := browse(t, h, "/", "dba"); !strings.Contains(body, holder+" held a row lock") || !strings.Contains(body, "5 sessions waited") {
		t.Error("a minute later the wait is not over")
	}
	wait.Waiting = wait.Waiting[:1]
	o.Counts = fakeCounts{locks: []serverstats.LockWait{wait}}
	if _, body := browse(t, New(o).Handler(), "/query/"+someDigest, "dba"); strings.Contains(body, holder) {
		t.Error("the page of a statement that did not wait has the lock")
	}
}

// namedTables has tables for each statement.
type namedTables struct{ MarkerSource }

func (namedTables) TablesOf(string, string) []string { return []string{"shop.orders"} }

// fakeCalls has calls of one client before half past two, and of another one with a tag since.
type fakeCalls struct{}

func (fakeCalls) Of(_ [16]byte, from, _ time.Time) []calls.Call {
	all := make([]calls.Call, 12)
	for i := range all {
		all[i] = calls.Call{Weight: 1, User: "app", Client: "10.0.0.1"}
		if from.Minute() == 30 {
			all[i].Client, all[i].Tags = "10.0.0.9", []calls.Tag{{Key: "release", Value: "4.2" + hostile}}
		}
	}
	return all
}

func (fakeCalls) Covers() time.Duration { return 29 * time.Minute }

func (fakeCalls) All(time.Time, time.Time) iter.Seq2[[16]byte, calls.Call] {
	return func(func([16]byte, calls.Call) bool) {}
}

// TestWhatDiffers expects the page of a statement to compare the calls since its rise with those before, and
// to show tags to accounts that may see texts.
func TestWhatDiffers(t *testing.T) {
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC) }
	o.Gate = testGate(t, o.Log)
	o.Calls = fakeCalls{}
	h := New(o).Handler()
	row := func(dimension, value, before, since string) string {
		return `<tr><th scope="row">` + dimension + `</th><td><code>` + value + `</code></td><td class="n">` + before + `</td><td class="n warn">` + since + `</td></tr>`
	}
	_, body := browse(t, h, "/query/"+someDigest, "dba")
	for _, want := range []string{
		"12 sampled calls since 02:30:00 compared with 12 before. The sample covers 29 min.",
		row("client", "10.0.0.9", "0 %", "100 %"), row("tag release", "4.2&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&#39;&amp;", "0 %", "100 %"),
	} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if _, body = browse(t, h, "/query/"+someDigest, "guest"); strings.Contains(body, "tag release") || !strings.Contains(body, "10.0.0.9") {
		t.Error("without texts there is a tag, or no client")
	}
}

// youngHistory starts 20 minutes before the end of each range, in which loads do not rise.
type youngHistory struct{ *fakeStatements }

func (f youngHistory) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	q.From = q.To.Add(-20 * time.Minute)
	st, err := f.fakeStatements.Statement(ctx, q)
	if err != nil {
		return nil, err
	}
	for p := range st.Series.Load {
		st.Series.Load[p] = 1
	}
	return st, nil
}

// TestWhatDiffersInAYoungHistory expects the halves of the counted part of the range to be compared, not of all of it.
func TestWhatDiffersInAYoungHistory(t *testing.T) {
	o := testOptions()
	o.Statements = youngHistory{&fakeStatements{}}
	o.Now = func() time.Time { return time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC) }
	o.Calls = fakeCalls{}
	_, body := browse(t, New(o).Handler(), "/query/"+someDigest, "")
	if want := "12 sampled calls since 02:50:00 compared with 12 before."; !strings.Contains(body, want) {
		t.Errorf("there is no %s", want)
	}
}
