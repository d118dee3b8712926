//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/weigh"
)

var (
	memorySeries = flag.Int("memory.series", 100_000, "series of TestStoreMemory")
	memoryBlocks = flag.Int("memory.blocks", 1000, "blocks of TestStoreManyBlocks")
)

const (
	memoryStart   = 1_699_999_200_000 // a multiple of two hours
	memoryRange   = 7_200_000
	memorySamples = 60 // per series and block
)

// counters returns series of a block of two hours.
func counters(series, block int) iter.Seq[testblock.Series] {
	return func(yield func(testblock.Series) bool) {
		samples := make([]testblock.Sample, memorySamples)
		for n := range series {
			for i := range samples {
				at := block*memorySamples + i
				samples[i] = testblock.Sample{T: memoryStart + int64(at)*memoryRange/memorySamples, V: float64(at * (n%17 + 1))}
			}
			ls := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%06d", n), "job", fmt.Sprintf("job-%d", n%10), "pod", fmt.Sprintf("pod-%d", n%1000))
			if !yield(testblock.Series{Labels: ls, Samples: samples}) {
				return
			}
		}
	}
}

// nine joins nine expressions returned by format.
func nine(format func(i int) string) string {
	var parts []string
	for i := range 9 {
		parts = append(parts, format(i))
	}
	return strings.Join(parts, "+")
}

// peakRSS returns the high-water mark of a process' resident memory.
func peakRSS(t *testing.T, c *child) int64 {
	t.Helper()
	p, err := weigh.Open(c.cmd.Process.Pid)
	must(t, err)
	u, err := p.Usage()
	must(t, err)
	return u.PeakRSS
}

// TestStoreMemory has a store and a Prometheus evaluate queries of nine selectors over 100,000 series each:
// the responses are equal, and the peak of the store's resident memory is not higher.
func TestStoreMemory(t *testing.T) {
	dir, theirs := t.TempDir(), t.TempDir()
	for block := range 2 {
		_, err := testblock.Write(dir, counters(*memorySeries, block), testblock.Options{ChunkRange: 2 * memoryRange})
		must(t, err)
	}
	must(t, os.CopyFS(theirs, os.DirFS(dir)))
	end := fmt.Sprint((memoryStart + 2*memoryRange - 60_000) / 1000)
	start := fmt.Sprint((memoryStart + memoryRange) / 1000)
	queries := []struct {
		name, query string
		step        string // "": at one time
	}{
		{"alike", nine(func(int) string { return "sum(m)" }), ""},
		{"different", nine(func(i int) string { return fmt.Sprintf(`sum(m{pod!="pod-%d"})`, i) }), ""},
		{"ranges", nine(func(i int) string { return fmt.Sprintf("sum(rate(m[%dm]))", 10*(i+1)) }), ""},
		{"offsets", nine(func(i int) string { return fmt.Sprintf("sum(increase(m[30m] offset %dm))", 10*i) }), ""},
		{"ratios by job", nine(func(i int) string {
			return fmt.Sprintf("sum by (job) (rate(m[10m]))/sum by (job) (rate(m[%dm]))", 20+i)
		}), "600"},
	}
	ask := func(base, query, step string) (int, string, time.Duration) {
		began := time.Now()
		form := url.Values{"query": {query}, "time": {end}}
		path := "/api/v1/query?"
		if step != "" {
			form = url.Values{"query": {query}, "start": {start}, "end": {end}, "step": {step}}
			path = "/api/v1/query_range?"
		}
		code, body := get(t, base+path+form.Encode())
		return code, string(body), time.Since(began)
	}

	prometheus, base := startPrometheusProcess(t, theirs, "{}\n")
	want, peaks := make([]string, len(queries)), make([]int64, len(queries))
	for i, q := range queries {
		code, body, took := ask(base, q.query, q.step)
		if code != http.StatusOK {
			t.Fatalf("%s: Prometheus: %d %.300s", q.name, code, body)
		}
		want[i], peaks[i] = body, peakRSS(t, prometheus)
		t.Logf("%s: Prometheus: %v, peak RSS %d MiB", q.name, took.Round(time.Millisecond), peaks[i]>>20)
	}

	s := startStore(t, nil, "--bucket", "file://"+dir, "--layout", "prometheus", "--query-timeout", "1h",
		"--query-bytes", "160MiB", "--process-bytes", "160MiB", "--index-cache-bytes", "16MiB", "--response-bytes", "16MiB")
	eventually(t, "a ready store", func() bool { return s.ready(t) })
	for i, q := range queries {
		code, body, took := ask(s.http, q.query, q.step)
		if code != http.StatusOK || body != want[i] {
			t.Errorf("%s: %d %.300s, want %.300s", q.name, code, body, want[i])
		}
		peak := peakRSS(t, s.child)
		t.Logf("%s: tare store: %v, peak RSS %d MiB", q.name, took.Round(time.Millisecond), peak>>20)
		if peak > peaks[i] {
			t.Errorf("%s: the store's peak RSS is %d MiB, Prometheus' %d after the same queries", q.name, peak>>20, peaks[i]>>20)
		}
	}
}

// TestStoreManyBlocks evaluates a query of ten selectors over twenty series in 1,000 blocks within 32 MiB for the query.
func TestStoreManyBlocks(t *testing.T) {
	dir := t.TempDir()
	for block := range *memoryBlocks {
		_, err := testblock.Write(dir, counters(20, block), testblock.Options{ChunkRange: 2 * memoryRange})
		must(t, err)
	}
	s := startStore(t, nil, "--bucket", "file://"+dir, "--layout", "prometheus", "--query-bytes", "32MiB", "--process-bytes", "32MiB",
		"--query-timeout", "1h")
	eventually(t, "a ready store", func() bool { return s.ready(t) })
	var alike, different []string
	for i := range 10 {
		alike = append(alike, fmt.Sprintf("sum(count_over_time(m[%dh]))", 2**memoryBlocks))
		different = append(different, fmt.Sprintf(`sum(count_over_time(m{i!="%d"}[%dh]))`, i, 2**memoryBlocks))
	}
	// A range excludes its start: the sample at the start of the first block is outside.
	end := memoryStart + *memoryBlocks*memoryRange
	want := fmt.Sprintf(`"%d"`, 10*20*(*memoryBlocks*memorySamples-1))
	for name, query := range map[string]string{"alike": strings.Join(alike, "+"), "different": strings.Join(different, "+")} {
		began := time.Now()
		code, body := get(t, s.http+"/api/v1/query?"+url.Values{"query": {query}, "time": {fmt.Sprint(end / 1000)}, "explain": {"1"}}.Encode())
		if code != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %.300s, want %s", name, code, body, want)
		}
		t.Logf("%s: %v, peak RSS %d MiB", name, time.Since(began).Round(time.Millisecond), peakRSS(t, s.child)>>20)
	}
}
