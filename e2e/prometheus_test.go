//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
)

var prometheusRequests = flag.Int("prometheus.requests", 1500, "random requests of TestPrometheus")

// startPrometheus runs a Prometheus over a directory of blocks, which it may change, and returns its URL.
func startPrometheus(t *testing.T, dir, config string) string {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds what is missing", err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	addr := freeAddr(t)
	p := startChild(t, exec.Command(program, "--config.file", file, "--web.listen-address", addr, "--storage.tsdb.path", dir,
		"--storage.tsdb.retention.time", "100y", "--log.level", "warn"), func([]byte) {})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("prometheus:\n%s", p.text())
		}
	})
	eventually(t, "Prometheus is ready", func() bool {
		response, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return "http://" + addr
}

// A response of an HTTP API.
type apiResponse struct {
	code int
	kind string // Content-Type
	body string
}

// request sends a request as GET or as POST.
func request(t *testing.T, base string, r testpromql.Request, post bool) apiResponse {
	t.Helper()
	var response *http.Response
	var err error
	if post {
		response, err = http.PostForm(base+"/api/v1/"+r.Path, r.Form)
	} else {
		response, err = http.Get(base + "/api/v1/" + r.String())
	}
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return apiResponse{response.StatusCode, response.Header.Get("Content-Type"), withSortedNotes(body)}
}

// withSortedNotes returns a body with its warnings and infos in order: those of Prometheus are in the order of a map.
func withSortedNotes(body []byte) string {
	var parts struct{ Warnings, Infos []string }
	if json.Unmarshal(body, &parts) != nil || len(parts.Warnings)+len(parts.Infos) == 0 {
		return string(body)
	}
	text := string(body)
	for _, list := range [][]string{parts.Warnings, parts.Infos} {
		before, err := json.Marshal(list)
		slices.Sort(list)
		after, err2 := json.Marshal(list)
		if err == nil && err2 == nil {
			text = strings.Replace(text, string(before), string(after), 1)
		}
	}
	return text
}

// TestPrometheus sends random requests to tare store and to Prometheus over the same blocks, and to a Prometheus
// without blocks that reads from the store by remote read: the responses are equal.
func TestPrometheus(t *testing.T) {
	seed := testseed.New(t)
	rng := rand.New(rand.NewPCG(seed, 7))
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
	prometheus := startPrometheus(t, theirs, "{}\n")
	reader := startPrometheus(t, t.TempDir(), fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", s.http))

	g := testpromql.New(rng, all, o.Start, end)
	codes := make(map[string]int)
	unstable := 0
	for n := range *prometheusRequests {
		r := g.Request()
		post := rng.IntN(3) == 0 && !strings.HasPrefix(r.Path, "label/")
		want := request(t, prometheus, r, post)
		codes[fmt.Sprint(r.Path[:min(6, len(r.Path))], " ", want.code)]++
		servers := map[string]string{"tare store": s.http}
		if n%3 == 0 && (r.Path == "query" || r.Path == "query_range") {
			servers["Prometheus with remote_read"] = reader
		}
		for name, base := range servers {
			got := request(t, base, r, post)
			if got == want {
				continue
			}
			if name == "tare store" && (stricter(want, got) || sameLength(want, got)) {
				continue
			}
			differs := false
			for i := 0; i < 20 && !differs; i++ { // by the order of a map in the engine
				differs = request(t, prometheus, r, post) != want
			}
			if differs {
				unstable++
				t.Logf("Prometheus differs from itself: %s", r)
				continue
			}
			t.Errorf("request %d to %s: %s (POST: %v)\n%s", n, name, r, post, cmp.Diff(indented(want), indented(got)))
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d requests, %d unstable; %v", *prometheusRequests, unstable, codes)
	compareFixed(t, prometheus, s.http)
}

// stricter reports whether a malformed parameter was ignored by Prometheus and refused by the store, as documented.
func stricter(want, got apiResponse) bool {
	return want.code == http.StatusOK && got.code == http.StatusBadRequest && strings.Contains(got.body, `"errorType":"bad_data"`)
}

// sameLength reports whether both are lists of the same length that were truncated: which names a limit leaves is
// not defined.
func sameLength(want, got apiResponse) bool {
	var a, b struct{ Data []any }
	const truncated = "results truncated due to limit"
	return strings.Contains(want.body, truncated) && strings.Contains(got.body, truncated) &&
		json.Unmarshal([]byte(want.body), &a) == nil && json.Unmarshal([]byte(got.body), &b) == nil && len(a.Data) == len(b.Data) && len(a.Data) > 0
}

func indented(r apiResponse) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(r.body), "", " ") != nil {
		return fmt.Sprintf("%d %s\n%s", r.code, r.kind, r.body)
	}
	return fmt.Sprintf("%d %s\n%s", r.code, r.kind, b.String())
}

// compareFixed compares endpoints without parameters: whole, by the names of their fields where values are the
// process', and those that the store documents as 404.
func compareFixed(t *testing.T, prometheus, store string) {
	t.Helper()
	for _, path := range []string{"metadata", "rules", "alerts", "targets/metadata", "scrape_pools", "alertmanagers"} {
		want, got := request(t, prometheus, testpromql.Request{Path: path}, false), request(t, store, testpromql.Request{Path: path}, false)
		if got != want {
			t.Errorf("%s:\n%s", path, cmp.Diff(indented(want), indented(got)))
		}
	}
	exemplars := testpromql.Request{Path: "query_exemplars", Form: url.Values{"query": {"metric_0"}, "start": {"1"}, "end": {"2"}}}
	if want, got := request(t, prometheus, exemplars, false), request(t, store, exemplars, false); got != want {
		t.Errorf("query_exemplars:\n%s", cmp.Diff(indented(want), indented(got)))
	}
	for _, path := range []string{"status/buildinfo", "status/runtimeinfo"} {
		want, got := fields(t, prometheus, path), fields(t, store, path)
		if missing := slices.DeleteFunc(want, func(name string) bool { return slices.Contains(got, name) }); len(missing) > 0 {
			t.Errorf("%s lacks %v", path, missing)
		}
	}
	for _, path := range []string{"status/tsdb", "status/walreplay", "status/tsdb/blocks", "notifications", "targets/relabel_steps", "nonsense"} {
		if got := request(t, store, testpromql.Request{Path: path}, false); got.code != http.StatusNotFound || !strings.Contains(got.body, `"status":"error"`) {
			t.Errorf("%s: %s, want 404", path, indented(got))
		}
	}
	if code, _ := get(t, store+"/federate?match[]=metric_0"); code != http.StatusNotFound {
		t.Errorf("/federate: %d, want 404", code)
	}
}

func fields(t *testing.T, base, path string) (names []string) {
	t.Helper()
	var response struct{ Data map[string]any }
	r := request(t, base, testpromql.Request{Path: path}, false)
	must(t, json.Unmarshal([]byte(r.body), &response))
	for name := range response.Data {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
