package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestFrontend runs tare frontend as a process: a request, its line in the query log, a reload, and a request
// that is in progress when the process is terminated.
func TestFrontend(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("selector"), "slow") {
			arrived <- struct{}{}
			<-release
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"data":[{"path":%q}]}`, r.URL.Path)
	}))
	defer downstream.Close()
	dir := t.TempDir()
	config, logFile := filepath.Join(dir, "tare.yaml"), filepath.Join(dir, "query.log")
	configure := func(decoder string) {
		text := fmt.Sprintf("frontend:\n  downstream: %s/prometheus\n  decoder: %s\n  decoder-compare: 0.5\n", downstream.URL, decoder)
		must(t, os.WriteFile(config, []byte(text), 0o600))
	}
	configure("strict")

	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Args = []string{
		"tare", "frontend", "--config", config, "--http", "127.0.0.1:0", "--shards", "2", "--diag-format", "json",
		"--log-file", logFile, "--data-dir", filepath.Join(dir, "data"),
	}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	said := json.NewDecoder(stderr)
	wait := func(msg string) (line map[string]any) {
		t.Helper()
		for line["msg"] != msg {
			line = nil
			if err := said.Decode(&line); err != nil {
				t.Fatalf("the process ended before it said %q: %v", msg, err)
			}
		}
		return line
	}
	base := wait("frontend listens")["http"].(string)
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get(base + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	const path = "/api/v1/cardinality/active_series?selector="
	item := `{"path":"/prometheus/api/v1/cardinality/active_series"}`
	want := `{"data":[` + item + `,` + item + `]}`
	for _, prefix := range []string{"", "/prometheus"} {
		if code, body := get(prefix + path + url.QueryEscape(`up{job="secret"}`)); code != 200 || body != want {
			t.Errorf("got %d %s, want %s", code, body, want)
		}
	}
	for page, want := range map[string]string{
		"/-/ready": "ready", "/-/healthy": "healthy", "/": "tare frontend", "/debug/pprof/cmdline": "frontend",
		"/metrics": `tare_frontend_requests_total{code="200",endpoint="active_series"} 2`,
	} {
		if code, body := get(page); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %.300s, want %s", page, code, body, want)
		}
	}

	configure("stdlib")
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	if line := wait("decoder reloaded"); line["decoder"] != "stdlib" || line["compare"] != 0.5 {
		t.Errorf("got %v", line)
	}
	configure("fast")
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	if line := wait("the decoder stays as it was"); !strings.Contains(fmt.Sprint(line["error"]), "want one of strict, stdlib") {
		t.Errorf("got %v", line)
	}

	slow := make(chan string, 1)
	go func() {
		resp, err := http.Get(base + path + "slow")
		if err != nil {
			slow <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		slow <- fmt.Sprint(string(text), err)
	}()
	testwait.Receive(t, "the first shard's request", arrived)
	testwait.Receive(t, "the second shard's request", arrived)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if line := wait("shutting down"); line["requests"] != 1.0 {
		t.Errorf("got %v", line)
	}
	close(release)
	if got := testwait.Receive(t, "the response to the slow request", slow); got != want+"<nil>" {
		t.Errorf("the request that was under way got %s", got)
	}
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("tare frontend: %v", err)
	}
	log, err := os.ReadFile(logFile)
	must(t, err)
	for _, want := range []string{
		`"kind":"frontend"`, `"endpoint":"active_series"`, `"selector":"{job=\"?\",__name__=\"up\"}"`,
		`"shards":2,"requests":2,"items_in":2,"items_out":2`, `"decoder":"strict"`, `"decoder":"stdlib"`, `"status":200`,
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the query log does not say %s:\n%s", want, log)
		}
	}
	if strings.Contains(string(log), "secret") {
		t.Error("the query log shows a value of the selector")
	}
}
