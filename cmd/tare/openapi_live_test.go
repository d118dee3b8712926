package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// Marks that must not occur in responses without statement texts: a table and a value of a statement.
const (
	markedTable = "marked_table_qzx"
	markedValue = "marked_value_qzx"
)

// startCommand runs a subcommand as a process until the test ends and returns its addresses for HTTP and
// MySQL.
func startCommand(t *testing.T, ready string, args ...string) *served {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"tare"}, append(args, "--http", "127.0.0.1:0", "--diag-format", "json")...)
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := json.NewDecoder(stderr)
	var line struct{ Msg, HTTP, Listen string }
	for line.Msg != ready {
		line.HTTP, line.Listen = "", ""
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("tare %s ended before it was ready: %v", args[0], err)
		}
	}
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stderr) // until the process exits
		close(drained)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		testwait.Receive(t, "the end of the process' log", drained)
		_ = cmd.Wait()
	})
	return &served{http: line.HTTP, listen: line.Listen}
}

// startAll runs a gateway with a history and a standby, a store, a frontend and a row server with the
// accounts of accountsFile, and sends a marked statement through the gateway.
func startAll(t *testing.T) map[string]*served {
	t.Helper()
	dir := t.TempDir()
	accounts := []string{"--web-accounts-file", accountsFile(t)}
	server := testmysql.Start(t)
	must(t, server.Exec("CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop."+markedTable+" (id INT PRIMARY KEY, name VARCHAR(100))"))
	standby := filepath.Join(dir, "standby.yaml")
	must(t, os.WriteFile(standby, []byte(testmysql.AppUser+": "+testmysql.Password+"\n"), 0o600))
	account := "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + server.Addr
	for _, name := range []string{"history", "blocks"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	_, err := testblock.Shape{Count: 10, Samples: 10}.Write(filepath.Join(dir, "blocks"), testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	all := make(map[string]*served)
	start := func(command, ready string, args ...string) {
		t.Helper()
		all[command] = startCommand(t, ready, append(append([]string{command}, args...), accounts...)...)
	}
	start("serve", "listening", "--listen", "127.0.0.1:0", "--backend", "mysql://"+server.Addr, "--drain-timeout", "1s",
		"--bucket", "file://"+filepath.Join(dir, "history"), "--data-dir", filepath.Join(dir, "serve"), "--history-interval", "1s",
		"--standby", "mysql://127.0.0.1:1", "--standby-accounts", standby, "--copies", account, "--log-redact", "none")
	start("store", "store listens", "--bucket", "file://"+filepath.Join(dir, "blocks"), "--grpc", "off", "--data-dir", filepath.Join(dir, "store"))
	withAccount := strings.Replace(all["serve"].http, "http://", "http://dba:weight@", 1)
	start("frontend", "frontend listens", "--member", withAccount, "--log-redact", "none")
	start("rowstream", "rowstream is ready", "--from", account, "--listen", "127.0.0.1:0")

	db, err := sql.Open("mysql", testmysql.AppUser+":"+testmysql.Password+"@tcp("+all["serve"].listen+")/shop")
	must(t, err)
	defer db.Close()
	for _, values := range [][]any{{1, markedValue}, {2, markedValue}} {
		_, err = db.Exec("INSERT INTO "+markedTable+" (id, name) VALUES (?, ?)", values...) // prepared
		must(t, err)
	}
	_, err = db.Exec("SELECT name FROM " + markedTable + " WHERE name = '" + markedValue + "' OR sleep(0.1) = 1")
	must(t, err)
	return all
}

// do sends a request as an account and returns the response with its body.
func do(t *testing.T, req *http.Request, account string) (*http.Response, string) {
	t.Helper()
	return doWith(t, http.DefaultClient, req, account)
}

func doWith(t *testing.T, client *http.Client, req *http.Request, account string) (*http.Response, string) {
	t.Helper()
	if account != "" {
		req.SetBasicAuth(account, "weight")
	}
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(body)
}

func getRequest(t *testing.T, target string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	must(t, err)
	return req
}

// awaitText waits until the history has a series with the marked statement.
func awaitText(t *testing.T, base string) {
	t.Helper()
	testwait.Until(t, "a series with the marked statement", func() bool {
		_, body := do(t, getRequest(t, base+"/api/v1/query?query=tare_digest_info"), "operator")
		return strings.Contains(body, markedTable)
	})
}

// TestNoTextsAnywhere checks that no endpoint exposes the marked table or value of an executed statement to
// an account without texts, regardless of its role. The same requests by an operator with texts do.
func TestNoTextsAnywhere(t *testing.T) {
	f := readAPI(t)
	servers := startAll(t)
	serve := servers["serve"].http
	awaitText(t, serve)
	_, body := do(t, getRequest(t, serve+"/api/v1/statements"), "operator")
	var statements struct {
		Statements []struct{ Digest, Text string }
	}
	must(t, json.Unmarshal([]byte(body), &statements))
	shown := make(map[string]bool) // targets that expose a mark to the operator with texts
	walk := func(account string) {
		t.Helper()
		for command, s := range servers {
			all := f.requests(t, command, s.http)
			if command == "serve" {
				for _, st := range statements.Statements {
					all = append(all, getRequest(t, s.http+"/query/"+st.Digest))
				}
				all = append(all, textRequests(t, s.http)...)
			}
			if command == "serve" || command == "frontend" {
				all = append(all, getRequest(t, s.http+"/debug/pprof/goroutine?debug=2"), getRequest(t, s.http+"/debug/pprof/heap?debug=1"))
			}
			for _, req := range all {
				given := req.URL.RawQuery
				resp, body := do(t, req, account)
				if strings.HasSuffix(req.URL.Path, "/read") {
					if plain, err := snappy.Decode(nil, []byte(body)); err == nil {
						body = string(plain)
					}
				}
				for _, mark := range []string{markedTable, markedValue} {
					if !strings.Contains(body, mark) || strings.Contains(given, mark) && resp.StatusCode >= 400 {
						continue
					}
					shown[req.URL.Path] = true
					if account != "operator" {
						t.Errorf("%s as %s: %s %s shows %s: %d\n%s", command, account, req.Method, req.URL.RequestURI(), mark, resp.StatusCode, around(body, mark))
					}
				}
			}
		}
	}
	walk("operator")
	for _, path := range []string{
		"/", "/queries", "/plans", "/api/v1/plans", "/api/v1/statements", "/debug/querylog", "/metrics/digests", "/api/v1/query", "/api/v1/series",
		"/api/v1/label/text/values", "/api/v1/read", "/api/v1/query_range", "/series", "/api/v1/cardinality/active_series",
	} {
		if !shown[path] {
			t.Errorf("%s shows no mark to an operator with texts: the test would not notice a leak", path)
		}
	}
	t.Logf("paths with marks: %v", slices.Sorted(maps.Keys(shown)))
	for _, role := range access.Roles() {
		walk(role.String() + "-blind")
	}
	walk("")
}

func around(body, mark string) string {
	i := strings.Index(body, mark)
	return body[max(0, i-200):min(len(body), i+200)]
}

// textRequests returns requests for statement texts in every way that the APIs offer.
func textRequests(t *testing.T, base string) []*http.Request {
	t.Helper()
	var all []*http.Request
	get := func(path string, pairs ...string) {
		values := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		all = append(all, getRequest(t, base+path+"?"+values.Encode()))
	}
	const everything = `{__name__=~".+"}`
	marked := `{text=~".*` + markedTable + `.*"}`
	for _, selector := range []string{everything, marked, "tare_digest_info"} {
		get("/api/v1/query", "query", selector)
		get("/api/v1/query", "query", `label_replace(`+selector+`, "copy", "$1", "text", "(.*)")`)
		get("/api/v1/query", "query", `count_values("n", `+selector+`)`)
		get("/api/v1/query", "query", `count by (text) (`+selector+`)`)
		get("/api/v1/series", "match[]", selector)
		get("/api/v1/labels", "match[]", selector)
		get("/api/v1/label/text/values", "match[]", selector)
		get("/api/v1/cardinality/active_series", "selector", selector)
		get("/prometheus/api/v1/cardinality/active_series", "selector", selector, "count_by", "text")
		get("/series", "selector", selector)
	}
	get("/api/v1/label/text/values")
	now := time.Now().Unix()
	get("/api/v1/query_range", "query", "tare_digest_info", "start", strconv.FormatInt(now-60, 10), "end", strconv.FormatInt(now+5, 10), "step", "1")
	get("/api/v1/statements", "filter", markedTable)
	get("/api/v1/statements", "by", "calls", "source", "counters")
	get("/queries", "filter", markedTable)
	get("/live", "filter", "x")
	get("/metrics/digests", "limit", "100")
	get("/api/v1/plans", "limit", "1000")
	get("/plans", "limit", "1000")
	return append(all, remoteRead(t, base))
}

// remoteRead returns a request for all series with a text.
func remoteRead(t *testing.T, base string) *http.Request {
	t.Helper()
	message := prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: 0, EndTimestampMs: 1 << 42,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
	}}}
	text, err := message.Marshal()
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, text)))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	return req
}
