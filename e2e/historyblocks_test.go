//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A past is the counts of a gateway in the hours before now.
type past struct {
	ends   []time.Time // of the rounds
	counts []uint64    // cumulative statements
}

// at returns the number of statements counted by the last round up to a time.
func (p *past) at(t time.Time) uint64 {
	n, exact := slices.BinarySearchFunc(p.ends, t, time.Time.Compare)
	if exact {
		n++
	}
	if n == 0 {
		return 0
	}
	return p.counts[n-1]
}

const (
	pastHours  = 9
	pastBlocks = 3 // at least
)

// A pastShape is the times of a past.
type pastShape struct {
	hours   int
	step    time.Duration // between rounds
	ahead   time.Duration // of the clock
	compact bool          // blocks are written

	instance string // "": that of pastLabels
}

var pastLabels = map[string]string{"instance": "gw-1", "cluster": "e2e"}

// writePast writes the data directory of a gateway that ran for hours and never reached its bucket.
func writePast(t *testing.T, data string) *past {
	t.Helper()
	return pastShape{hours: pastHours, step: time.Minute, compact: true}.write(t, data)
}

// writeHead is writePast for a gateway that was killed before it wrote a block.
func writeHead(t *testing.T, data string) *past {
	t.Helper()
	return pastShape{hours: pastHours, step: time.Minute}.write(t, data)
}

// write is writePast with other times.
func (o pastShape) write(t *testing.T, data string) *past {
	t.Helper()
	dir := filepath.Join(data, "history")
	must(t, os.MkdirAll(filepath.Join(dir, "digests"), 0o700))
	began := time.Now().Add(o.ahead - time.Duration(o.hours)*time.Hour).Truncate(time.Second)
	var clock atomic.Int64 // Unix seconds
	clock.Store(began.Unix())
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	table, err := stmtstats.OpenTable(stmtstats.Options{Dir: filepath.Join(dir, "digests"), Now: now, Slog: slog.New(slog.DiscardHandler)})
	must(t, err)
	bucket, err := filesystem.NewBucket(t.TempDir())
	must(t, err)
	gateway, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			Layout:  blocksync.LayoutThanos,
			DataDir: t.TempDir(),
			Cache:   tsblock.NewCache(1 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Log:     slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	})
	must(t, err)
	labels := maps.Clone(pastLabels)
	if o.instance != "" {
		labels["instance"] = o.instance
	}
	archive, err := history.OpenArchive(history.ArchiveOptions{
		Source: table, Dir: filepath.Join(dir, "series"), Labels: labels, Bucket: unreachable{bucket}, Gateway: gateway, Now: now, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	once, cancel := context.WithCancel(context.Background())
	cancel() // Run writes a round, and neither ships, compacts nor waits
	p := &past{}
	calls := uint64(0)
	rounds := int(time.Duration(o.hours) * time.Hour / o.step)
	for round := range rounds - 1 {
		clock.Store(began.Add(time.Duration(round) * o.step).Unix())
		for digest := range 20 {
			for call := range (round+digest)%3 + 1 {
				r := &querylog.Record{
					Digest: [16]byte{1, byte(digest)}, Normalized: fmt.Appendf(nil, "SELECT ? FROM t%d", digest), Schema: "shop", User: "app",
					Backend: "127.0.0.1:3306", Start: now(), Total: time.Duration(1+digest*call) * time.Millisecond, RowsReturned: uint64(call),
				}
				r.Start = now().Add(-r.Total)
				table.Observe(r)
				calls++
			}
		}
		must(t, archive.Run(once))
		p.ends, p.counts = append(p.ends, now()), append(p.counts, calls)
	}
	if o.compact {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- archive.Run(ctx) }() // until it has compacted
		eventually(t, "blocks", func() bool { return len(blocksIn(t, filepath.Join(dir, "series"))) >= pastBlocks })
		cancel()
		must(t, testwait.Receive(t, "the end of Run", ended))
	}
	must(t, archive.Close())
	must(t, gateway.Close())
	must(t, table.Close())
	return p
}

// unreachable is a bucket that rejects uploads.
type unreachable struct{ objstore.Bucket }

func (unreachable) Upload(context.Context, string, io.Reader, ...objstore.ObjectUploadOption) error {
	return errors.New("connection refused")
}

// blocksIn returns the directories of the blocks in a directory.
func blocksIn(t *testing.T, dir string) []string {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join(dir, strings.Repeat("[0-9A-Z]", 26), "meta.json"))
	must(t, err)
	for i := range metas {
		metas[i] = filepath.Base(filepath.Dir(metas[i]))
	}
	return metas
}

// thanosConfig returns the configuration of an S3 server's bucket for Thanos.
func (s *s3Server) thanosConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bucket.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `type: S3
config:
  bucket: %s
  endpoint: %s
  region: eu-test
  access_key: %s
  secret_key: %s
  bucket_lookup_type: path
  http_config:
    tls_config:
      ca_file: %s
prefix: tsdb
`, s3Bucket, s.addr, s3Key, s3Secret, s.cert), 0o600))
	return file
}

// TestHistoryShipped has a gateway with hours of history ship it to an S3 server. Prometheus' and Thanos'
// tools accept the blocks, and Thanos' store gateway and querier return the counted values.
func TestHistoryShipped(t *testing.T) {
	data := t.TempDir()
	p := writePast(t, data)
	server := newS3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3Secret)
	local := blocksIn(t, filepath.Join(data, "history", "series"))
	g := startTare(t, mariadb.Addr, "--bucket", server.url(), "--data-dir", data, "--history-labels", "instance=gw-1,cluster=e2e")
	shipped := filepath.Join(server.root, s3Bucket, "tsdb")
	eventually(t, "blocks in the bucket", func() bool {
		there := blocksIn(t, shipped)
		for _, id := range local {
			if !slices.Contains(there, id) {
				return false
			}
		}
		return true
	})
	if code := g.end(t); code != 0 {
		t.Fatalf("tare ends with code %d:\n%s", code, g.text())
	}
	blocks := blocksIn(t, shipped)

	// Prometheus' tools accept it as a directory of blocks.
	list := promtool(t, "tsdb", "list", shipped)
	for _, id := range blocks {
		if !strings.Contains(list, id) {
			t.Errorf("promtool does not list %s:\n%s", id, list)
		}
		// 20 digests with calls, durations, rows and a text.
		if got := promtool(t, "tsdb", "analyze", shipped, id); !strings.Contains(got, "Total Series: 80") || !strings.Contains(got, "instance") {
			t.Errorf("promtool analyze of %s:\n%s", id, got)
		}
	}

	// Thanos' tools find nothing to repair.
	config := "--objstore.config-file=" + server.thanosConfig(t)
	_, said, err := command(t, "", "thanos", "tools", "bucket", "verify", config, "--issues=index_known_issues", "--issues=overlapped_blocks", "--issues=duplicated_compaction")
	if err != nil || strings.Contains(said, "level=warn") || strings.Contains(said, "level=error") || !strings.Contains(said, "verify task completed") {
		t.Errorf("thanos tools bucket verify: %v\n%s", err, said)
	}
	table := mustRun(t, "", "thanos", "tools", "bucket", "inspect", config, "--selector", `instance="gw-1"`, "--selector", `cluster="e2e"`, "--output", "csv")
	for _, id := range blocks {
		if !strings.Contains(table, id) {
			t.Errorf("thanos tools bucket inspect does not show %s:\n%s", id, table)
		}
	}

	store := startThanosStore(t, config)
	querier := startThanos(t, "--endpoint", store)
	eventually(t, "the querier knows the store", func() bool {
		_, body := get(t, querier+"/api/v1/stores")
		return strings.Contains(body, store) && strings.Contains(body, `"lastError":null`) && strings.Contains(body, "gw-1")
	})
	asked := 0
	for n := 44; n < len(p.ends) && p.ends[n].Before(lastOfBlocks(t, shipped, blocks)); n += 45 {
		asked++
		for _, query := range []string{
			`sum(tare_queries_total{instance="gw-1",cluster="e2e"})`,
			`sum(histogram_count(tare_query_duration_seconds))`,
			`sum(tare_queries_total * on (digest) group_left (text) tare_digest_info{text=~"SELECT . FROM t.+"})`,
		} {
			a := ask(t, querier, "query", url.Values{"query": {query}, "time": {fmt.Sprint(p.ends[n].Unix())}})
			if want := fmt.Sprintf(" %d]", p.at(p.ends[n])); !strings.Contains(fmt.Sprint(a.Data), want) || a.Status != "success" {
				t.Errorf("%s at round %d: got %v, want %s", query, n, a, want)
			}
		}
	}
	if asked < 5 {
		t.Errorf("%d times of day were asked for", asked)
	}
}

// lastOfBlocks returns the time up to which blocks have all samples.
func lastOfBlocks(t *testing.T, dir string, blocks []string) time.Time {
	t.Helper()
	last := time.Time{}
	for _, id := range blocks {
		text, err := os.ReadFile(filepath.Join(dir, id, "meta.json"))
		must(t, err)
		m, err := tsblock.ParseMeta(text)
		must(t, err)
		if end := time.UnixMilli(m.MaxTime); end.After(last) {
			last = end
		}
	}
	return last
}

// startThanosStore runs Thanos' store gateway over a bucket and returns the address of its StoreAPI.
func startThanosStore(t *testing.T, config string) string {
	t.Helper()
	path, err := exec.LookPath("thanos")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds it", err)
	}
	addr, grpc := freeAddr(t), freeAddr(t)
	s := startChild(t, exec.Command(path, "store", config, "--data-dir", t.TempDir(), "--http-address", addr, "--grpc-address", grpc, "--log.format=json"), func([]byte) {})
	t.Cleanup(func() {
		s.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("thanos store:\n%s", s.text())
		}
	})
	awaitReady(t, "thanos store", addr)
	return grpc
}
