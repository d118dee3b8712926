package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// secretText must not reach an account without texts, in any form.
const secretText = `SELECT '</title><script>alert("secret")</script>' FROM t -- " onload=x`

// A fakeStatements has the given number of statements, all with hostile texts.
type fakeStatements struct {
	rows  int
	asked atomic.Int64
	last  atomic.Pointer[statements.TopQuery]
}

func (f *fakeStatements) Top(_ context.Context, q statements.TopQuery) (*statements.Top, error) {
	f.asked.Add(1)
	f.last.Store(&q)
	if err := q.Validate(); err != nil {
		return nil, err
	}
	totals := statements.Totals{Calls: 1000, Errors: 3, Counts: stmtstats.Counts{stmtstats.RowsSent: 5}, Seconds: 10, P50: time.Millisecond, P99: time.Second, P999: 2 * time.Second}
	top := &statements.Top{From: q.From, To: q.To, Source: statements.SourceRollups, Total: totals, Before: totals, Matching: f.rows}
	if q.Points > 0 {
		all := &top.Series
		all.Step, all.End = q.To.Sub(q.From)/time.Duration(q.Points), q.To
		for i := range q.Points {
			all.Times = append(all.Times, q.From.Add(time.Duration(i)*all.Step))
			for _, values := range []*[]float64{&all.Calls, &all.Errors, &all.Load, &all.P50, &all.P99, &all.P999} {
				*values = append(*values, float64(i%5))
			}
		}
	}
	for i := q.Offset; i < min(f.rows, q.Offset+q.Limit); i++ {
		r := statements.TopRow{Text: secretText, Totals: totals, Before: totals, First: q.From, Last: q.To, New: i%2 == 0}
		r.Digest[0], r.Digest[15], r.Schema, r.User = byte(i>>8), byte(i), `sh"op<`, "app"
		for p := range q.Points {
			r.Points = append(r.Points, float64(p%7))
		}
		top.Rows = append(top.Rows, r)
	}
	return top, nil
}

func (f *fakeStatements) Statement(_ context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(q.Digest, "ff") {
		return nil, fmt.Errorf("read: %w", statements.ErrNoStatement)
	}
	st := &statements.Statement{Text: secretText, From: q.From, To: q.To, Source: statements.SourceSamples, First: q.From, Last: q.To}
	st.Totals = statements.Totals{Calls: 7, Errors: 1, Seconds: 1.5, P50: time.Millisecond, P99: time.Second}
	for i, c := range stmtstats.Effects() {
		st.Counts[c] = uint64(11 * (i + 1))
	}
	st.Parts = []statements.StatementPart{{Key: stmtstats.Key{Schema: `sh"op<`, User: "app"}, Totals: st.Totals}, {Totals: st.Totals}}
	st.Slow = []stmtstats.SlowCall{{Start: q.From, Duration: time.Second, Text: secretText, ErrorNumber: 1062}}
	if q.Points == 0 {
		return st, nil
	}
	s := &st.Series
	s.Step, s.End = q.To.Sub(q.From)/time.Duration(q.Points), q.To
	st.Heat.Bounds = []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}
	for i := range q.Points {
		s.Times = append(s.Times, q.From.Add(time.Duration(i)*s.Step))
		lists := []*[]float64{&s.Calls, &s.Errors, &s.Load}
		for _, c := range stmtstats.Effects() {
			lists = append(lists, &s.Effects[c])
		}
		for _, values := range lists {
			*values = append(*values, float64(i))
		}
		s.P50, s.P99 = append(s.P50, math.NaN()), append(s.P99, 0.5)
		st.Heat.Counts = append(st.Heat.Counts, []uint64{uint64(i), 1, 0})
	}
	return st, nil
}

func pageOptions() (Options, *fakeStatements) {
	o := testOptions()
	f := &fakeStatements{rows: 120}
	o.Statements = f
	o.SeriesMatchers = func() []string { return []string{"instance=" + strconv.Quote(`a"b\c`)} }
	o.Latest = func() Latest {
		return Latest{Seconds: 10, Statements: 50, PerSecond: 5, P50: time.Millisecond, Sessions: 3}
	}
	return o, f
}

const someDigest = "02010203040506070809aabbccddeeff"

func browse(t testing.TB, h http.Handler, path, user string) (int, string) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Accept", "text/html")
	if user != "" {
		r.SetBasicAuth(user, testPassword)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, timeTags.ReplaceAllString(w.Body.String(), "$1$2$3")
}

// timeTags are the elements of times; browse removes them.
var timeTags = regexp.MustCompile(`<time datetime="[^"]*"(?: data-as=".")?>([^<]*)</time>|<tspan data-utc="[^"]*" data-as=".">([^<]*)</tspan>|<span class="zone">(UTC)</span>`)

// TestPagesKeepToThePolicy expects no page to have inline scripts, styles or handlers, whatever the texts of
// statements are, and each asset that it references to exist.
func TestPagesKeepToThePolicy(t *testing.T) {
	o, _ := pageOptions()
	h := New(o).Handler()
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+="|javascript:`)
	for _, path := range []string{"/", "/queries", "/queries?filter=%3Cscript%3E&page=2", "/query/" + someDigest, "/queries?from=never", "/query/x"} {
		_, body := browse(t, h, path, "")
		if bad := inline.FindString(body); bad != "" {
			t.Errorf("%s has %q, which the policy forbids", path, bad)
		}
		if !strings.Contains(body, "<!DOCTYPE html>") || strings.Count(body, "<main") != 1 || !strings.Contains(body, `lang="en"`) {
			t.Errorf("%s is no page: %.200s", path, body)
		}
		for _, part := range strings.Split(body, `"/assets/`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			code, _, header := request(t, h, "GET", "/assets/"+name)
			if code != 200 || !strings.Contains(header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s names /assets/%s: %d, %v", path, name, code, header)
			}
		}
	}
	_, _, header := request(t, h, "GET", "/")
	if csp := header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || !strings.Contains(csp, "script-src 'self'") {
		t.Errorf("the policy is %s", csp)
	}
	if code, _, _ := request(t, h, "GET", "/assets/app-000000000000.css"); code != 404 {
		t.Errorf("an asset of another release: %d, want 404", code)
	}
}

// TestTextsAreEscaped expects texts to be displayed unchanged, and only as text.
func TestTextsAreEscaped(t *testing.T) {
	o, _ := pageOptions()
	h := New(o).Handler()
	for _, path := range []string{"/", "/queries", "/query/" + someDigest} {
		_, body := browse(t, h, path, "")
		if !strings.Contains(body, "&lt;script&gt;alert(&#34;secret&#34;)") {
			t.Errorf("%s does not show the statement", path)
		}
	}
}

// TestRoles requests each route with an account that may see texts, one that may not, and none.
func TestRoles(t *testing.T) {
	o, f := pageOptions()
	o.Gate = testGate(t, o.Log)
	o.Plans = nil
	reported := func(w http.ResponseWriter, r *http.Request) {
		if access.SeesTexts(r.Context()) {
			_, _ = io.WriteString(w, secretText)
		}
	}
	o.QueryLog = http.HandlerFunc(reported)
	o.Routes = []Route{
		NewRoute(access.For(access.Viewer), "GET /api/v1/query", http.HandlerFunc(reported)).Listed("/api/v1/query", "PromQL"),
		NewRoute(access.For(access.Viewer).WithTexts(), "GET /api/v1/texts", http.HandlerFunc(reported)).Listed("/api/v1/texts", "only for some"),
	}
	h := New(o).Handler()
	for _, c := range []struct {
		path        string
		dba, others int
	}{
		{"/", 200, 200},
		{"/queries", 200, 200},
		{"/query/" + someDigest, 200, 200},
		{"/queries?filter=user%3Dapp+-schema%3Dx", 200, 200},
		{"/queries?filter=secret", 200, 403},
		{"/queries?filter=-secret", 200, 403},
		{"/queries?filter=normalized%3Da", 200, 403},
		{"/queries?filter=text%3Da", 400, 400},
		{"/debug/querylog", 200, 403},
		{"/debug/pprof/cmdline", 200, 403},
		{"/debug/pprof/", 200, 403},
		{"/api/v1/query", 200, 200},
		{"/api/v1/texts", 200, 403},
		{"/api/v1/live", 200, 200},
		{"/metrics", 200, 200},
		{"/-/healthy", 200, 200},
		{"/-/ready", 200, 200},
	} {
		if code, _ := browse(t, h, c.path, "dba"); code != c.dba {
			t.Errorf("%s: %d, want %d", c.path, code, c.dba)
		}
		for user, want := range map[string]int{"guest": c.others, "": 401} {
			code, body := browse(t, h, c.path, user)
			if code != want {
				t.Errorf("%s as %q: %d, want %d", c.path, user, code, want)
			}
			if strings.Contains(body, "alert(") || strings.Contains(body, "only for some") {
				t.Errorf("%s tells %q what it must not", c.path, user)
			}
			if code == 403 && !strings.Contains(body, "<h2>Try</h2>") {
				t.Errorf("%s as %q does not say what to try: %s", c.path, user, body)
			}
		}
	}
	if f.asked.Load() == 0 {
		t.Fatal("nobody asked for statements")
	}
	_, body := browse(t, h, "/queries", "dba")
	if !strings.Contains(body, "alert(") {
		t.Error("the page of one account was kept for another")
	}
}

// TestQueriesAsk expects parameters to become a query, and invalid ones a helpful error.
func TestQueriesAsk(t *testing.T) {
	o, f := pageOptions()
	h := New(o).Handler()
	code, body := browse(t, h, "/queries?sort=p99&order=asc&page=2&filter=user%3Dapp&from=now-6h", "")
	q := f.last.Load()
	if code != 200 || q.By != statements.ByP99 || !q.Ascending || q.Offset != queryRows || q.Filter != "user=app" || !q.Compare || q.To.Sub(q.From) != 6*time.Hour {
		t.Errorf("%d, asked %+v", code, q)
	}
	if !strings.Contains(body, `aria-sort="ascending"`) || !strings.Contains(body, `rel="prev"`) || !strings.Contains(body, `rel="next"`) {
		t.Error("the page does not say how it is sorted, or has no next one")
	}
	for path, want := range map[string]int{
		"/queries?sort=weight": 400, "/queries?page=0": 400, "/queries?page=999999999": 400, "/queries?from=now-2y": 400,
		"/queries?filter=" + strings.Repeat("x", 2000): 400, "/query/zz": 400, "/query/ff010203040506070809aabbccddeeff": 404,
	} {
		code, body := browse(t, h, path, "")
		if code != want || !strings.Contains(body, `<section class="problem">`) {
			t.Errorf("%.40s: %d, want a page with %d", path, code, want)
		}
	}
}

// TestPromQLIsRight parses each query on the pages with Prometheus' parser, and checks its series.
func TestPromQLIsRight(t *testing.T) {
	o, _ := pageOptions()
	h := New(o).Handler()
	known := map[string]bool{}
	for m := range stmtseries.NumMetrics {
		known[stmtseries.Metric(m).String()] = true
	}
	promql := regexp.MustCompile(`(?s)<details class="promql">.*?<code>(.*?)</code>`)
	unescape := strings.NewReplacer("&#34;", `"`, "&lt;", "<", "&gt;", ">", "&#39;", "'", "&amp;", "&")
	seen := 0
	paths := []string{"/", "/query/" + someDigest}
	for _, c := range queryColumns {
		paths = append(paths, "/queries?from=now-7d&sort="+c.id)
	}
	for _, path := range paths {
		_, body := browse(t, h, path, "")
		for _, m := range promql.FindAllStringSubmatch(body, -1) {
			query := unescape.Replace(m[1])
			e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
			if err != nil {
				t.Errorf("%s: %s: %v", path, query, err)
				continue
			}
			seen++
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if s, ok := n.(*parser.VectorSelector); ok {
					instance := ""
					for _, lm := range s.LabelMatchers {
						if lm.Name == "instance" {
							instance = lm.Value
						}
					}
					if !known[s.Name] || instance != `a"b\c` {
						t.Errorf("%s asks for %s", query, s)
					}
				}
				return nil
			})
		}
	}
	if seen < 14 {
		t.Errorf("%d queries on the pages", seen)
	}
}

// TestManyLookersCostLikeOne expects a page to be rendered once per second, regardless of the number of
// clients.
func TestManyLookersCostLikeOne(t *testing.T) {
	synctest.Test(t, manyLookers) // a page is dropped after a second, in which a busy computer may not render it so often
}

func manyLookers(t *testing.T) {
	o, f := pageOptions()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	s := New(o)
	h := s.Handler()
	for range 100 {
		browse(t, h, "/queries", "")
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("100 requests asked %d times", n)
	}
	now = now.Add(cacheFor)
	browse(t, h, "/queries", "")
	if n := f.asked.Load(); n != 2 {
		t.Errorf("a second later: asked %d times", n)
	}
	for i := range 2 * cacheEntries {
		browse(t, h, fmt.Sprintf("/queries?filter=user%%3D%d", i), "")
	}
	s.pages.cache.mu.Lock()
	defer s.pages.cache.mu.Unlock()
	if len(s.pages.cache.entries) > cacheEntries || s.pages.cache.bytes > cacheBytes {
		t.Errorf("%d pages of %d bytes are kept", len(s.pages.cache.entries), s.pages.cache.bytes)
	}
}

// TestPagesDoNotGrowWithTheStatements expects a page to cost the same for 20,000 statements as for 200.
func TestPagesDoNotGrowWithTheStatements(t *testing.T) {
	cost := func(rows int, path string) (bytes, size uint64) {
		o, f := pageOptions()
		f.rows = rows
		h := New(o).Handler()
		browse(t, h, path+"&sort=calls", "") // templates are parsed
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, body := browse(t, h, path, "")
		runtime.ReadMemStats(&after)
		if code != 200 {
			t.Fatalf("%s: %d", path, code)
		}
		return after.TotalAlloc - before.TotalAlloc, uint64(len(body))
	}
	for _, path := range []string{"/?from=now-7d", "/queries?from=now-7d"} {
		few, _ := cost(200, path)
		many, size := cost(20_000, path)
		if many > few+few/2+(1<<20) || many > 16<<20 || size > 1<<20 {
			t.Errorf("%s: %d bytes allocated of 20,000 statements, %d of 200; %d bytes of page", path, many, few, size)
		}
	}
}

// TestNoCallIsNoLatency expects a gap in the line of latency where there were no calls.
func TestNoCallIsNoLatency(t *testing.T) {
	got := called([]float64{0, 0.5, 0, 1}, []float64{0, 2, 0.1, 0})
	if !math.IsNaN(got[0]) || got[1] != 0.5 || !math.IsNaN(got[2]) || !math.IsNaN(got[3]) {
		t.Errorf("got %v, want 0.5 at the second alone", got)
	}
}

// TestNames checks the one-line names of statements.
func TestNames(t *testing.T) {
	var d [16]byte
	if got := statementName("", false, d); got != "digest "+hex.EncodeToString(d[:]) {
		t.Errorf("without a text: %s", got)
	}
	if got := statementName(strings.Repeat("é", 400), false, d); len(got) > maxLine+8 || !strings.HasSuffix(got, " …") {
		t.Errorf("a long text: %s", got)
	}
	if got := string(highlight("select \xff '<b>' ...")); strings.Contains(got, "<b>") || strings.Contains(got, "\xff") {
		t.Errorf("a text that is no UTF-8: %s", got)
	}
}

// TestShortHistory checks that a page names the start of a history that does not cover its range.
func TestShortHistory(t *testing.T) {
	end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := &view{span: span{From: end.Add(-time.Hour), To: end}}
	for start, want := range map[time.Duration]int{time.Minute: 1, 58 * time.Minute: 1, 59*time.Minute + time.Second: 0, time.Hour: 0} {
		notes := sourceNotes(v, statements.SourceSamples, end.Add(-start), end, nil)
		if len(notes) != want || want > 0 && !strings.Contains(notes[0], "starts at "+moment(end.Add(-start))) {
			t.Errorf("an hour of a history of %v: %q, want %d notes", start, notes, want)
		}
	}
}

// TestEffects shows each effect of calls on the page of a statement, with a chart, and as a column of the queries.
func TestEffects(t *testing.T) {
	o, _ := pageOptions()
	ids := make([]string, 0, len(queryColumns))
	for _, c := range stmtstats.Effects() {
		ids = append(ids, c.String())
	}
	h := New(o).Handler()
	_, statement := browse(t, h, "/query/"+someDigest, "")
	_, queries := browse(t, h, "/queries?column="+strings.Join(ids, "&column="), "")
	for i, c := range stmtstats.Effects() {
		value := fmt.Sprint(11 * (i + 1))
		if unitOf(c) == unitBytes {
			value += " B"
		}
		if want := "<dt>" + c.Info().Title + "</dt><dd>" + value + "</dd>"; !strings.Contains(statement, want) {
			t.Errorf("%s: the page of a statement has no %s", c, want)
		}
		if strings.Contains(statement, `id="`+c.String()+`"`) != c.Info().Chart || strings.Contains(statement, c.Info().Metric) != c.Info().Chart {
			t.Errorf("%s: the page of a statement has a chart: %v", c, !c.Info().Chart)
		}
		if !strings.Contains(queries, "sort="+c.String()) {
			t.Errorf("%s: the page of queries has no column", c)
		}
	}
}
