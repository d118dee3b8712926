//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/sqldigest"
)

var (
	manyStatements = flag.Int("many.statements", 300, "statements of TestPagesOfManyStatements")
	manyDays       = flag.Int("many.days", 2, "days of TestPagesOfManyStatements")
	manyRequests   = flag.Int("many.requests", 2, "requests for each page of TestPagesOfManyStatements")
)

// TestPagesOfManyStatements runs many statements through a gateway whose data directory has some days of them, and requests every
// page over these days. It logs the time of each page, as its client sees it. -many.statements 20000 -many.days 7 -many.requests 60
// measures the times of bench/README.md.
func TestPagesOfManyStatements(t *testing.T) {
	dir := t.TempDir()
	series := filepath.Join(dir, "data", "history", "series")
	args := []string{"--bucket", "file://" + dir + "/bucket", "--data-dir", dir + "/data", "--history-labels", "instance=many", "--log-file", "",
		"--control", "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + mariadb.Addr, "--tag-labels", "route"}
	startTare(t, mariadb.Addr, args...).end(t)

	rng := rand.New(rand.NewPCG(1, 2))
	up := &rollup.Rollup{Labels: map[string]string{"instance": "many"}}
	texts := make([]string, *manyStatements)
	var d sqldigest.Digester
	for i := range texts {
		texts[i] = fmt.Sprintf("SELECT %d AS c%d, 'x' AS name", i, i)
		k := stmtstats.Key{Digest: d.Digest([]byte(texts[i]), 0), User: testmysql.AppUser, Backend: mariadb.Addr}
		up.Rows = append(up.Rows, rollup.Row{Print: rollup.PrintOf(&k), Key: k, Text: string(d.Text())})
	}
	end := time.Now().UTC().Truncate(rollup.Hour)
	start := end.AddDate(0, 0, -*manyDays).Truncate(rollup.Day)
	calls := uint64(0)
	write := func(at time.Time, span time.Duration) {
		up.Start, up.Span, up.Last = at, span, at.Add(span).UnixMilli()
		for i := range up.Rows {
			row := &up.Rows[i]
			var h stmtstats.Histogram
			for range 10 * span / rollup.Hour {
				h.Record(time.Duration(float64(time.Millisecond) * float64(1+row.Print[0]%20) * rng.ExpFloat64()))
			}
			row.Last = at.UnixMilli() + 1000
			row.Counts = stmtstats.Counts{stmtstats.Calls: h.Count(), stmtstats.Nanos: h.Nanos, stmtstats.RowsSent: rng.Uint64N(1000), stmtstats.BytesSent: rng.Uint64N(1e6)}
			row.Spread = h.AppendSpread(nil)
		}
		text, err := up.Encode()
		must(t, err)
		must(t, os.WriteFile(filepath.Join(series, rollup.Prefix, rollup.Name{Start: at.Unix(), Span: span}.String()), text, 0o600))
	}
	for at := start; at.Before(end); at = at.Add(rollup.Hour) {
		write(at, rollup.Hour)
		calls += uint64(10 * len(texts))
		if next := at.Add(rollup.Hour); next.Equal(next.Truncate(rollup.Day)) {
			write(at.Truncate(rollup.Day), rollup.Day)
		}
	}

	p := startTare(t, mariadb.Addr, args...)
	db := open(t, p.addr, "")
	db.SetMaxIdleConns(4)
	for i, text := range texts {
		rows, err := db.QueryContext(t.Context(), text+" /*route='%2F"+fmt.Sprint(i%7)+"'*/")
		must(t, err)
		must(t, rows.Close())
	}
	digest := d.Digest([]byte(texts[len(texts)/2]), 0).String()
	eventually(t, "the statements in the history", func() bool {
		v, ok := promValue(t, p, "sum(tare_queries_total)")
		return ok && v >= float64(len(texts))
	})
	_, body := get(t, fmt.Sprintf("%s/api/v1/statements?limit=1&from=%d&to=now", p.http, start.Unix()))
	var top struct {
		Matching int
		Total    struct{ Calls uint64 }
	}
	must(t, json.Unmarshal([]byte(body), &top))
	if top.Matching != len(texts) || top.Total.Calls != calls+uint64(len(texts)) {
		t.Errorf("%d statements with %d calls, want %d with %d", top.Matching, top.Total.Calls, len(texts), calls+uint64(len(texts)))
	}

	paths := []string{
		"/", "/queries", "/queries?sort=p99", "/queries?sort=calls&page=3", "/queries?filter=c17", "/queries?filter=calls>10", "/queries?group=user", "/queries?group=table", "/queries?group=client", "/queries?group=tag_route",
		"/query/" + digest, "/incident/" + digest, "/sessions", "/live", "/plans", "/series", "/series?selector=" + url.QueryEscape(`{user="app"}`), "/promql",
		"/promql?query=" + url.QueryEscape("sum(rate(tare_queries_total[5m]))"), "/promql?query=" + url.QueryEscape(`sum by (value) (rate(tare_tag_queries_total[5m]))`),
		"/copies", "/store", "/weight", "/api/v1/statements?by=seconds&limit=20", "/api/v1/incidents/" + digest, "/api/v1/sessions",
	}
	t.Logf("| page | p50, ms | p99, ms | KB |")
	t.Logf("|---|---:|---:|---:|")
	for _, path := range paths {
		var took []time.Duration
		size := 0
		for i := range *manyRequests {
			// Another range each time, so that no page comes from the cache.
			at := path + "?"
			if strings.Contains(path, "?") {
				at = path + "&"
			}
			at = p.http + strings.ReplaceAll(at, "calls>10", "calls%3E10")
			if path != "/api/v1/sessions" { // which are those of now
				at += fmt.Sprintf("from=%d&to=now", start.Unix()-int64(i))
			}
			began := time.Now()
			resp, err := http.Get(at)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			must(t, err)
			must(t, resp.Body.Close())
			took = append(took, time.Since(began))
			if size = max(size, len(text)); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d: %.500s", at, resp.StatusCode, text)
			}
		}
		slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
		ms := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1)+0.5)].Microseconds()) / 1000 }
		t.Logf("| `%s` | %.1f | %.1f | %d |", strings.ReplaceAll(path, digest, "DIGEST"), ms(0.5), ms(0.99), size/1000)
	}
}
