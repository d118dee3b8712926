//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// promValue returns the result of an instant query with one number; false if there is none.
func promValue(t *testing.T, p *tare, query string) (float64, bool) {
	t.Helper()
	return promValueAt(t, p, query, time.Time{})
}

// promValueAt is promValue at a time.
func promValueAt(t *testing.T, p *tare, query string, at time.Time) (float64, bool) {
	t.Helper()
	form := url.Values{"query": {query}}
	if !at.IsZero() {
		form.Set("time", at.Format(time.RFC3339Nano))
	}
	resp, err := http.Get(p.http + "/api/v1/query?" + form.Encode())
	must(t, err)
	defer resp.Body.Close()
	var respond struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	must(t, json.NewDecoder(resp.Body).Decode(&respond))
	if respond.Status != "success" || len(respond.Data.Result) == 0 {
		return 0, false
	}
	text, _ := respond.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	must(t, err)
	return v, true
}

// metricValue returns a metric without labels; -1 if /metrics lacks it.
func metricValue(t *testing.T, p *tare, name string) float64 {
	t.Helper()
	_, text := get(t, p.http+"/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return v
		}
	}
	return -1
}

// eventuallyValue waits until a query's result is a number.
func eventuallyValue(t *testing.T, p *tare, query string, want float64) {
	t.Helper()
	var got float64
	defer func() {
		if t.Failed() {
			t.Logf("%s is %v, want %v; the log:\n%s", query, got, want, p.text())
		}
	}()
	eventually(t, fmt.Sprintf("%s = %v", query, want), func() bool {
		v, ok := promValue(t, p, query)
		got = v
		return ok && v == want
	})
}

// TestHistory queries the gateway's history by PromQL: while it runs, after it was killed, and after a
// graceful stop.
func TestHistory(t *testing.T) {
	schema := newSchema(t, mariadb, "history")
	bucket, data := t.TempDir(), t.TempDir()
	args := []string{"--bucket", "file://" + bucket, "--data-dir", data, "--history-interval", "1s", "--history-labels", "instance=gw-1,cluster=e2e"}
	p := startTare(t, mariadb.Addr, args...)
	db := open(t, p.addr, schema)
	db.SetMaxOpenConns(1)
	exec := func(db *sql.DB, text string, n int) {
		t.Helper()
		for i := range n {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(text, i))
			must(t, err)
		}
	}
	exec(db, "create table t%d (id int primary key, v int)", 1)
	exec(db, "insert into t0 values (%d, 1)", 30)
	for range 20 {
		rows, err := db.QueryContext(t.Context(), "select id from t0 where id < 5")
		must(t, err)
		for rows.Next() {
		}
		must(t, rows.Err())
	}
	if _, err := db.ExecContext(t.Context(), "insert into t0 values (1, 1)"); err == nil {
		t.Fatal("a duplicate key was taken")
	}

	inserts := `tare_queries_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)insert.*t0.*"}`
	eventuallyValue(t, p, "sum("+inserts+")", 31)
	eventuallyValue(t, p, `sum(tare_query_rows_affected_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)insert.*t0.*"})`, 30)
	eventuallyValue(t, p, `sum(tare_query_rows_sent_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)select.*t0.*"})`, 100)
	eventuallyValue(t, p, `sum(tare_query_errors_total{class="constraint"})`, 1)
	eventuallyValue(t, p, `sum(tare_queries_total{instance="gw-1",cluster="e2e",user="app",schema="history"}) - sum(histogram_count(tare_query_duration_seconds{schema="history"}))`, 0)

	// The first sample of a series is counted too: it starts at 0.
	if v, ok := promValue(t, p, `sum(increase(`+"tare_queries_total{schema=\"history\"}"+`[5m]))`); !ok || v < 45 {
		t.Errorf("increase() over all of it is %v, 52 statements were sent", v)
	}
	if v, ok := promValue(t, p, `histogram_quantile(0.99, sum(rate(tare_query_duration_seconds[5m])))`); !ok || v <= 0 || v > 10 {
		t.Errorf("the 99th percentile of durations is %v", v)
	}
	if status, text := get(t, p.http+"/metrics"); status != http.StatusOK || !strings.Contains(text, "tare_history_rounds_total") {
		t.Errorf("metrics have no history: %d", status)
	} else if strings.Contains(text, "{digest=\"") {
		t.Error("/metrics has a series for each digest")
	}

	// Killed under load: acknowledged statements are counted, at most one statement per session is uncertain.
	const sessions = 4
	var responded [sessions]atomic.Int64
	var wg sync.WaitGroup
	load := open(t, p.addr, schema)
	for s := range sessions {
		wg.Go(func() {
			conn, err := load.Conn(t.Context())
			if err != nil {
				return
			}
			defer conn.Close()
			for {
				if _, err := conn.ExecContext(t.Context(), "do 1"); err != nil {
					return
				}
				responded[s].Add(1)
			}
		})
	}
	eventually(t, "under load", func() bool { return responded[0].Load() > 500 && responded[sessions-1].Load() > 500 })
	p.kill()
	testwait.Group(t, "the clients to stop", &wg)
	var sum int64
	for s := range sessions {
		sum += responded[s].Load()
	}

	p = startTare(t, mariadb.Addr, args...)
	does := `sum(tare_queries_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)do .*"})`
	var v float64
	eventually(t, "answered again", func() (ok bool) { v, ok = promValue(t, p, does); return ok })
	if d := int64(v) - sum; d < -sessions || d > sessions {
		t.Errorf("%v statements are counted, %d were answered to %d sessions", v, sum, sessions)
	}
	eventuallyValue(t, p, "sum("+inserts+")", 31)

	eventually(t, "the self-check after the kill", func() bool { return metricValue(t, p, "tare_history_ledger_rounds_total") > 0 })
	for _, name := range []string{"tare_history_unexplained_samples", "tare_history_unexplained_calls"} {
		if n := metricValue(t, p, name); n != 0 {
			t.Errorf("%s is %v after a kill", name, n)
		}
	}

	// Stopped gracefully, with statements that no round has written yet.
	db = open(t, p.addr, schema)
	exec(db, "insert into t0 values (100 + %d, 1)", 7)
	must(t, db.Close())
	if code := p.end(t); code != 0 {
		t.Fatalf("tare ends with code %d:\n%s", code, p.text())
	}
	p = startTare(t, mariadb.Addr, args...)
	eventuallyValue(t, p, `sum(tare_queries_total{schema="history"} * on (digest) group_left (text) tare_digest_info{text=~"(?i)insert.*t0.*"})`, 38)

	// With other labels, the directory belongs to another gateway.
	p.asked = true
	if code := p.end(t); code != 0 {
		t.Fatalf("tare ends with code %d:\n%s", code, p.text())
	}
	_, stderr, err := command(t, "", binary, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--backend", "mysql://"+mariadb.Addr,
		"--bucket", "file://"+bucket, "--data-dir", data, "--history-labels", "instance=gw-2")
	if err == nil || !strings.Contains(stderr, "belongs to") {
		t.Errorf("another instance takes the directory: %v, %s", err, stderr)
	}
}
