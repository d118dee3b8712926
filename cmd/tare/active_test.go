package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// startFrontend runs tare frontend over members until the test ends, and returns its URL.
func startFrontend(t *testing.T, members ...string) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Args = []string{"tare", "frontend", "--member", strings.Join(members, ","), "--http", "127.0.0.1:0", "--shards", "3", "--diag-format", "json"}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := json.NewDecoder(stderr)
	var ready struct{ Msg, HTTP string }
	for ready.Msg != "frontend listens" {
		if err := lines.Decode(&ready); err != nil {
			t.Fatalf("tare frontend ended before it was ready: %v", err)
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
		if err := cmd.Wait(); err != nil {
			t.Errorf("tare frontend: %v", err)
		}
	})
	return ready.HTTP
}

// activeSeries requests active series from a server.
func activeSeries(t *testing.T, base, prefix string, form url.Values) (series []map[string]string, header http.Header) {
	t.Helper()
	resp, err := http.PostForm(base+prefix+"/api/v1/cardinality/active_series", form)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	var response struct{ Data []map[string]string }
	if err := json.Unmarshal(body, &response); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s %v: %s", form, resp.Status, err, body)
	}
	return response.Data, resp.Header
}

// TestFleetOfGateways has two gateways in front of one server, one of which keeps a history, and a frontend
// over both: it knows the statements that each has relayed, by their instance, in full or as counts.
func TestFleetOfGateways(t *testing.T) {
	server := testmysql.Start(t)
	backend := "mysql://" + server.Addr
	var members []string
	for g := range 2 {
		var flags []string
		if g == 1 {
			dir := t.TempDir()
			must(t, os.Mkdir(dir+"/bucket", 0o700))
			flags = []string{"--bucket", "file://" + dir + "/bucket", "--data-dir", dir + "/data", "--history-labels", "instance=second,zone=eu"}
		}
		s := startServe(t, backend, flags...)
		members = append(members, s.http)
		cfg := server.Config("app")
		cfg.Addr = s.listen
		connector, err := mysql.NewConnector(cfg)
		must(t, err)
		db := sql.OpenDB(connector)
		defer db.Close()
		db.SetMaxOpenConns(1) // a statement is counted before the next one on its connection
		for i := range 3 + g {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf("SELECT 1 AS column_%c", 'a'+i))
			must(t, err)
		}
		_, err = db.ExecContext(t.Context(), "SELECT no_such_column")
		if !isServerError(err) {
			t.Fatalf("got %v, want an error of the server", err)
		}
		must(t, db.PingContext(t.Context()))
	}
	texts := func(base, selector string) (texts []string, instances map[string]int) {
		instances = map[string]int{}
		for _, prefix := range []string{"", "/prometheus"} {
			series, _ := activeSeries(t, base, prefix, url.Values{"selector": {selector}})
			texts = nil
			for _, ls := range series {
				texts = append(texts, ls["text"])
				instances[ls["instance"]]++
			}
		}
		slices.Sort(texts)
		return texts, instances
	}
	const selects = `tare_digest_info{text=~"(?i)select \\? as .?column_.+"}`
	for g, base := range members {
		if got, instances := texts(base, selects); len(got) != 3+g || len(instances) != 1 {
			t.Errorf("gateway %d: %q of %v", g, got, instances)
		}
	}
	front := startFrontend(t, members...)
	got, instances := texts(front, selects)
	if len(got) != 7 || len(slices.Compact(got)) != 4 || len(instances) != 2 {
		t.Errorf("the fleet: %q of %v", got, instances)
	}
	if instances["second"] == 0 {
		t.Errorf("the fleet: %v, want the history's instance", instances)
	}
	failed, _ := activeSeries(t, front, "", url.Values{"selector": {`tare_query_errors_total`}})
	if len(failed) != 2 || failed[0]["class"] != "syntax" || failed[0]["user"] != "app" || failed[0]["backend"] == "" {
		t.Errorf("errors: %v", failed)
	}
	all, _ := activeSeries(t, front, "", url.Values{"selector": {`tare_queries_total{user="app"}`}})
	want := map[string]string{}
	for _, ls := range all {
		want[ls["instance"]] += "x"
	}
	counts, header := activeSeries(t, front, "", url.Values{"selector": {`tare_queries_total{user="app"}`}, "count_by": {"instance"}})
	if len(counts) != 2 || header.Get("Tare-Count-By") != "instance" {
		t.Errorf("counts: %v %v", counts, header)
	}
	metrics := (&served{http: front}).heap(t)
	if metrics.owners["decoders_idle"] == 0 || metrics.owners["base"] == 0 || len(metrics.owners) != 4 { // with pages and query_log
		t.Errorf("the frontend's heap: %v", metrics.owners)
	}
	for _, c := range counts {
		if n := c["__count__"]; n != fmt.Sprint(len(want[c["instance"]])) {
			t.Errorf("%s has %s series, listed %d", c["instance"], n, len(want[c["instance"]]))
		}
	}
}

// TestActiveSeriesLogged checks that a gateway's query log has the requests for its active series: the query
// without values, the size of the response, and refusals.
func TestActiveSeriesLogged(t *testing.T) {
	server := testmysql.Start(t)
	dir := t.TempDir()
	l := startLogged(t, server, dir, filepath.Join(dir, "query.log"))
	const statements = 3
	l.load(t.Context(), 1, statements, plain)
	form := url.Values{"selector": {`tare_queries_total{user="` + testmysql.AppUser + `"}`}}
	series, _ := activeSeries(t, l.http, "", form)
	if len(series) == 0 {
		t.Fatal("no series of a user who has sent statements")
	}
	resp, err := http.PostForm(l.http+"/prometheus/api/v1/cardinality/active_series", url.Values{"selector": {`tare_queries_total offset 5m`}})
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a selector with an offset: %s", resp.Status)
	}
	l.stop()
	text, err := os.ReadFile(l.file)
	must(t, err)
	var lines []map[string]any
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		must(t, json.Unmarshal([]byte(line), &fields))
		if fields["kind"] == "frontend" {
			lines = append(lines, fields)
		}
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines of two questions:\n%s", len(lines), text)
	}
	for name, want := range map[string]any{
		"endpoint": "active_series", "selector": `{user="?",__name__="tare_queries_total"}`, "status": 200.0,
		"shards": 1.0, "items_in": float64(len(series)), "items_out": float64(len(series)),
	} {
		if got := lines[0][name]; got != want {
			t.Errorf("%s is %v, want %v: %v", name, got, want, lines[0])
		}
	}
	if got := lines[1]["status"]; got != 400.0 {
		t.Errorf("of the refused question the status is %v: %v", got, lines[1])
	}
}
