//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// value returns the value of a metric, with its labels as in the text format.
func (s *store) value(t *testing.T, metric string) int {
	t.Helper()
	_, text := s.get(t, "/metrics")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no metric %s", metric)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	must(t, err)
	return int(v)
}

// TestStoreDiskCache runs a store with a disk cache behind a proxy that injects faults into its requests to an S3
// server. The store is killed and its cache damaged in turn. Every response equals that of a store over a directory,
// names missing blocks, or is an error; without faults all are equal. After a kill the cache is warm.
func TestStoreDiskCache(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newFaultyBucket(t, r, seed)
	data, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	args := []string{
		"--bucket", plainURL(b.proxy), "--layout", "thanos", "--data-dir", data, "--sync-interval", "2s", "--index-cache-bytes", "1MiB",
		"--bucket-timeout", "300ms", "--bucket-tries", "2", "--query-timeout", "5s", "--cache-dir", cache, "--cache-size", "4MiB",
	}
	start := func() *store {
		s := launchStore(t, nil, args...)
		eventually(t, "a ready store", func() bool { return s.ready(t) })
		return s
	}
	hits, misses := `tare_store_disk_cache_requests_total{result="hit"}`, `tare_store_disk_cache_requests_total{result="miss"}`
	warm, damaged := 0, 0
	for round := range 6 {
		s := start()
		f := testpromql.Faulty{Bucket: s3Bucket, Blocks: b.ids, Damaged: true}
		b.proxy.Break(testbucket.Rules{Kinds: testbucket.All, Rate: 0.2})
		b.probe(t, seed+uint64(round), 60, b.healthy, s, f, nil)
		b.proxy.Heal()
		if s.leavesOutDamaged(t) {
			damaged += s.value(t, "tare_store_disk_cache_damaged_pages_total")
			s.end(syscall.SIGKILL)
			s = start()
		}
		f.Over = true
		b.probe(t, seed+uint64(round)+100, 40, b.healthy, s, f, nil)
		damaged += s.value(t, "tare_store_disk_cache_damaged_pages_total")
		if round%2 == 1 { // after a kill, before which nothing was damaged
			warm += s.value(t, hits)
		}
		t.Logf("round %d: %d hits, %d misses", round, s.value(t, hits), s.value(t, misses))
		s.checkLog(t)
		if t.Failed() {
			t.Fatalf("in round %d; the log:\n%s", round, s.text())
		}
		s.end(syscall.SIGKILL)
		if round%2 == 1 {
			damagePages(t, r, filepath.Join(cache, "pages"))
		}
	}
	if warm == 0 || damaged == 0 {
		t.Errorf("%d hits after kills, %d damaged pages", warm, damaged)
	}
	checkSecondStore(t, start(), cache, args)
}

// damagePages changes bytes in about half of the pages of a disk cache.
func damagePages(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for at := 4096; at < len(text); at += 1 + r.IntN(64<<10) {
		text[at] ^= byte(1 + r.IntN(255))
	}
	must(t, os.WriteFile(path, text, 0o600))
}

// checkSecondStore starts a store with the directory of a running one: it ends with an error that names it.
func checkSecondStore(t *testing.T, running *store, cache string, args []string) {
	t.Helper()
	second := startChild(t, exec.Command(binary, append([]string{"store", "--http", "127.0.0.1:0"}, append(args, "--data-dir", t.TempDir())...)...), func([]byte) {})
	testwait.Receive(t, "the second store to end", second.exited)
	want := fmt.Sprintf("lock cache directory %s: another process uses it: give each process a directory of its own", cache)
	if code := second.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(second.text(), want) {
		t.Errorf("the second store ends with code %d:\n%s", code, second.text())
	}
	if code := running.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the store ends with code %d:\n%s", code, running.text())
	}
}
