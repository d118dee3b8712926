package main

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// historySeries matches queries of a history.
var historySeries = regexp.MustCompile(`\btare_(quer(y|ies)_[a-z]|digest_info)`)

// documentedQueries returns the PromQL examples of the documentation by their place. Comments after two spaces are cut.
func documentedQueries(t *testing.T) map[string]string {
	t.Helper()
	queries := make(map[string]string)
	documented := regexp.MustCompile(`(?m)^ {4,}(?:.*'query=([^']+)'|.*promtool query instant \S+ '([^']+)'|((?:[a-z_]+\(|[a-z]+ by |tare_).+)$)`)
	pages, err := filepath.Glob("../../docs/*/*.md")
	must(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
			query, _, _ := strings.Cut(m[1]+m[2]+m[3], "  ")
			queries[page+": "+query] = query
		}
	}
	return queries
}

// historyQueries returns the PromQL over a history in documentation and dashboard, by its place. Values of the
// reader's are replaced by matchers of any value.
func historyQueries(t *testing.T) map[string]string {
	t.Helper()
	queries := documentedQueries(t)
	values := regexp.MustCompile(`(digest|instance)="(…|[0-9a-f]{32})"`)
	for where, query := range queries {
		if !historySeries.MatchString(query) {
			delete(queries, where)
			continue
		}
		queries[where] = values.ReplaceAllString(query, `$1=~".+"`)
	}
	if len(queries) < 7 {
		t.Errorf("the documentation has %d queries", len(queries))
	}
	text, err := os.ReadFile("../../deploy/grafana/dashboards/tare.json")
	must(t, err)
	var d dashboard
	must(t, json.Unmarshal(text, &d))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$gateway", ".+", "$digest", ".+", `digest="$digest"`, `digest=~".+"`)
	panels := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if historySeries.MatchString(target.Expr) {
				queries["panel "+p.Title+": "+target.Expr] = variables.Replace(target.Expr)
				panels++
			}
		}
	}
	if panels < 5 {
		t.Errorf("the dashboard has %d queries of a history", panels)
	}
	return queries
}

// withoutThreshold returns what an alert compares with a number.
func withoutThreshold(t *testing.T, query string) string {
	t.Helper()
	e, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return query
	}
	if b, ok := e.(*parser.BinaryExpr); ok && b.Op.IsComparisonOperator() {
		if _, ok := b.RHS.(*parser.NumberLiteral); ok {
			return b.LHS.String()
		}
	}
	return query
}

// TestDocumentedQueries runs the queries of documentation and dashboard over the history of a gateway that has
// executed statements of each kind: each returns series, and no warning or info.
func TestDocumentedQueries(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "history"), 0o700))
	server := testmysql.Start(t)
	must(t, server.Exec("CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY)"))
	s := startCommand(t, "listening", "serve", "--listen", "127.0.0.1:0", "--backend", "mysql://"+server.Addr, "--drain-timeout", "1s",
		"--bucket", "file://"+filepath.Join(dir, "history"), "--data-dir", filepath.Join(dir, "serve"), "--history-interval", "1s")
	db, err := sql.Open("mysql", testmysql.AppUser+":"+testmysql.Password+"@tcp("+s.listen+")/shop")
	must(t, err)
	defer db.Close()
	id := 0
	run := func() {
		id++
		_, err := db.Exec("INSERT INTO items VALUES (?)", id)
		must(t, err)
		_, err = db.Exec("SELECT id FROM items")
		must(t, err)
		if _, err := db.Exec("SELEC 1"); err == nil {
			t.Error("a syntax error is executed")
		}
	}
	type response struct {
		Data struct {
			Result []json.RawMessage
		}
		Warnings, Infos []string
	}
	query := func(expr string) (r response, status int, body string) {
		resp, body := do(t, getRequest(t, s.http+"/api/v1/query?query="+url.QueryEscape(expr)), "")
		_ = json.Unmarshal([]byte(body), &r)
		return r, resp.StatusCode, body
	}
	testwait.Until(t, "two samples of each kind", func() bool {
		run()
		for _, name := range []string{"tare_queries_total", "tare_query_errors_total", "tare_query_rows_sent_total", "tare_query_rows_affected_total"} {
			if r, _, _ := query("count_over_time(" + name + "[1m]) > 2"); len(r.Data.Result) == 0 {
				return false
			}
		}
		return true
	})
	for where, expr := range historyQueries(t) {
		r, status, body := query(withoutThreshold(t, expr))
		if status != http.StatusOK || len(r.Data.Result) == 0 || len(r.Warnings)+len(r.Infos) > 0 {
			t.Errorf("%s: %d %d series: %.500s", where, status, len(r.Data.Result), body)
		}
	}
}

// TestDocumentedSelectors expects a gateway to expose the series of every documented query over the metrics of
// `tare serve`.
func TestDocumentedSelectors(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "history"), 0o700))
	server := testmysql.Start(t)
	s := startCommand(t, "listening", "serve", "--listen", "127.0.0.1:0", "--backend", "mysql://"+server.Addr, "--drain-timeout", "1s",
		"--bucket", "file://"+filepath.Join(dir, "history"), "--data-dir", filepath.Join(dir, "serve"), "--return-idle-memory", "30s", "--tag-labels", "route", "--tag-labels", "application")
	_, text := do(t, getRequest(t, s.http+"/metrics"), "")
	var exposed []labels.Labels
	p := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if err != nil {
			break
		}
		if entry == textparse.EntrySeries {
			var ls labels.Labels
			p.Labels(&ls)
			exposed = append(exposed, ls)
		}
	}
	found := 0
	for where, query := range documentedQueries(t) {
		if historySeries.MatchString(query) || !strings.Contains(query, "tare_") {
			continue
		}
		e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			found++
			if !slices.ContainsFunc(exposed, func(ls labels.Labels) bool {
				return !slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
			}) {
				t.Errorf("%s: no series of %d is selected by %s", where, len(exposed), v)
			}
			return nil
		})
	}
	if found < 10 {
		t.Errorf("the documentation has %d selectors of metrics", found)
	}
}

// TestDocumentedForeignQueries runs the documented queries over other metrics than Tare's in `tare store`, over a block
// that has their series: each returns series, and no warning or info.
func TestDocumentedForeignQueries(t *testing.T) {
	const start, step, n = 1_700_000_000_000, 15_000, 100
	var series []testblock.Series
	for _, job := range []string{"api", "web"} {
		own := testblock.Series{Labels: labels.FromStrings("__name__", "http_requests_total", "job", job, "code", "200")}
		for i := range int64(n) {
			own.Samples = append(own.Samples, testblock.Sample{T: start + i*step, V: float64(i)})
		}
		series = append(series, own)
	}
	dir := t.TempDir()
	_, err := testblock.Write(dir, slices.Values(series), testblock.Options{})
	must(t, err)
	s := startCommand(t, "store listens", "store", "--bucket", "file://"+dir, "--layout", "prometheus", "--grpc", "off", "--data-dir", t.TempDir())
	testwait.Until(t, "the first sync", func() bool {
		resp, _ := do(t, getRequest(t, s.http+"/-/ready"), "")
		return resp.StatusCode == http.StatusOK
	})
	found := 0
	for where, query := range documentedQueries(t) {
		if strings.Contains(query, "tare_") {
			continue
		}
		found++
		end := strconv.Itoa((start + (n-1)*step) / 1000)
		resp, body := do(t, getRequest(t, s.http+"/api/v1/query?time="+end+"&query="+url.QueryEscape(query)), "")
		var r struct {
			Data            struct{ Result []json.RawMessage }
			Warnings, Infos []string
		}
		if err := json.Unmarshal([]byte(body), &r); err != nil || resp.StatusCode != http.StatusOK || len(r.Data.Result) != len(series) || len(r.Warnings)+len(r.Infos) > 0 {
			t.Errorf("%s: %d %.500s", where, resp.StatusCode, body)
		}
	}
	if found < 2 {
		t.Errorf("the documentation has %d queries", found)
	}
}

// TestSizingFormula compares the formula of docs/operate/sizing.md with the parts of the memory limit.
func TestSizingFormula(t *testing.T) {
	var texts []string
	for _, term := range new(storeService).memoryTerms() {
		texts = append(texts, term.text)
	}
	page, err := os.ReadFile("../../docs/operate/sizing.md")
	must(t, err)
	if want := "    RSS ≤ " + strings.Join(texts, " + ") + "\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/operate/sizing.md lacks the line %q", want)
	}
}
