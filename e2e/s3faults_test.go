//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"flag"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var s3FaultRequests = flag.Int("s3faults.requests", 60, "random requests of TestStoreS3Faults for each kind of fault")

// faultProxy starts a proxy in front of an S3 server.
func faultProxy(t *testing.T, s *s3Server, seed uint64) *testbucket.Proxy {
	t.Helper()
	upstream := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: s.addr})
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, MaxIdleConnsPerHost: 16}, //nolint:gosec // a test's certificate
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	return testbucket.StartProxy(t, seed, upstream, func(key string) ([]byte, bool) {
		text, err := os.ReadFile(filepath.Join(s.root, s3Bucket, key))
		return text, err == nil
	})
}

// plainURL returns the bucket's URL through a proxy.
func plainURL(p *testbucket.Proxy) string {
	return "s3://" + s3Bucket + "/tsdb?endpoint=" + p.Addr + "&region=eu-test&path_style=true&insecure=true"
}

// openS3 opens an S3 server's bucket.
func openS3(t *testing.T, s *s3Server) objstore.Bucket {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3Secret)
	u, err := bucketurl.Parse(s.url())
	must(t, err)
	bucket, err := u.Open()
	must(t, err)
	return bucket
}

// uploadDir uploads the blocks of a directory, meta.json last.
func uploadDir(t *testing.T, bucket objstore.Bucket, dir string) (ids []string) {
	t.Helper()
	ids = blocksIn(t, dir)
	for _, id := range ids {
		var names []string
		root := filepath.Join(dir, id)
		must(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err == nil && !d.IsDir() && name != "tombstones" && name != "meta.json" {
				names = append(names, name)
			}
			return err
		}))
		for _, name := range append(names, "meta.json") {
			f, err := os.Open(filepath.Join(root, name))
			must(t, err)
			must(t, bucket.Upload(t.Context(), id+"/"+name, f))
			must(t, f.Close())
		}
	}
	return ids
}

// randomBlocks are overlapping blocks of random series in a directory.
type randomBlocks struct {
	dir        string
	series     []labels.Labels
	start, end int64 // of the samples
}

func newRandomBlocks(t *testing.T, r *rand.Rand) *randomBlocks {
	t.Helper()
	o := testblock.RandomOptions{Series: 80, Samples: 400, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(r, o)
	b := &randomBlocks{dir: t.TempDir(), start: o.Start, end: o.Start + int64(o.Samples)*o.Step}
	for from := b.start; from < b.end; from += (b.end - b.start) / 4 {
		_, err := testblock.Write(b.dir, testblock.Between(series, from, from+(b.end-b.start)/3), testblock.Options{
			External: map[string]string{"region": "eu"}, ChunkRange: o.ChunkRange(), SegmentBytes: 256 << 10,
		})
		must(t, err)
	}
	for _, s := range series {
		b.series = append(b.series, s.Labels)
	}
	return b
}

// A faultyBucket has blocks at an S3 server, behind a proxy that injects faults; healthy is a store over the same
// blocks in their directory.
type faultyBucket struct {
	*randomBlocks
	ids     []string
	proxy   *testbucket.Proxy
	healthy *store
}

func newFaultyBucket(t *testing.T, r *rand.Rand, seed uint64) *faultyBucket {
	t.Helper()
	b := &faultyBucket{randomBlocks: newRandomBlocks(t, r)}
	server := newS3(t)
	b.ids = uploadDir(t, openS3(t, server), b.dir)
	b.proxy = faultProxy(t, server, seed)
	b.healthy = startStore(t, nil, "--bucket", "file://"+b.dir, "--layout", "thanos")
	eventually(t, "a ready store", func() bool { return b.healthy.ready(t) })
	return b
}

// TestStoreS3Faults runs a store behind a proxy that injects the faults of networks and overloaded servers
// into its requests to an S3 server, separately and combined. Every response equals that of a store over the
// same blocks in a directory, or names missing blocks, or is an error that names block and bucket; afterwards
// all are equal. Meanwhile the store is restarted with damaged local files.
func TestStoreS3Faults(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newFaultyBucket(t, r, seed)
	data := t.TempDir()
	start := func() *store {
		s := startStore(t, nil, "--bucket", plainURL(b.proxy), "--layout", "thanos", "--data-dir", data, "--sync-interval", "2s", "--index-cache-bytes", "1MiB",
			"--bucket-timeout", "300ms", "--bucket-tries", "2", "--bucket-hedge", "100ms", "--query-timeout", "5s")
		eventually(t, "a ready store", func() bool { return s.ready(t) })
		return s
	}
	tested := start()
	stop := func() {
		if code := tested.end(syscall.SIGTERM); code != 0 {
			t.Fatalf("the store ends with code %d:\n%s", code, tested.text())
		}
	}
	rounds := []testbucket.Rules{{Kinds: testbucket.All, Rate: 0.1}, {Kinds: testbucket.All, Rate: 0.5}}
	for _, kind := range testbucket.All {
		rounds = append(rounds, testbucket.Rules{Kinds: []testbucket.Fault{kind}, Rate: 0.6})
	}
	total := make(map[testpromql.Outcome]int)
	for n, rules := range rounds {
		f := testpromql.Faulty{Bucket: s3Bucket, Blocks: b.ids, Damaged: slices.Contains(rules.Kinds, testbucket.Flip) || slices.Contains(rules.Kinds, testbucket.Short)}
		b.proxy.Break(rules)
		if len(rules.Kinds) == 1 && rules.Kinds[0] == testbucket.Lacks {
			eventually(t, "syncs with lists that lack objects", func() bool { return b.proxy.Done()[testbucket.Lacks] >= 3 })
		}
		b.probe(t, seed+uint64(n), *s3FaultRequests, b.healthy, tested, f, total)
		b.proxy.Heal()
		if tested.leavesOutDamaged(t) {
			stop()
			tested = start()
		}
		f.Over = true
		b.probe(t, seed+uint64(n)+100, *s3FaultRequests/4, b.healthy, tested, f, nil)
		if t.Failed() {
			t.Fatalf("in round %d: %v", n, rules.Kinds)
		}
		if n%6 == 0 {
			stop()
			damageFiles(t, r, data)
			tested = start()
		}
	}
	done := b.proxy.Done()
	t.Logf("faults: %v; responses: %v", done, total)
	for _, kind := range testbucket.All {
		if done[kind] == 0 {
			t.Errorf("no request had the fault %s", kind)
		}
	}
	eventually(t, "nothing is held", func() bool {
		_, body := tested.get(t, "/api/v1/status/blocks")
		return strings.Contains(body, `"held_bytes":0`) && strings.Contains(body, `"running":0`)
	})
}

// leavesOutDamaged reports whether the store has found damaged bytes or a missing file: it leaves out their block for
// ten minutes, or until it is started again.
func (s *store) leavesOutDamaged(t *testing.T) bool {
	t.Helper()
	_, body := s.get(t, "/api/v1/status/blocks")
	return strings.Contains(body, `"reason":"damaged"`)
}

// damageFiles changes or truncates each file below a directory that is not a lock.
func damageFiles(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) != "index-header" && filepath.Base(path) != "series-hashes" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			return err
		}
		at := r.IntN(len(text))
		if r.IntN(2) == 0 {
			text = text[:at]
		} else {
			text[at] ^= 1 << r.IntN(8)
		}
		return os.WriteFile(path, text, 0o600)
	}))
}

// probe sends n random requests to two stores, by several clients, and checks the responses of the tested one.
func (b *randomBlocks) probe(t *testing.T, seed uint64, n int, healthy, tested *store, f testpromql.Faulty, total map[testpromql.Outcome]int) {
	t.Helper()
	const clients = 4
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range uint64(clients) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, c))
			g := testpromql.New(r, b.series, b.start, b.end)
			for range max(n/clients, 1) {
				var p testpromql.Probe = g.Request()
				if r.IntN(4) == 0 {
					p = g.Read()
				}
				outcome, err := compareProbe(t.Context(), p, healthy.http, tested.http, f)
				mu.Lock()
				if total != nil {
					total[outcome]++
				}
				mu.Unlock()
				if err != nil || f.Over && outcome != testpromql.Equal {
					t.Errorf("%s: %s %v", p, outcome, err)
				}
			}
		})
	}
	testwait.Group(t, "the clients", &wg)
}

// probeLimit is the total time limit of a request: far more than --query-timeout.
const probeLimit = time.Minute

func compareProbe(ctx context.Context, p testpromql.Probe, healthy, tested string, f testpromql.Faulty) (testpromql.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	want := p.Do(ctx, http.DefaultClient, healthy)
	got := p.Do(ctx, http.DefaultClient, tested)
	outcome, err := f.Judge(want, got)
	for f.Over && err == nil && outcome != testpromql.Equal && ctx.Err() == nil { // until the next sync, or on a busy machine
		got = p.Do(ctx, http.DefaultClient, tested)
		outcome, err = f.Judge(want, got)
	}
	for range 20 { // results that depend on the order of a map in the engine
		if err == nil || want.Code != http.StatusOK {
			break
		}
		if again := p.Do(ctx, http.DefaultClient, healthy); again != want {
			return testpromql.Equal, nil
		}
	}
	return outcome, err
}
