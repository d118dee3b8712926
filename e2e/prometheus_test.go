//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testpromql"
)

var prometheusRequests = flag.Int("prometheus.requests", 1500, "random requests of TestPrometheus")

// startPrometheus runs a Prometheus over a directory of blocks, which it may modify, and returns its URL.
func startPrometheus(t *testing.T, dir, config string) string {
	t.Helper()
	_, base := startPrometheusProcess(t, dir, config)
	return base
}

// startPrometheusProcess is startPrometheus that returns the process too.
func startPrometheusProcess(t *testing.T, dir, config string) (*child, string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds what is missing", err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	addr := freeAddr(t)
	p := startChild(t, exec.Command(program, "--config.file", file, "--web.listen-address", addr, "--storage.tsdb.path", dir,
		"--storage.tsdb.retention.time", "100y", "--query.timeout", "1h", "--log.level", "warn"), func([]byte) {})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("prometheus:\n%s", p.text())
		}
	})
	awaitReady(t, "Prometheus", addr)
	return p, "http://" + addr
}

// TestPrometheus sends random requests to tare store and to Prometheus over the same blocks, and to a Prometheus
// without blocks that reads from the store by remote read: the responses are equal.
func TestPrometheus(t *testing.T) {
	w := newPrometheusTwin(t)
	reader := startPrometheus(t, t.TempDir(), fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", w.store))
	codes := make(map[string]int)
	for n := range *prometheusRequests {
		r := w.generator.Request()
		r.Post = w.rng.IntN(3) == 0 && !strings.HasPrefix(r.Path, "label/")
		codes[fmt.Sprint(r.Path[:min(6, len(r.Path))], " ", w.compare(t, r, nil))]++
		if n%3 == 0 && (r.Path == "query" || r.Path == "query_range") {
			w.compareAt(t, reader, r, nil)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d requests, %d unstable; %v", *prometheusRequests, w.unstable, codes)
	if w.unstable > *prometheusRequests/10+10 {
		t.Errorf("%d of %d requests have several responses from Prometheus", w.unstable, *prometheusRequests)
	}
}

// stricter reports whether a malformed parameter was ignored by Prometheus and refused by the store, as
// documented.
func stricter(want, got testpromql.Response) bool {
	return want.Code == http.StatusOK && got.Code == http.StatusBadRequest && strings.Contains(got.Body, `"errorType":"bad_data"`)
}

// sameLength reports whether both are truncated lists of the same length: which names a limit keeps is not
// defined.
func sameLength(want, got testpromql.Response) bool {
	var a, b struct{ Data []any }
	const truncated = "results truncated due to limit"
	return strings.Contains(want.Body, truncated) && strings.Contains(got.Body, truncated) &&
		json.Unmarshal([]byte(want.Body), &a) == nil && json.Unmarshal([]byte(got.Body), &b) == nil && len(a.Data) == len(b.Data) && len(a.Data) > 0
}
