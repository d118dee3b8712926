package web

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/fnv"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/store/storegateway"
)

var rewrite = flag.Bool("rewrite", false, "write the pages of testdata")

var (
	assetHash = regexp.MustCompile(`-[0-9a-f]{12}\.(css|js|svg)`)
	plotTable = regexp.MustCompile(`(?s)<details><summary>.*?</details>|<figure.*?</figure>`)
	longValue = regexp.MustCompile(`="[^"]{100,}"|\[[-0-9.,e]{100,}\]`)
	lineStart = regexp.MustCompile(`<(?:tr|p|h\d|li|dt|div|section|figure|figcaption|svg|path|rect|form|nav|a|option|text|tspan|title|desc)\b|,"`)
	plotAxis  = regexp.MustCompile(`(?s)<div class="(?:up|across)" aria-hidden="true">.*?</div>`)
	ofProcess = regexp.MustCompile(`process \d+|"pid":\d+|<dd>[^<]*<small>of [\d.]+ .iB at`)
)

// pageLines returns the main part of a page in lines. Long attributes and tables of charts are shortened to their sum.
func pageLines(body string) []string {
	if _, after, ok := strings.Cut(body, "<main"); ok {
		body, _, _ = strings.Cut(after, "</main>")
	}
	short := func(text string) string {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		return fmt.Sprintf("%s… %d bytes %x", text[:20], len(text), h.Sum64())
	}
	body = assetHash.ReplaceAllString(body, ".$1")
	body = ofProcess.ReplaceAllString(body, "of this process")
	body = plotAxis.ReplaceAllStringFunc(body, short)
	body = plotTable.ReplaceAllStringFunc(body, func(figure string) string {
		before, table, ok := strings.Cut(figure, "<tbody>")
		if !ok || strings.Count(table, "<tr") < 12 {
			return figure
		}
		return before + short("<tbody>"+table)
	})
	body = longValue.ReplaceAllStringFunc(body, short)
	body = lineStart.ReplaceAllString(body, "\n$0")
	var lines []string
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestPageContents compares pages and responses, of sources with constant content, with those of testdata.
func TestPageContents(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	digest := "/" + someDigest
	statement := func(change func(*Options)) Options {
		o, f := pageOptions()
		f.rows = 3
		o.Now = func() time.Time { return now }
		change(&o)
		return o
	}
	store := func() MarkerSource {
		s, err := markers.Open(markers.Options{Log: testOptions().Log, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []markers.Marker{
			{Kind: "deploy", Title: "shop 4.2 " + hostile, Time: at(-30*time.Minute - 5*time.Second), User: "ci"},
			{Kind: markers.KindDDL, Title: "Schema change", Text: "ALTER TABLE a DROP INDEX k", Tables: []string{"shop.a"}, Time: at(-30*time.Minute - 8*time.Second), User: "root", Client: "10.0.0.250"},
			{Kind: "deploy", Title: "too old", Time: at(-2 * time.Hour)},
		} {
			m.End = m.Time
			s.Add(m)
		}
		return s
	}
	plan := func(id, access, key string) explain.Plan {
		return explain.Plan{ID: id, Steps: []explain.Step{{Table: "same", Access: "const"}, {Table: "orders", Access: access, Key: key, Rows: 9}}}
	}
	before, after := plan("1", "ref", "k"), plan("2", "ALL", "")
	wait := serverstats.LockWait{
		From: at(-12 * time.Second), To: at(-2 * time.Second), Kind: serverstats.RowLock, Table: "shop.orders", Waiters: 5, Longest: 10 * time.Second,
		Holder: serverstats.Holder{Connection: 17, User: "batch", Client: "10.0.0.7:41200", Transaction: 40 * time.Second, Text: "SELECT secret"},
	}
	rising := statement(func(o *Options) {
		o.Statements, o.Markers, o.Calls = risingStatements{&fakeStatements{}}, namedTables{store()}, fakeCalls{}
		o.PlanSource = fakePlans{explain.State{Plans: []explain.Plan{after, before}, At: now, Changes: []explain.Change{{At: now, Before: before, After: after}}}}
		o.Counts = fakeCounts{status: serverstats.Status{At: now, Notes: []string{"One row is not joined."}}, locks: []serverstats.LockWait{wait}}
		o.Sessions = fakeSessions(now, nil, nil)
		o.Tags = []string{"route", "release"}
		o.Events = func() []Event { return []Event{{Time: at(-time.Minute), Name: "Config reloaded"}} }
	})
	parts := partOptions(true)
	parts.Statements, parts.Weight = &fakeStatements{rows: 1}, nil
	progress := Options{Title: "tare alter", Gatherer: testOptions().Gatherer, Log: testOptions().Log, Now: func() time.Time { return now }}
	progress.Progress = func() Progress { return testProgress(at(-30 * time.Second)) }
	only := func(change func(*Options)) Options {
		o := testOptions()
		o.Now = func() time.Time { return now }
		change(&o)
		return o
	}
	asked := frontend.Overview{
		Peers:  []frontend.Peer{{URL: "http://" + hostile, Failed: 2, LastError: hostile}, {URL: "http://b", Responded: 4, Seconds: 2}},
		Latest: []frontend.RecentRequest{{Selector: `{job="x"}`, Status: 502, Error: hostile}}, Decoder: "strict", Requests: 1, Failed: 1,
	}
	for name, c := range map[string]struct {
		o     Options
		paths []string
	}{
		"statements": {statement(func(*Options) {}), []string{"/", "/queries", "/queries?sort=p99&order=asc&filter=user%3Dapp&from=now-6h", "/queries?group=user", "/query" + digest, "/query" + digest + "?from=now-6h", "/queries?page=0", "/query/zz"}},
		"rising":     {rising, []string{"/", "/query" + digest, "/incident" + digest, "/incident" + digest + "/card.svg", "/api/v1/incidents" + digest, "/queries?group=table", "/queries?group=client", "/sessions", sessionsPath}},
		"parts":      {parts, []string{"/live", "/live?filter=user%3Da&slow=1s", "/plans", "/plans?limit=100", "/api/v1/plans", "/series", "/series?selector=" + url.QueryEscape(`{schema="shop"}`), "/copies", "/store", "/store?tenant=a", "/missing"}},
		"empty":      {partOptions(false), []string{"/", "/plans", "/series", "/copies", "/store"}},
		"progress":   {progress, []string{"/", "/api/v1/progress"}},
		"idle":       {only(func(o *Options) { o.Progress = func() Progress { return Progress{Status: telemetry.IdleStatus()} } }), []string{"/"}},
		"counters":   {statement(func(o *Options) { o.Statements = countersOnly{&fakeStatements{rows: 2}} }), []string{"/", "/queries", "/query" + digest}},
		"store":      {only(func(o *Options) { o.Store = func() storegateway.StatusPage { return budgeted(manyBlocks(25)) } }), []string{"/", "/?tenant=a", "/?page=1"}},
		"frontend":   {only(func(o *Options) { o.Frontend = func(bool) frontend.Overview { return asked } }), []string{"/"}},
		"rows": {only(func(o *Options) {
			o.Rows = func() wire.ServiceStats {
				return wire.ServiceStats{Rows: 5, Bytes: 200, Sent: 50, Follows: 7, FailedFollows: 2, Changes: 8, ChangeBytes: 1000, ChangeSent: 400}
			}
		}), []string{"/"}},
	} {
		comparePages(t, name, c.o, c.paths)
	}
	for _, name := range []string{"dropped index", "locks of one transaction", "one client in a loop"} {
		for i := range scripts {
			if scripts[i].name != name {
				continue
			}
			w := newWorld(corpusSeed)
			main := w.statements[0]
			scripts[i].play(w, main)
			w.record()
			o := testOptions()
			o.Statements, o.Markers, o.PlanSource, o.Calls, o.Counts = w, w, w, w, worldCounts{w}
			o.Now = func() time.Time { return w.time(worldSeconds) }
			o.Attention = Attention{LeastLoad: 0.05, Interval: worldSample * time.Second}
			of := "/" + hex.EncodeToString(main.digest[:])
			comparePages(t, name, o, []string{"/", "/queries", "/query" + of, "/incident" + of, "/api/v1/incidents" + of})
		}
	}
}

// countersOnly has no history: its values are those of counters since an hour.
type countersOnly struct{ *fakeStatements }

func (f countersOnly) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	top, err := f.fakeStatements.Top(ctx, q)
	if err == nil {
		top.Source, top.NoComparison, top.Notes = statements.SourceCounters, "there is nothing before", []string{"a note"}
	}
	return top, err
}

func (f countersOnly) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := f.fakeStatements.Statement(ctx, q)
	if err == nil {
		st.Source = statements.SourceCounters
	}
	return st, err
}

// budgeted returns a status with budgets in use, and a sync that fails since a minute.
func budgeted(p storegateway.StatusPage) storegateway.StatusPage {
	at := time.Date(2026, 1, 31, 2, 59, 0, 0, time.UTC)
	p.Budgets.Cache.Hits, p.Budgets.Cache.Misses = 3, 1
	p.Budgets.Slabs.Calls, p.Budgets.Slabs.Made = 10, 4
	p.Sync.Failing, p.Sync.Last, p.Sync.LastGood, p.Sync.Error = &at, at.Add(30*time.Second), at.Add(-time.Minute), "list: it fails"
	return p
}

// comparePages compares pages with a file of testdata.
func comparePages(t *testing.T, name string, o Options, paths []string) {
	t.Helper()
	h := New(o).Handler()
	var got []string
	for _, path := range paths {
		r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", path, nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got = append(got, fmt.Sprintf("=== %s: %d %s", path, w.Code, w.Header().Get("Content-Type")))
		got = append(got, pageLines(w.Body.String())...)
	}
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), got); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}
