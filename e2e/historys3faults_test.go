//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
)

// TestHistoryS3Faults has a gateway with hours of history ship it while its S3 server responds 503, truncates
// bodies and is slow. After the faults, all blocks are in the bucket byte for byte, totals equal the counts,
// and the gateway has logged no error.
func TestHistoryS3Faults(t *testing.T) {
	seed := testseed.New(t)
	data := t.TempDir()
	p := writePast(t, data)
	series := filepath.Join(data, "history", "series")
	local := blocksIn(t, series)
	server := testbucket.NewServer()
	proxy := testbucket.StartProxy(t, seed, server, server.Get)
	t.Setenv("AWS_ACCESS_KEY_ID", s3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3Secret)
	kinds := []testbucket.Fault{testbucket.SlowDown, testbucket.Cut, testbucket.Short, testbucket.Drip}
	proxy.Break(testbucket.Rules{Kinds: kinds, Rate: 0.5})
	g := startTare(t, mariadb.Addr, "--bucket", plainURL(proxy), "--data-dir", data, "--history-labels", "instance=gw-1,cluster=e2e")
	eventually(t, "requests are refused, and bodies are damaged or slow", func() bool {
		done := proxy.Done() // faults are random, and the gateway pauses for a minute between two attempts
		return done[testbucket.SlowDown] > 0 && done[testbucket.Cut]+done[testbucket.Short]+done[testbucket.Drip] > 0
	})
	proxy.Heal()
	eventually(t, "all blocks are shipped", func() bool {
		return metricValue(t, g, "tare_history_unshipped_blocks") == 0 && metricValue(t, g, "tare_history_blocks_shipped_total") >= float64(len(local))
	})
	for _, id := range local {
		names, err := filepath.Glob(filepath.Join(series, id, "chunks", "*"))
		must(t, err)
		for _, name := range append(names, filepath.Join(series, id, "index")) {
			want, err := os.ReadFile(name)
			must(t, err)
			relative, err := filepath.Rel(series, name)
			must(t, err)
			if got, ok := server.Get("tsdb/" + filepath.ToSlash(relative)); !ok || !bytes.Equal(got, want) {
				t.Errorf("%s has %d bytes in the bucket (%t), want the %d of the local file", relative, len(got), ok, len(want))
			}
		}
	}
	for n := 44; n < len(p.ends); n += 90 {
		at := p.ends[n]
		if got, ok := promValueAt(t, g, `sum(tare_queries_total{instance="gw-1"})`, at); !ok || got != float64(p.at(at)) {
			t.Errorf("at %s: %v (%t), want %d", at.Format(time.RFC3339), got, ok, p.at(at))
		}
	}
	if code := g.end(t); code != 0 {
		t.Errorf("the gateway exits with code %d", code)
	}
	for line := range strings.Lines(g.text()) {
		// writePast writes no manifest of the data directory's files.
		if strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, `"piece":"manifest"`) {
			t.Errorf("an error is logged: %s", line)
		}
	}
	t.Logf("faults: %v", proxy.Done())
}
