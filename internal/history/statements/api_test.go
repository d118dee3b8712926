package statements_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststmt"
)

// An askedRanker records its queries and returns top.
type askedRanker struct {
	asked []statements.TopQuery
	top   *statements.Top
	err   error
}

func (a *askedRanker) Top(_ context.Context, q statements.TopQuery) (*statements.Top, error) {
	a.asked = append(a.asked, q)
	return a.top, a.err
}

var statementsNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func statementsOptions(kept, counters statements.Ranker) statements.HandlerOptions {
	return statements.HandlerOptions{Ranker: kept, Counters: counters, Now: func() time.Time { return statementsNow }, Log: slog.New(slog.DiscardHandler)}
}

func askStatements(o statements.HandlerOptions, query string) (int, string) {
	w := httptest.NewRecorder()
	statements.NewHandler(o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/statements?"+query, nil))
	return w.Code, w.Body.String()
}

// TestStatementsQuestions parses each parameter.
func TestStatementsQuestions(t *testing.T) {
	hour := func(h, m int) time.Time { return time.Date(2026, 3, 1, h, m, 0, 0, time.UTC) }
	for _, c := range []struct {
		query    string
		counters bool
		want     statements.TopQuery
	}{
		{"", false, statements.TopQuery{From: hour(11, 0), To: hour(12, 0), Limit: statements.DefaultTopLimit}},
		{"from=now-90m&to=now-30m", false, statements.TopQuery{From: hour(10, 30), To: hour(11, 30), Limit: statements.DefaultTopLimit}},
		{"source=counters&durations=true", true, statements.TopQuery{From: hour(11, 0), To: hour(12, 0), Durations: true, Limit: statements.DefaultTopLimit}},
		{"source=counters&called_since=now-2s", true, statements.TopQuery{From: hour(11, 0), To: hour(12, 0), CalledSince: hour(12, 0).Add(-2 * time.Second), Limit: statements.DefaultTopLimit}},
		{"from=now-2d&limit=7&offset=3&points=20", false, statements.TopQuery{From: hour(12, 0).AddDate(0, 0, -2), To: hour(12, 0), Limit: 7, Offset: 3, Points: 20}},
		{"from=2026-03-01T08:00:00%2B02:00&to=1772359200", false, statements.TopQuery{From: hour(6, 0), To: hour(10, 0), Limit: statements.DefaultTopLimit}},
		{"by=p99&order=asc&compare=true", false, statements.TopQuery{From: hour(11, 0), To: hour(12, 0), By: statements.ByP99, Ascending: true, Compare: true, Limit: statements.DefaultTopLimit}},
		{"source=counters&filter=" + url.QueryEscape("select -user=app"), true, statements.TopQuery{From: hour(11, 0), To: hour(12, 0), Filter: "select -user=app", Limit: statements.DefaultTopLimit}},
	} {
		kept, counters := &askedRanker{top: &statements.Top{}}, &askedRanker{top: &statements.Top{}}
		code, body := askStatements(statementsOptions(kept, counters), c.query)
		asked := kept.asked
		if c.counters {
			asked = counters.asked
		}
		if code != http.StatusOK || len(asked) != 1 {
			t.Errorf("%s: %d %s; asked %v and %v", c.query, code, body, kept.asked, counters.asked)
			continue
		}
		if diff := cmp.Diff(c.want, asked[0]); diff != "" {
			t.Errorf("%s: asked (-want +got)\n%s", c.query, diff)
		}
	}
}

// TestStatementsRefused checks that a request that cannot be parsed is an error.
func TestStatementsRefused(t *testing.T) {
	for query, want := range map[string]string{
		"from=yesterday":                 "malformed time",
		"from=now%2B1h":                  "malformed time",
		"from=now-1y":                    "malformed time",
		"to=now-":                        "malformed time",
		"to=1e300":                       "malformed time",
		"from=now&to=now-1h":             "ends before it starts",
		"by=cost":                        "unknown measure",
		"order=up":                       "asc or desc",
		"durations=all":                  "true or false",
		"called_since=now":               "requires source=counters",
		"called_since=x&source=counters": "malformed time",
		"limit=-1":                       "limit",
		"limit=1001":                     "1 to 1000",
		"limit=9e9":                      "limit",
		"offset=99999999":                "offset",
		"points=1001":                    "points",
		"compare=perhaps":                "true or false",
		"source=rollups":                 "want counters",
		"filtre=x":                       `unknown parameter "filtre"`,
		"from=now-2h&from=now-1h":        "from is given 2 times",
		"from=now-30501w":                "malformed time", // three days, modulo 64 bits
		"filter=" + long('a', 2000):      "a filter of 2000 bytes",
	} {
		r := &askedRanker{top: &statements.Top{}}
		code, body := askStatements(statementsOptions(r, r), query)
		if code != http.StatusBadRequest || !strings.Contains(body, want) || len(r.asked) > 0 {
			t.Errorf("%.60s: %d %s, want 400 with %q", query, code, body, want)
		}
	}
	r := &askedRanker{err: errors.New("the disk is gone")}
	if code, body := askStatements(statementsOptions(r, r), ""); code != http.StatusInternalServerError || !strings.Contains(body, "the disk is gone") {
		t.Errorf("a failure: %d %s", code, body)
	}
}

func long(c byte, n int) string { return strings.Repeat(string(c), n) }

// TestTotalsJSON encodes totals and decodes them again. A count that is none is an error.
func TestTotalsJSON(t *testing.T) {
	want := statements.Totals{Calls: 7, Errors: 2, Seconds: 1.25, P50: 1500 * time.Microsecond, P99: 1234567, P999: time.Hour}
	for i, c := range stmtstats.Effects() {
		want.Counts[c] = math.MaxUint64 - uint64(i)
	}
	text, err := json.Marshal((*statements.TotalsJSON)(&want))
	if err != nil {
		t.Fatal(err)
	}
	var got statements.TotalsJSON
	if err := json.Unmarshal(text, &got); err != nil || statements.Totals(got) != want {
		t.Errorf("%s is decoded as %+v (%v), want %+v", text, got, err, want)
	}
	// Quantiles of no call are missing.
	if text, err = json.Marshal(&statements.TotalsJSON{}); err != nil || strings.Contains(string(text), "_us") || !strings.Contains(string(text), `"calls":0,`) {
		t.Errorf("no call: %s, %v", text, err)
	}
	if err := json.Unmarshal(text, &got); err != nil || got != (statements.TotalsJSON{}) {
		t.Errorf("%s is decoded as %+v (%v)", text, got, err)
	}
	for _, bad := range []string{`{"calls":"x"}`, `{"rows_sent":-1}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

// TestStatementsResponse ranks a table, for accounts with and without access to texts.
func TestStatementsResponse(t *testing.T) {
	table := openTable(t, stmtstats.Options{MaxDigests: 100, Bytes: 2 << 20})
	defer func() { _ = table.Close() }()
	for n := range 5 {
		for range n + 1 {
			r := teststmt.Record(n, time.Duration(n+1)*time.Millisecond)
			r.User, r.Normalized, r.RowsReturned = "app", fmt.Appendf(nil, "SELECT `secret_%d` FROM t WHERE a < ?", n), 2
			table.Observe(r)
		}
	}
	o := statementsOptions(statements.TableReader{table}, statements.TableReader{table})
	type resp struct {
		Source   string
		Matching int
		Total    struct {
			Calls    uint64
			RowsSent uint64 `json:"rows_sent"`
		}
		Before     *struct{}
		Statements []struct {
			Digest, User, Text string
			Calls              uint64
			Seconds            float64
			P99                float64   `json:"p99_us"`
			First              time.Time `json:"first_seen"`
		}
	}
	ask := func(query string) (a resp, body string) {
		t.Helper()
		code, body := askStatements(o, query)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, code, body)
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err)
		}
		return a, body
	}
	a, body := ask("by=calls&limit=2")
	if a.Source != statements.SourceCounters || a.Matching != 5 || a.Total.Calls != 15 || a.Total.RowsSent != 30 || a.Before != nil || len(a.Statements) != 2 {
		t.Fatalf("answer: %s", body)
	}
	var all struct {
		Total      map[string]any
		Statements []map[string]any
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range stmtstats.Effects() {
		if each, ok := all.Total[c.String()].(float64); !ok || each == 0 || all.Statements[0][c.String()] != each/3 {
			t.Errorf("%s: %v of all, %v of a third of the calls", c, all.Total[c.String()], all.Statements[0][c.String()])
		}
	}
	s := a.Statements[0]
	if s.Calls != 5 || s.User != "app" || s.Text != "SELECT `secret_4` FROM t WHERE a < ?" || len(s.Digest) != 32 || s.First.IsZero() ||
		s.Seconds < 0.0249 || s.Seconds > 0.0251 || s.P99 < 4880 || s.P99 > 5120 {
		t.Errorf("the first statement is %+v", s)
	}
	if _, body := ask("compare=1"); strings.Count(body, `"before":{`) != 6 {
		t.Errorf("with compare: %s", body)
	}

	var histogram struct {
		Statements []struct{ Durations [][2]float64 }
	}
	if _, body := ask("by=calls&limit=1&durations=1"); json.Unmarshal([]byte(body), &histogram) != nil || len(histogram.Statements) != 1 ||
		len(histogram.Statements[0].Durations) != 1 || histogram.Statements[0].Durations[0] != [2]float64{s.P99, 5} {
		t.Errorf("with durations: %s", body)
	}

	o.ChangeOf = func(key stmtstats.Key) (statements.Change, bool) {
		return statements.Change{Kind: statements.ChangeHeavier, Since: time.Unix(7200, 0), Times: 6.2}, strings.HasPrefix(s.Digest, fmt.Sprintf("%x", key.Digest[:]))
	}
	if _, body := ask("by=calls"); strings.Count(body, `"change":`) != 1 || !strings.Contains(body, `"change":{"kind":"heavier","since":"1970-01-01T02:00:00Z","times":6.2}`) {
		t.Errorf("with a change: %s", body)
	}

	o.NoTexts = true
	if a, body := ask("by=calls"); len(a.Statements) != 5 || strings.Contains(body, "secret") || strings.Contains(body, "SELECT") {
		t.Errorf("without texts: %s", body)
	}
	for _, filter := range []string{"secret_4", "-secret_4", "user=app secret", "normalized~t", "digest"} {
		code, body := askStatements(o, "filter="+url.QueryEscape(filter))
		if code != http.StatusBadRequest || !strings.Contains(body, "does not see the texts") {
			t.Errorf("without texts, filter %q: %d %s: what matches tells of the text", filter, code, body)
		}
	}
	if a, _ := ask("filter=" + url.QueryEscape("user=app digest="+s.Digest[:8])); len(a.Statements) != 1 {
		t.Errorf("without texts, by a digest: %+v", a)
	}
}

// TestStatementsEmpty checks that the time range is empty before the first statement.
func TestStatementsEmpty(t *testing.T) {
	table := openTable(t, stmtstats.Options{MaxDigests: 100, Bytes: 2 << 20})
	defer func() { _ = table.Close() }()
	code, body := askStatements(statementsOptions(statements.TableReader{table}, statements.TableReader{table}), "")
	var a struct {
		From, To   time.Time
		Statements []any
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || code != http.StatusOK || !a.From.Equal(a.To) || a.Statements == nil || len(a.Statements) != 0 {
		t.Errorf("%d %s (%v)", code, body, err)
	}
}
