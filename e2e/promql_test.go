//go:build e2e

package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
)

// The blocks of promqlStore: three series from promqlStart, a sample every 15 s for an hour.
const (
	promqlStart   = 1_700_000_100 // s, on a minute
	promqlSamples = 240
)

// newPromqlStore runs `tare store` over a bucket with one block.
func newPromqlStore(t *testing.T) *store {
	t.Helper()
	return promqlStoreIn(t, t.TempDir())
}

// promqlStoreIn is newPromqlStore with a bucket in dir, and with more arguments.
func promqlStoreIn(t *testing.T, dir string, args ...string) *store {
	t.Helper()
	var list []testblock.Series
	for i, job := range []string{"api", "db", "web<1>"} {
		s := testblock.Series{Labels: labels.FromStrings("__name__", "http_requests_total", "instance", fmt.Sprintf("h%d:90", i), "job", job)}
		for k := range promqlSamples {
			s.Samples = append(s.Samples, testblock.Sample{T: (promqlStart + int64(k)*15) * 1000, V: float64(k * (i + 1) * 15)})
		}
		list = append(list, s)
	}
	_, err := testblock.Write(dir, slices.Values(list), testblock.Options{ChunkRange: 4 * promqlSamples * 15_000})
	must(t, err)
	s := startStore(t, nil, append([]string{"--bucket", "file://" + dir}, args...)...)
	eventually(t, "a ready store", func() bool { return s.ready(t) })
	return s
}

// promtool runs Prometheus' client and returns its output.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which installs what is missing", err)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestPromtool(t *testing.T) {
	s := newPromqlStore(t)
	at := func(seconds int) string { return fmt.Sprint(promqlStart + seconds) }
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{
			"instant",
			[]string{"instant", "--time", at(600), s.http, `sum by (job) (max_over_time(http_requests_total{job=~"api|db"}[5m]))`},
			"{job=\"api\"} => 600 @[1700000700]\n{job=\"db\"} => 1200 @[1700000700]\n",
		},
		{
			"range",
			[]string{"range", "--start", at(60), "--end", at(180), "--step", "60s", s.http, `http_requests_total{job="db"}`},
			"http_requests_total{instance=\"h1:90\", job=\"db\"} =>\n120 @[1700000160]\n240 @[1700000220]\n360 @[1700000280]\n",
		},
		{
			"series",
			[]string{"series", "--match", `{job="web<1>"}`, "--start", at(0), "--end", at(3600), s.http},
			"{__name__=\"http_requests_total\", instance=\"h2:90\", job=\"web<1>\"}\n",
		},
		{
			"labels",
			[]string{"labels", "--start", at(0), "--end", at(3600), s.http, "job"},
			"api\ndb\nweb<1>\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := promtool(t, append([]string{"query"}, c.args...)...)
			lines := strings.Split(strings.TrimSpace(got), "\n")
			want := strings.Split(strings.TrimSpace(c.want), "\n")
			if c.name == "instant" {
				slices.Sort(lines) // an instant vector has no order
			}
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPromtoolOnBlocks has Prometheus' tool read the bucket while a store serves it: the store has changed
// nothing.
func TestPromtoolOnBlocks(t *testing.T) {
	dir := t.TempDir()
	promqlStoreIn(t, dir)
	if got := promtool(t, "tsdb", "list", dir); !strings.Contains(got, " 720 ") { // samples
		t.Errorf("tsdb list:\n%s", got)
	}
	if got := promtool(t, "tsdb", "analyze", dir); !strings.Contains(got, "Total Series: 3") {
		t.Errorf("tsdb analyze:\n%s", got)
	}
}

// TestGrafana sends the requests of Grafana's Prometheus data source: for "Save & test", for the lists of the
// query editor, and for a panel. As the documentation describes, they have a host name, which the store refuses without
// an option.
func TestGrafana(t *testing.T) {
	const host = "tare.example.com"
	refusing := newPromqlStore(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, refusing.http+"/api/v1/query?query=1%2B1", http.NoBody)
	must(t, err)
	r.Host = host + ":8317"
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(text), host) || !strings.Contains(string(text), "option http-allowed-hosts") {
		t.Errorf("without the option: %s %s", resp.Status, text)
	}
	s := promqlStoreIn(t, t.TempDir(), "--http-allowed-hosts", host)
	start, end := fmt.Sprint(promqlStart), fmt.Sprint(promqlStart+3600)
	window := url.Values{"start": {start}, "end": {end}}
	with := func(pairs ...string) url.Values {
		form := url.Values{}
		for name, values := range window {
			form[name] = values
		}
		for i := 0; i < len(pairs); i += 2 {
			form.Add(pairs[i], pairs[i+1])
		}
		return form
	}
	for _, c := range []struct {
		name, method, path string
		form               url.Values
		want               string // data, or its prefix
	}{
		{"health check", http.MethodPost, "query", url.Values{"query": {"1+1"}, "time": {end}}, `{"resultType":"scalar","result":[` + end + `,"2"]}`},
		{"version", http.MethodGet, "status/buildinfo", nil, `{"version":`},
		{"metrics", http.MethodGet, "label/__name__/values", window, `["http_requests_total"]`},
		{"metrics, limited", http.MethodGet, "label/__name__/values", with("limit", "40000"), `["http_requests_total"]`},
		{"label names", http.MethodPost, "labels", with("match[]", `{__name__="http_requests_total"}`), `["__name__","instance","job"]`},
		{"label values", http.MethodGet, "label/job/values", with("match[]", `http_requests_total{instance=~"h[01].*"}`), `["api","db"]`},
		{"variable", http.MethodPost, "series", with("match[]", `http_requests_total{job="db"}`), `[{"__name__":"http_requests_total","instance":"h1:90","job":"db"}]`},
		{"metadata", http.MethodGet, "metadata", url.Values{"limit": {"40000"}}, `{}`},
		{"rules", http.MethodGet, "rules", nil, `{"groups":[]}`},
		{"exemplars", http.MethodPost, "query_exemplars", with("query", "http_requests_total"), `[]`},
		{
			"panel", http.MethodPost, "query_range",
			with("query", `sum(max_over_time(http_requests_total{job="db"}[1m0s]))`, "step", "1800"),
			`{"resultType":"matrix","result":[{"metric":{},"values":[[1700000100,"0"],[1700001900,"3600"],[1700003700,"7170"]]}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, body := s.http+"/api/v1/"+c.path, ""
			if c.method == http.MethodPost {
				body = c.form.Encode()
			} else if c.form != nil {
				target += "?" + c.form.Encode()
			}
			r, err := http.NewRequestWithContext(t.Context(), c.method, target, strings.NewReader(body))
			must(t, err)
			if c.method == http.MethodPost {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			r.Host = host + ":8317"
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("User-Agent", "Grafana/12.0.0")
			resp, err := http.DefaultClient.Do(r)
			must(t, err)
			defer resp.Body.Close()
			var text io.Reader = resp.Body
			if resp.Header.Get("Content-Encoding") == "gzip" {
				text, err = gzip.NewReader(resp.Body)
				must(t, err)
			}
			var respond struct {
				Status string
				Data   json.RawMessage
			}
			must(t, json.NewDecoder(text).Decode(&respond))
			if resp.StatusCode != http.StatusOK || respond.Status != "success" || !strings.HasPrefix(string(respond.Data), c.want) {
				t.Errorf("%d %s: %s, want %s", resp.StatusCode, respond.Status, respond.Data, c.want)
			}
		})
	}
}
