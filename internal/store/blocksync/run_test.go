package blocksync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/testbucket"
)

// uploadBlock uploads the objects of a Thanos block whose contents are never read.
func uploadBlock(t testing.TB, b objstore.Bucket, name string) {
	t.Helper()
	id := blockID(name)
	testbucket.Upload(t, b, id.String()+"/index", "index")
	testbucket.Upload(t, b, id.String()+"/chunks/000001", "chunks")
	testbucket.Upload(t, b, id.String()+"/meta.json", fmt.Sprintf(
		`{"ulid":%q,"version":1,"minTime":0,"maxTime":7200000,"stats":{"numChunks":1},"thanos":{"labels":{"a":"b"}}}`, id))
}

// runSyncer runs a Syncer until the test ends.
func runSyncer(t *testing.T, o Options) *Syncer {
	t.Helper()
	g := newSyncer(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return g
}

// at sleeps until d after start and then until all goroutines of the bubble are blocked.
func at(start time.Time, d time.Duration) {
	time.Sleep(time.Until(start.Add(d)))
	synctest.Wait()
}

func TestRunSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := testbucket.NewFailing(objstore.NewInMemBucket())
		uploadBlock(t, bucket, "A")
		o := testOptions(t, bucket)
		o.Layout, o.SyncInterval = LayoutThanos, time.Minute
		start := time.Now()
		g := runSyncer(t, o)
		at(start, 0)
		if !g.Ready() || len(g.Blocks()) != 1 {
			t.Fatalf("after the start: ready %t, %d blocks", g.Ready(), len(g.Blocks()))
		}
		uploadBlock(t, bucket, "B")
		at(start, 59*time.Second)
		if n := len(g.Blocks()); n != 1 {
			t.Fatalf("before the interval: %d blocks", n)
		}
		at(start, 60*time.Second)
		if n := len(g.Blocks()); n != 2 {
			t.Fatalf("after the interval: %d blocks", n)
		}

		// A nudge does not wait for the interval, but two nudges do not sync twice.
		calls := bucket.Calls.Load()
		uploadBlock(t, bucket, "C")
		g.nudge()
		g.nudge()
		at(start, 60*time.Second+minSyncPause)
		if n := len(g.Blocks()); n != 3 {
			t.Fatalf("after a nudge: %d blocks", n)
		}
		at(start, 90*time.Second)
		if n := bucket.Calls.Load() - calls; n != 2 { // a listing and a meta.json
			t.Errorf("two nudges made %d calls", n)
		}
	})
}

// TestRunWhenTheBucketFails expects retries sooner than the interval, with growing pauses, and one line in the log for
// each change of state.
func TestRunWhenTheBucketFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := testbucket.NewFailing(objstore.NewInMemBucket())
		uploadBlock(t, bucket, "A")
		bucket.Fail(testbucket.FailRule{Times: -1, How: testbucket.FailError})
		o := testOptions(t, bucket)
		o.SyncInterval, o.CallTries = time.Hour, 1
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		start := time.Now()
		g := runSyncer(t, o)
		at(start, 2*time.Second)
		if g.Ready() || g.Status().Error == "" || !g.Status().LastGood.IsZero() {
			t.Errorf("a failed sync: ready %t, %+v", g.Ready(), g.Status())
		}
		at(start, 10*time.Minute)
		if n := bucket.Calls.Load(); n < 10 || n > 25 {
			t.Errorf("%d tries in ten minutes, want about two a minute", n)
		}
		bucket.Heal()
		at(start, 11*time.Minute)
		if !g.Ready() || len(g.Blocks()) != 1 || g.Status().Error != "" {
			t.Errorf("a minute after the bucket is well: ready %t, %+v", g.Ready(), g.Status())
		}
		failed, synced := strings.Count(log.String(), "bucket sync failed"), strings.Count(log.String(), "bucket synced")
		if failed != 1 || synced != 1 {
			t.Errorf("%d lines of failures, %d of successes, want one each:\n%s", failed, synced, &log)
		}
	})
}

// TestRunWithoutBucket expects Run to fail if the bucket does not exist at the first sync, and to retry if it disappears
// later.
func TestRunWithoutBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := testbucket.NewFailing(objstore.NewInMemBucket())
		uploadBlock(t, bucket, "A")
		o := testOptions(t, bucket)
		o.SyncInterval, o.CallTries = time.Minute, 1
		o.Missing = func(err error) bool { return err != nil }
		start := time.Now()
		g := runSyncer(t, o)
		at(start, time.Second)
		bucket.Fail(testbucket.FailRule{Times: -1, How: testbucket.FailError})
		at(start, 10*time.Minute)
		if len(g.Blocks()) != 1 || g.Status().Error == "" {
			t.Errorf("without the bucket: %d blocks, %+v", len(g.Blocks()), g.Status())
		}
		bucket.Heal()
		at(start, 12*time.Minute)
		if g.Status().Error != "" {
			t.Errorf("with the bucket again: %+v", g.Status())
		}

		bucket.Fail(testbucket.FailRule{Times: -1, How: testbucket.FailError})
		fresh, err := New(testOptions(t, bucket))
		if err != nil {
			t.Fatal(err)
		}
		fresh.options.Missing = o.Missing
		if err := fresh.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "correct option bucket") {
			t.Errorf("at the start: %v", err)
		}
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRunEndsASync cancels Run during a sync, which closes the blocks that it had opened.
func TestRunEndsASync(t *testing.T) {
	for _, f := range []testbucket.Failure{testbucket.FailHang, testbucket.FailStall} {
		synctest.Test(t, func(t *testing.T) {
			bucket := testbucket.NewFailing(objstore.NewInMemBucket())
			uploadBlock(t, bucket, "A")
			uploadBlock(t, bucket, "B")
			bucket.Fail(testbucket.FailRule{Op: "get", Name: blockID("B").String(), Times: -1, How: f})
			o := testOptions(t, bucket)
			o.Layout, o.CallTimeout = LayoutThanos, time.Hour
			g := newSyncer(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- g.Run(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil || g.Ready() || len(g.Blocks()) != 0 {
				t.Errorf("%s: %v, ready %t, %d blocks", f, err, g.Ready(), len(g.Blocks()))
			}
		})
	}
}

// TestHandlesOutliveTheSet deletes a block in use: it stays open for its query and is closed by the last
// handle.
func TestHandlesOutliveTheSet(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	uploadBlock(t, bucket, "A")
	uploadBlock(t, bucket, "B")
	g := newSyncer(t, testOptions(t, bucket))
	sync := func() {
		t.Helper()
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	first, second := pinned(g, "", 0, 1), pinned(g, "", 0, 1)
	if len(first) != 2 || len(second) != 2 || g.Blocks()[0].Queries != 2 {
		t.Fatalf("opened %d and %d blocks, %+v", len(first), len(second), g.Blocks())
	}
	a := first[0].block
	local := filepath.Join(g.options.DataDir, a.id.String())
	if err := os.MkdirAll(local, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta.json", "index", "chunks/000001"} {
		if err := bucket.Delete(t.Context(), a.id.String()+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if n := a.refs.Load(); n != 2 || !a.dropped.Load() || len(g.Blocks()) != 1 {
		t.Errorf("a block that is gone has %d references, %d blocks are served", n, len(g.Blocks()))
	}
	ReleaseAll(first)
	if _, err := os.Stat(local); err != nil {
		t.Errorf("local files of a block that a query has: %v", err)
	}
	ReleaseAll(second)
	if _, err := os.Stat(local); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("local files of a block that nobody has: %v", err)
	}
	if n := a.refs.Load(); n != 0 {
		t.Errorf("%d references are left", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second release of a handle did not panic")
		}
	}()
	first[0].Release()
}

// TestTombstones deletes series from a block of a running Prometheus, whose chunk files still contain them.
func TestTombstones(t *testing.T) {
	dir := t.TempDir()
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	uploadBlock(t, bucket, "A")
	uploadBlock(t, bucket, "B")
	o := testOptions(t, bucket)
	o.Layout, o.LocalBucket = LayoutPrometheus, dir
	g := newSyncer(t, o)
	for _, want := range []int{2, 2} {
		if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != want {
			t.Fatal(err, g.Blocks(), g.Skipped())
		}
	}
	name := filepath.Join(dir, blockID("A").String(), metaName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"numChunks":1`, `"numChunks":1,"numTombstones":3`, 1))
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != 1 || len(g.Skipped()) != 1 || g.Skipped()[0].Reason != SkipTombstones {
			t.Fatal(err, g.Blocks(), g.Skipped())
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := g.Sync(t.Context()); err == nil || len(g.Blocks()) != 1 {
		t.Errorf("the directory is gone: %v, %d blocks", err, len(g.Blocks()))
	}
}

// TestCloseWithHandles closes the Syncer: queries can still read their blocks.
func TestCloseWithHandles(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	uploadBlock(t, bucket, "A")
	g := newSyncer(t, testOptions(t, bucket))
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	handles := pinned(g, "", 0, 1)
	for range 2 {
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := handles[0].block.refs.Load(); n != 1 || len(pinned(g, "", 0, 1)) != 0 {
		t.Errorf("%d references, blocks are still opened: %d", n, len(pinned(g, "", 0, 1)))
	}
	ReleaseAll(handles)
	if err := g.Sync(t.Context()); !errors.Is(err, errClosed) || len(g.Blocks()) != 0 {
		t.Errorf("a sync after Close: %v, %d blocks", err, len(g.Blocks()))
	}
}

// TestCleanLocal removes local files of blocks that left the bucket while no gateway ran, and no other files.
func TestCleanLocal(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	uploadBlock(t, bucket, "A")
	o := testOptions(t, bucket)
	a, b := blockID("A").String(), blockID("B").String()
	keep := []string{"lock", a + "/header", "notes/readme", "file", "notes/" + b[:25] + "/header"}
	drop := []string{b + "/header", "tenant/" + a + "/header"}
	for _, name := range slices.Concat(keep, drop) {
		name = filepath.Join(o.DataDir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := newSyncer(t, o).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range keep {
		if _, err := os.Stat(filepath.Join(o.DataDir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range append(drop, "tenant") {
		if _, err := os.Stat(filepath.Join(o.DataDir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := (&Options{}).Validate(); err == nil {
		t.Error("empty options are valid")
	}
	for name, change := range map[string]func(*Options){
		"shard":    func(o *Options) { o.Shard = Shard{3, 2} },
		"layout":   func(o *Options) { o.Layout = "zip" },
		"tenants":  func(o *Options) { o.Tenants = []string{"a"} },
		"negative": func(o *Options) { o.SyncInterval = -1 },
		"tries":    func(o *Options) { o.CallTries = -1 },
		"data":     func(o *Options) { o.DataDir = "" },
		"cache":    func(o *Options) { o.Cache = nil },
	} {
		o := testOptions(t, objstore.NewInMemBucket())
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMetrics(t *testing.T) {
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	uploadBlock(t, bucket, "A")
	testbucket.Upload(t, bucket, blockID("B").String()+"/index", "index")
	o := testOptions(t, bucket)
	registry := prometheus.NewPedanticRegistry()
	o.Registerer = registry
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP tare_store_blocks Blocks served.
# TYPE tare_store_blocks gauge
tare_store_blocks 1
# HELP tare_store_ready 1 after the first successful sync.
# TYPE tare_store_ready gauge
tare_store_ready 1
# HELP tare_store_syncs_total Syncs with the bucket, by result: ok or error.
# TYPE tare_store_syncs_total counter
tare_store_syncs_total{result="error"} 0
tare_store_syncs_total{result="ok"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "tare_store_blocks", "tare_store_ready", "tare_store_syncs_total"); err != nil {
		t.Error(err)
	}
	for name, least := range map[string]int{"tare_store_blocks_skipped": len(skipReasons), "tare_objstore_bucket_operations_total": 7} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n < least {
			t.Errorf("%s: %d series, want at least %d: %v", name, n, least, err)
		}
	}
	if _, err := New(o); err == nil {
		t.Error("two Syncers have the same metrics")
	}
	g.metrics.synced(time.Second, errors.New("it fails"))
	g.metrics.headerLoaded(time.Second, errors.New("it fails"))
	g.metrics.headerLoaded(time.Second, errors.New("it fails"))
	for vec, want := range map[*prometheus.CounterVec]float64{g.metrics.syncs: 1, g.metrics.loads: 2} {
		if got := testutil.ToFloat64(vec.WithLabelValues("error")); got != want {
			t.Errorf("%v errors are counted, want %v", got, want)
		}
	}
}
