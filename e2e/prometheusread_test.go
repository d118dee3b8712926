//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
)

var remoteReads = flag.Int("prometheus.reads", 800, "random remote reads of TestPrometheusRead")

// A prometheusTwin is a store and a Prometheus over the same blocks.
type prometheusTwin struct {
	store, prometheus string // URLs
	rng               *rand.Rand
	generator         *testpromql.Generator
	unstable          int // probes to which Prometheus has several responses
}

func newPrometheusTwin(t *testing.T) *prometheusTwin {
	t.Helper()
	rng := rand.New(rand.NewPCG(testseed.New(t), 9))
	o := testblock.RandomOptions{Series: 120, Samples: 600, Start: 1_700_000_000_000 + rng.Int64N(1e9), Step: 15_000}
	series := testblock.Random(rng, o)
	end := o.Start + int64(o.Samples)*o.Step
	dir, theirs := t.TempDir(), t.TempDir()
	for from := o.Start - o.Start%7_200_000; from < end; from += 7_200_000 {
		_, err := testblock.Write(dir, testblock.Between(series, from, from+7_200_000), testblock.Options{ChunkRange: o.ChunkRange()})
		must(t, err)
	}
	must(t, os.CopyFS(theirs, os.DirFS(dir)))
	var all []labels.Labels
	for _, s := range series {
		all = append(all, s.Labels)
	}
	s := startStore(t, nil, "--bucket", "file://"+dir, "--layout", "prometheus")
	eventually(t, "a ready store", func() bool { return s.ready(t) })
	return &prometheusTwin{
		store: s.http, prometheus: startPrometheus(t, theirs, "{}\n"),
		rng: rng, generator: testpromql.New(rng, all, o.Start, end),
	}
}

// compare sends a probe to Prometheus and to the store, and reports a difference. clean, if not nil, changes bodies
// before they are compared.
func (w *prometheusTwin) compare(t *testing.T, p testpromql.Probe, clean func(string) string) (code int) {
	t.Helper()
	return w.compareAt(t, w.store, p, clean)
}

// compareAt is compare with another server than the store.
func (w *prometheusTwin) compareAt(t *testing.T, base string, p testpromql.Probe, clean func(string) string) (code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), probeLimit)
	defer cancel()
	do := func(base string) testpromql.Response {
		r := p.Do(ctx, http.DefaultClient, base)
		if clean != nil {
			r.Body = clean(r.Body)
		}
		return r
	}
	want, got := do(w.prometheus), do(base)
	if want.Err != nil || got.Err != nil {
		t.Fatalf("%s: Prometheus: %v; %s: %v", p, want.Err, base, got.Err)
	}
	if got == want || base == w.store && (stricter(want, got) || sameLength(want, got)) {
		return want.Code
	}
	for range 20 { // results that depend on the order of a map in the engine
		if do(w.prometheus) != want {
			w.unstable++
			return want.Code
		}
	}
	t.Errorf("%s of %s: %d %s, want %d %s\n%s", p, base, got.Code, got.Kind, want.Code, want.Kind, firstDifference(want.Body, got.Body))
	return want.Code
}

// firstDifference returns the first differing lines, from the position of the difference.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "(end)", "(end)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			at := 0
			for at < min(len(x), len(y)) && x[at] == y[at] {
				at++
			}
			at = max(0, at-100)
			return fmt.Sprintf("line %d of %d and %d, from %d:\nwant %.500s\ngot  %.500s", i, len(a), len(b), at, x[at:], y[at:])
		}
	}
	return "(equal)"
}

// TestPrometheusRead sends the same remote reads, with matchers, hints and response types of all kinds, to a store and to
// Prometheus over the same blocks: decoded, the responses are equal.
func TestPrometheusRead(t *testing.T) {
	w := newPrometheusTwin(t)
	codes := make(map[int]int)
	for range *remoteReads {
		codes[w.compare(t, w.generator.Read(), nil)]++
		if t.Failed() {
			return
		}
	}
	t.Logf("%d remote reads: %v", *remoteReads, codes)
	if codes[http.StatusOK] < *remoteReads/4 || codes[http.StatusBadRequest] == 0 {
		t.Errorf("codes: %v", codes)
	}
}

// withoutTimings returns a body without the times in its statistics.
func withoutTimings(body string) string {
	return regexp.MustCompile(`"timings":\{[^}]*\}`).ReplaceAllString(body, `"timings":{}`)
}

// TestPrometheusParameters sends queries with the parameters that change their execution, as GET and POST.
func TestPrometheusParameters(t *testing.T) {
	w := newPrometheusTwin(t)
	pick := func(list ...string) string { return list[w.rng.IntN(len(list))] }
	for n := 0; n < *remoteReads/4; n++ {
		r := w.generator.Request()
		if r.Path != "query" && r.Path != "query_range" {
			continue
		}
		r.Post = w.rng.IntN(2) == 0
		if w.rng.IntN(2) == 0 {
			r.Form.Set("stats", pick("all", "all", "true", "none"))
		}
		if w.rng.IntN(2) == 0 {
			r.Form.Set("lookback_delta", pick("15s", "1m", "3600", "1h", "0", "1ms", "-1s", "x"))
		}
		if w.rng.IntN(4) == 0 {
			r.Form.Set("timeout", pick("30s", "20", "1m", "x", "-"))
		}
		w.compare(t, r, withoutTimings)
		if t.Failed() {
			return
		}
	}
}

// documentedEndpoints returns the endpoints that docs/reference/promql.md lists as served, and those it lists
// as 404.
func documentedEndpoints(t *testing.T) (served, missing []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/promql.md")
	must(t, err)
	quoted := regexp.MustCompile("`([^`]+)`")
	_, rest, _ := strings.Cut(string(text), "## Endpoints")
	table, _, _ := strings.Cut(rest, "\n\nResponses")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				served = append(served, strings.ReplaceAll(m[1], "<name>", "job"))
			}
		}
	}
	_, rest, _ = strings.Cut(string(text), "\nThese are 404: ")
	list, _, _ := strings.Cut(rest, "\n\n") // the paragraph
	for _, m := range quoted.FindAllStringSubmatch(list, -1) {
		missing = append(missing, m[1])
	}
	return served, missing
}

// TestPrometheusEndpoints compares the endpoints in docs/reference/promql.md with the store, and those that
// Prometheus has too with Prometheus: completely, or by the shape of their fields if the values belong to the
// process.
func TestPrometheusEndpoints(t *testing.T) {
	w := newPrometheusTwin(t)
	served, missing := documentedEndpoints(t)
	if len(served) < 18 || len(missing) < 6 {
		t.Fatalf("read from the documentation: %v and %v", served, missing)
	}
	own := map[string]bool{"status/buildinfo": true, "status/runtimeinfo": true, "status/flags": true, "status/config": true}
	forms := map[string][]url.Values{
		"query":              {{"query": {"metric_0"}, "time": {"1700000500"}}, {}},
		"query_range":        {{"query": {"metric_0"}, "start": {"1700000000"}, "end": {"1700000900"}, "step": {"60"}}, {"query": {"metric_0"}}},
		"series":             {{"match[]": {"metric_0"}}, {}, {"match[]": {"metric_0"}, "limit": {"2"}}},
		"labels":             {{}, {"match[]": {"metric_0"}}},
		"label/job/values":   {{}, {"match[]": {"metric_0"}}},
		"format_query":       {{"query": {"sum(rate(a[5m]))by(b)"}}, {"query": {"sum("}}, {}},
		"parse_query":        {{"query": {"sum(rate(a[5m]))by(b)"}}, {"query": {"sum("}}, {}},
		"query_exemplars":    {{"query": {"metric_0"}, "start": {"1"}, "end": {"2"}}, {"query": {"metric_0"}, "start": {"2"}, "end": {"1"}}, {"query": {"("}}},
		"metadata":           {{}, {"limit": {"1"}}, {"metric": {"metric_0"}}},
		"rules":              {{}, {"type": {"alert"}}, {"type": {"record"}}, {"type": {"nonsense"}}},
		"targets":            {{}, {"state": {"active"}}, {"state": {"any"}}, {"state": {"dropped"}}},
		"targets/metadata":   {{}, {"limit": {"1"}}, {"match_target": {`{job="x"}`}}},
		"alerts":             {{}},
		"scrape_pools":       {{}},
		"alertmanagers":      {{}},
		"read":               nil, // TestPrometheusRead
		"status/buildinfo":   {{}},
		"status/config":      {{}},
		"status/flags":       {{}},
		"status/runtimeinfo": {{}},
	}
	for _, path := range served {
		list, known := forms[path]
		if !known {
			t.Errorf("%s is documented and not compared", path)
		}
		for _, form := range list {
			r := testpromql.Request{Path: path, Form: form}
			if path == "status/flags" { // each server has different flags
				w.compare(t, r, func(body string) string { return strings.Split(body, `"data":{`)[0] })
				continue
			}
			if own[path] {
				w.compare(t, r, shape)
				continue
			}
			w.compare(t, r, nil)
			if r.Post = len(form) > 0 && (strings.HasPrefix(path, "query") || path == "series" || path == "labels" || strings.HasSuffix(path, "_query")); r.Post {
				w.compare(t, r, nil)
			}
		}
	}
	for _, path := range append(missing, "nonsense") {
		target := w.store + "/api/v1/" + path
		if strings.HasPrefix(path, "/") {
			target = w.store + path
		}
		if code, body := get(t, target); code != http.StatusNotFound || !strings.HasPrefix(path, "/") && !strings.Contains(body, `"status":"error"`) {
			t.Errorf("%s: %d %.300s, documented is 404", path, code, body)
		}
	}
	w.features(t)
}

// features compares the sections of /api/v1/features.
func (w *prometheusTwin) features(t *testing.T) {
	t.Helper()
	var want, got struct {
		Data map[string]map[string]bool
	}
	for base, into := range map[string]any{w.prometheus: &want, w.store: &got} {
		code, body := get(t, base+"/api/v1/features")
		if err := json.Unmarshal([]byte(body), into); err != nil || code != http.StatusOK {
			t.Fatalf("%s/api/v1/features: %d %.300s %v", base, code, body, err)
		}
	}
	for _, section := range []string{"promql", "promql_functions", "promql_operators"} {
		if diff := cmp.Diff(want.Data[section], got.Data[section]); diff != "" {
			t.Errorf("features, %s:\n%s", section, diff)
		}
	}
}

// shape returns JSON with values replaced by the names and types of fields.
func shape(body string) string {
	var response struct {
		Status string
		Data   map[string]any
	}
	if err := json.Unmarshal([]byte(body), &response); err != nil {
		return body
	}
	fields := make(map[string]string)
	for name, v := range response.Data {
		fields[name] = fmt.Sprintf("%T", v)
	}
	text, _ := json.Marshal(fields) // strings always encode
	return response.Status + string(text)
}
