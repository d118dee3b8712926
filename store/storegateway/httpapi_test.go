package storegateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
)

// A lineWriter keeps the lines that a query log writes.
type lineWriter struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

// logOf starts a query log. It also returns a function that closes the log and returns its lines.
func logOf(t *testing.T, r querylog.Redaction) (*querylog.Logger, func() []map[string]any) {
	t.Helper()
	out := &lineWriter{}
	l, err := querylog.New(querylog.Options{RingBytes: -1, Sinks: []querylog.SinkOptions{{Writer: out, Name: "test", Redaction: r}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(t.Context()) }) // closing twice has no effect
	return l, func() []map[string]any {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		var lines []map[string]any
		for line := range strings.Lines(out.buf.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			lines = append(lines, m)
		}
		// Lines of different clients are ordered only by their numbers.
		slices.SortFunc(lines, func(a, b map[string]any) int { return int(a["seq"].(float64) - b["seq"].(float64)) })
		return lines
	}
}

// newHTTPServer starts a server of the HTTP API and the status page and returns its URL.
func newHTTPServer(t *testing.T, g *storegateway.Gateway, queries *querylog.Logger) string {
	t.Helper()
	return startHTTPServer(t, g, queries).URL
}

func startHTTPServer(t *testing.T, g *storegateway.Gateway, queries *querylog.Logger) *httptest.Server {
	t.Helper()
	api, err := storegateway.NewHTTPAPI(g, storegateway.HTTPOptions{Queries: queries, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", api)
	mux.Handle("/api/v1/status/blocks", storegateway.StatusHandler(g))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func getJSON(t *testing.T, url, tenant string) (code int, respond map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tenant != "" {
		r.Header.Set(tenantHeader, tenant)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &respond); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return response.StatusCode, respond
}

// TestHTTPAPI requests queries, selectors and the status page, and checks the costs in the explanation and
// the query log.
func TestHTTPAPI(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	log, lines := logOf(t, querylog.RedactLiterals)
	server := startHTTPServer(t, g, log)
	base := server.URL
	code, respond := getJSON(t, base+"/api/v1/query?explain=1&time=1700001700&query="+url.QueryEscape(`count({__name__=~".+",cluster="eu"})`), "")
	if code != http.StatusOK || respond["status"] != "success" {
		t.Fatalf("%d %v", code, respond)
	}
	explained, _ := respond["explain"].(map[string]any)
	blocks, _ := explained["blocks"].([]any)
	if len(blocks) != 2 || explained["allowed_bytes"] != float64(16<<20) || explained["peak_bytes"].(float64) < float64(8<<20)/16 {
		t.Errorf("the explanation is %v, want two blocks and the engine's samples at the peak", explained)
	}
	for _, b := range blocks {
		read := b.(map[string]any)["read"].(map[string]any)
		if b.(map[string]any)["postings"].(float64) == 0 || read["series"].(map[string]any)["items"].(float64) == 0 || read["chunks"].(map[string]any)["fetched_bytes"].(float64) == 0 {
			t.Errorf("of a block: %v", b)
		}
	}
	if code, respond := getJSON(t, base+"/api/v1/series?match[]="+url.QueryEscape(`{job=~".+"}`), ""); code != http.StatusOK || len(respond["data"].([]any)) < 50 {
		t.Errorf("series: %d %.200v", code, respond)
	}
	if code, respond := getJSON(t, base+"/api/v1/query?query=nonsense(", ""); code != http.StatusBadRequest {
		t.Errorf("a bad query: %d %v", code, respond)
	}
	teststore.WaitForIdle(t, g)
	code, respond = getJSON(t, base+"/api/v1/status/blocks", "")
	page, _ := respond["data"].(map[string]any)
	if code != http.StatusOK || len(page["blocks"].([]any)) != 3 || page["budgets"].(map[string]any)["held_bytes"] != 0.0 {
		t.Errorf("status: %d %v", code, respond)
	}
	server.Close() // blocks until the handlers have returned: requests are logged after their responses
	got := lines()
	if len(got) != 3 {
		t.Fatalf("%d lines, want one for each request that is not for a page: %v", len(got), got)
	}
	if l := got[0]; l["kind"] != "store" || l["endpoint"] != "query" || l["matchers"] != `count({__name__=~"?",cluster="?"})` ||
		l["blocks"] != 2.0 || l["code"] != "OK" || l["min_time"] != 1700001700000.0 || l["bytes_fetched"].(float64) <= 0 {
		t.Errorf("the first line is %v", l)
	}
	if l := got[2]; l["code"] != "bad_data" || l["error_text"] == nil {
		t.Errorf("the last line is %v", l)
	}
}

// TestHTTPAPIRefuses expects 422 for a query that is too large, and 401 for one without a tenant.
func TestHTTPAPIRefuses(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	small := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 300 << 10, PerQuery: 300 << 10})
	})
	code, respond := getJSON(t, newHTTPServer(t, small, nil)+"/api/v1/query?time=1700001700&query="+url.QueryEscape(`count({__name__=~".+"})`), "")
	if text, _ := respond["error"].(string); code != http.StatusUnprocessableEntity || !strings.Contains(text, "the limit is 300 KiB") {
		t.Errorf("over the quota: %d %v", code, respond)
	}
	tenants := t.TempDir()
	if _, err := (testblock.Shape{Count: 2, Samples: 5}).Write(tenants+"/ann", testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	g := teststore.Open(t, tenants, func(o *storegateway.Options) { o.Layout = blocksync.LayoutMimir })
	base := newHTTPServer(t, g, nil) + "/api/v1/label/foo/values"
	if code, respond := getJSON(t, base, ""); code != http.StatusUnauthorized {
		t.Errorf("without a tenant: %d %v", code, respond)
	}
	if code, respond := getJSON(t, base, "ann"); code != http.StatusOK || len(respond["data"].([]any)) != 1 {
		t.Errorf("ann's values: %d %v", code, respond)
	}
	for _, g := range []*storegateway.Gateway{small, g} {
		teststore.WaitForIdle(t, g)
	}
}
