package promapi

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

var (
	blocksDir  = flag.String("blocks", "", "directory to keep BenchmarkRangeQuery's block in; default: a temporary one")
	manySeries = flag.Int("series", 10_000, "series of BenchmarkRangeQuery's block")
	scrapeSecs = flag.Int64("scrape", 60, "seconds between its samples")
)

const day = 24 * 3600 // seconds

// dayOfSeries returns counters of one metric over a day.
func dayOfSeries(n int, step int64) iter.Seq[testblock.Series] {
	return func(yield func(testblock.Series) bool) {
		samples := make([]testblock.Sample, day/step)
		for i := range n {
			value := 0.0
			for k := range samples {
				value += float64((i*7 + k*13) % 40)
				samples[k] = testblock.Sample{T: int64(k) * step * 1000, V: value}
			}
			ls := labels.FromStrings("__name__", "http_requests_total", "instance", fmt.Sprintf("host-%04d:9090", i/10), "job", "api", "path", fmt.Sprintf("/v1/item/%d", i%10))
			if !yield(testblock.Series{Labels: ls, Samples: samples}) {
				return
			}
		}
	}
}

// dayBlock returns a directory with the block, and writes the block if it is missing.
func dayBlock(b *testing.B) string {
	b.Helper()
	dir := *blocksDir
	if dir == "" {
		dir = b.TempDir()
	}
	dir = filepath.Join(dir, fmt.Sprintf("%d-series-%ds", *manySeries, *scrapeSecs))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if _, err := testblock.Write(dir, dayOfSeries(*manySeries, *scrapeSecs), testblock.Options{ChunkRange: 4 * day * 1000}); err != nil {
		b.Fatal(err)
	}
	return dir
}

// peakRSS returns the peak memory of the process since resetRSS.
func peakRSS(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}

func resetRSS(b *testing.B) {
	b.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRangeQuery queries both APIs for a day at steps of 60 s over the same block on local disk, over
// HTTP and without compression. Peak memory is that of the process, including the client; compare it with one
// subject per process.
func BenchmarkRangeQuery(b *testing.B) {
	const maxSamples = 50_000_000
	for _, q := range []struct{ name, expr string }{
		{"raw", "http_requests_total"},
		{"sum-rate", "sum by (path) (rate(http_requests_total[5m]))"},
		{"max-over-time", "max(max_over_time(http_requests_total[10m]))"},
	} {
		b.Run("query="+q.name+"/api=prometheus", func(b *testing.B) {
			dir := dayBlock(b)
			opts := tsdb.DefaultOptions()
			opts.RetentionDuration = 0
			work := b.TempDir()
			if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
				b.Fatal(err)
			}
			db, err := tsdb.Open(work, promslog.NewNopLogger(), nil, opts, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.DisableCompactions()
			plain := parser.NewParser(parser.Options{ExperimentalDurationExpr: true}) // as Prometheus v3.15
			askRange(b, prometheusAPI(b, withoutExemplars{db}, newEngine(maxSamples, plain), plain), q.expr)
		})
		b.Run("query="+q.name+"/api=store", func(b *testing.B) {
			dir := dayBlock(b)
			bucket, err := filesystem.NewBucket(dir)
			if err != nil {
				b.Fatal(err)
			}
			const budget = 2 << 30
			g, err := storegateway.New(storegateway.Options{
				Options: blocksync.Options{
					Bucket:      bucket,
					LocalBucket: dir,
					DataDir:     b.TempDir(),
					Layout:      blocksync.LayoutPrometheus,
					Cache:       tsblock.NewCache(256 << 20),
					Pool:        slab.NewPool(slab.PoolOptions{}),
					Log:         slog.New(slog.DiscardHandler),
				},
				Gate: slab.NewGate(slab.GateOptions{Bytes: budget, PerQuery: budget}),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			if err := g.Sync(context.Background()); err != nil {
				b.Fatal(err)
			}
			askRange(b, storeAPI(b, g, maxSamples), q.expr)
		})
	}
}

// askRange measures a day's range query over HTTP, after one that fills the caches of both.
func askRange(b *testing.B, h http.Handler, expr string) {
	b.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	client := server.Client()
	client.Transport = &http.Transport{DisableCompression: true}
	target := server.URL + "/api/v1/query_range?" + url.Values{"query": {expr}, "start": {"0"}, "end": {strconv.Itoa(day)}, "step": {"60"}}.Encode()
	ask := func() int64 {
		resp, err := client.Get(target)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		return n
	}
	ask()
	resetRSS(b)
	b.ReportAllocs()
	var n int64
	for b.Loop() {
		n = ask()
	}
	b.ReportMetric(float64(n), "answer-bytes")
	b.ReportMetric(peakRSS(b), "peak-MiB")
	client.CloseIdleConnections()
}
