package main

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// TestStoreOwnersAreTheHeap queries a tare store over a block of many series: the owners' bytes plus the base
// measured at start approximate the heap in use. The rest are tables of the runtime, of HTTP and of PromQL.
func TestStoreOwnersAreTheHeap(t *testing.T) {
	dir := t.TempDir()
	bucket := filepath.Join(dir, "bucket")
	must(t, os.Mkdir(bucket, 0o700))
	_, err := testblock.Shape{Count: 20_000, Samples: 10}.Write(bucket, testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Args = []string{
		"tare", "store", "--bucket", "file://" + bucket, "--http", "127.0.0.1:0", "--grpc", "off", "--diag-format", "json",
		"--data-dir", filepath.Join(dir, "data"), "--max-samples", "1000000",
	}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := json.NewDecoder(stderr)
	var ready struct{ Msg, HTTP string }
	for ready.Msg != "store listens" {
		must(t, lines.Decode(&ready))
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
			t.Errorf("tare store: %v", err)
		}
	})
	s := &served{http: ready.HTTP}
	s.ownersAreTheHeap(t, "idle", 1)
	for range 3 {
		response := s.get(t, "/api/v1/series?match[]="+url.QueryEscape(`{foo="bar"}`)+"&start=0&end=9999999999")
		if n := strings.Count(string(response), `"foo"`); n != 20_000 {
			t.Fatalf("%d series are answered", n)
		}
	}
	h := s.ownersAreTheHeap(t, "loaded", 1)
	if h.owners["index_cache"] < 100_000 || h.owners["slabs_idle"] < 100_000 || h.owners["index_headers"] < 1000 || h.owners["slabs_lent"] != 0 {
		t.Errorf("owners: %v", h.owners)
	}
}
