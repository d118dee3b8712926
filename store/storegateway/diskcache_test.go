package storegateway_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A cachedStore is a gateway with a disk cache.
type cachedStore struct {
	*storegateway.Gateway
	disk     *diskcache.Cache
	registry *prometheus.Registry
	base     string // of its HTTP API
	api      storepb.StoreClient
}

// openCached opens a gateway over the bucket, with the disk cache of a directory, or none.
func openCached(t *testing.T, bucket objstore.Bucket, dir, dataDir string) *cachedStore {
	t.Helper()
	o := teststore.Options(t, bucket)
	s := &cachedStore{registry: prometheus.NewRegistry()}
	o.Layout, o.Registerer, o.DataDir, o.Cache = blocksync.LayoutThanos, s.registry, dataDir, tsblock.NewCache(1<<20)
	if dir != "" {
		var err error
		s.disk, err = diskcache.Open(diskcache.Options{Dir: dir, Bytes: 8 << 20, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.disk.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Disk = s.disk
	}
	s.Gateway = teststore.New(t, o)
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.base = newHTTPServer(t, s.Gateway, nil)
	s.api = storepb.NewStoreClient(teststore.Dial(t, storeapi.New(s.Gateway, storeapi.Options{}).NewServer()))
	return s
}

func (s *cachedStore) written(t *testing.T) {
	t.Helper()
	testwait.Equal(t, "pages that wait to be written", 0, func() int64 { return s.disk.Stats().Queued })
}

// responses returns what a client gets over both APIs.
func (s *cachedStore) responses(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, query := range []string{`count({__name__!=""})`, `sum by (__name__) (count_over_time({__name__=~"metric_[0-5].*"}[10m]))`, `{__name__=~"metric_1.*"}`} {
		code, body := getJSON(t, s.base+fmt.Sprintf("/api/v1/query_range?start=%d&end=%d&step=60&query=%s", 1_700_000_000, 1_700_009_000, strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22", " ", "+", "=", "%3D", "[", "%5B", "]", "%5D").Replace(query)), "")
		if code != 200 {
			t.Fatalf("%s: %d %v", query, code, body)
		}
		fmt.Fprintln(&all, query, body)
	}
	series, _, err := teststore.Receive(s.api.Series(t.Context(), teststore.Everything()))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range series {
		text, err := r.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%x\n", text)
	}
	if all.Len() < 10_000 {
		t.Fatalf("the responses have %d bytes", all.Len())
	}
	return all.String()
}

// TestDiskCache compares responses with and without a disk cache, when it is cold, warm, damaged, and after a restart
// with an unusable bucket of chunks and index pages.
func TestDiskCache(t *testing.T) {
	source := t.TempDir()
	shared.RandomBlocks(t, source, map[string]string{"region": "eu"})
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	uploadFiles(t, bucket, source)
	dir, dataDir := filepath.Join(t.TempDir(), "cache"), t.TempDir()
	want := openCached(t, bucket, "", t.TempDir()).responses(t)

	t.Run("cold", func(t *testing.T) {
		s := openCached(t, bucket, dir, dataDir)
		if d := cmp.Diff(want, s.responses(t)); d != "" {
			t.Error(d)
		}
		s.written(t)
	})
	t.Run("warm", func(t *testing.T) {
		s := openCached(t, bucket, dir, dataDir)
		bucket.TakeCalls()
		if d := cmp.Diff(want, s.responses(t)); d != "" {
			t.Error(d)
		}
		for _, call := range bucket.TakeCalls() {
			if strings.Contains(call, "GetRange") {
				t.Errorf("a warm cache reads the bucket: %s", call)
			}
		}
		checkDiskMetrics(t, s)
	})
	rng := testseed.Rand(t)
	for range 5 {
		t.Run("damaged", func(t *testing.T) {
			s := openCached(t, bucket, dir, dataDir)
			had := s.disk.Stats().Entries // none if the damage before was in the file's identification
			path := filepath.Join(dir, "pages")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			const every = 512 // bytes: each page is damaged
			for at := 0; at < len(text); at += every {
				text[at+rng.IntN(min(every, len(text)-at))] ^= byte(1 + rng.IntN(255))
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, s.responses(t)); d != "" {
				t.Error(d)
			}
			if n := s.disk.Stats().Damaged; n == 0 && had > 0 {
				t.Errorf("none of %d damaged pages was found", had)
			}
			s.written(t)
		})
	}
}

// checkDiskMetrics compares metrics, the status page and an explanation with each other.
func checkDiskMetrics(t *testing.T, s *cachedStore) {
	t.Helper()
	stats, page := s.disk.Stats(), s.StatusPage().Budgets.Disk
	if page == nil || page.Pages != stats.Entries || page.Capacity != stats.Capacity || !page.Writable || page.Hits == 0 {
		t.Errorf("%+v, %+v", page, stats)
	}
	err := testutil.GatherAndCompare(s.registry, strings.NewReader(fmt.Sprintf(`
# HELP tare_store_disk_cache_pages Pages in the disk cache.
# TYPE tare_store_disk_cache_pages gauge
tare_store_disk_cache_pages %d
# HELP tare_store_disk_cache_writable 1 while the disk cache stores pages; 0 after a failed write, until one succeeds.
# TYPE tare_store_disk_cache_writable gauge
tare_store_disk_cache_writable 1
# HELP tare_store_disk_cache_requests_total Lookups of pages in the disk cache, by result: hit or miss.
# TYPE tare_store_disk_cache_requests_total counter
tare_store_disk_cache_requests_total{result="hit"} %d
tare_store_disk_cache_requests_total{result="miss"} %d
`, stats.Entries, stats.Hits, stats.Misses)), "tare_store_disk_cache_pages", "tare_store_disk_cache_writable", "tare_store_disk_cache_requests_total")
	if err != nil {
		t.Error(err)
	}
	_, body := getJSON(t, s.base+"/api/v1/query?time=1700000500&explain=1&query=count_over_time(%7B__name__!=%22%22%7D%5B5m%5D)", "")
	explained, _ := body["data"].(map[string]any)["explain"].(map[string]any)
	if explained == nil {
		explained, _ = body["explain"].(map[string]any)
	}
	read, _ := explained["read"].(map[string]any)
	chunks, _ := read["chunks"].(map[string]any)
	if chunks == nil || chunks["fetched_bytes"] != 0.0 || chunks["reads"] != 0.0 || chunks["disk_bytes"].(float64) <= 0 {
		t.Errorf("explained as %v", explained)
	}
}

// uploadFiles uploads the blocks of a directory, meta.json last.
func uploadFiles(t *testing.T, bucket objstore.Bucket, dir string) {
	t.Helper()
	var metas []string
	upload := func(name string) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		testbucket.Upload(t, bucket, filepath.ToSlash(name), string(text))
	}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if filepath.Base(name) == tsblock.MetaFile {
			metas = append(metas, name)
		} else if err == nil {
			upload(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metas {
		upload(name)
	}
}

// TestDiskCacheOfDeletedBlocks deletes a block from the bucket, while a gateway runs and while none does: its pages
// leave the disk cache.
func TestDiskCacheOfDeletedBlocks(t *testing.T) {
	source := t.TempDir()
	shared.RandomBlocks(t, source, map[string]string{"region": "eu"})
	bucket := objstore.NewInMemBucket()
	uploadFiles(t, bucket, source)
	dir, dataDir := t.TempDir(), t.TempDir()
	remove := func(t *testing.T, s *cachedStore) {
		t.Helper()
		id := s.Blocks()[0].ID
		var names []string
		if err := bucket.Iter(t.Context(), id, func(name string) error { names = append(names, name); return nil }, objstore.WithRecursiveIter()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := bucket.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("while a gateway runs", func(t *testing.T) {
		s := openCached(t, bucket, dir, dataDir)
		s.responses(t)
		s.written(t)
		remove(t, s)
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "pages of the deleted block to leave", func() bool { return s.disk.Stats().Removed > 5 })
		if s.disk.Stats().Entries < 5 {
			t.Errorf("%+v", s.disk.Stats())
		}
		remove(t, s)
	})
	t.Run("while none does", func(t *testing.T) {
		s := openCached(t, bucket, dir, dataDir)
		if stats := s.disk.Stats(); stats.Removed < 5 || stats.Entries < 5 {
			t.Errorf("%+v", stats)
		}
	})
}
