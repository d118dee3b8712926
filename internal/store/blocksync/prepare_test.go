package blocksync

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testwait"
)

// TestPrepare loads the headers of small blocks after a sync, up to a bound, each block once.
func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	const blocks = 20
	for i := range blocks {
		if _, err := testblock.Write(dir, testblock.SameSeries(i, 5, 10), testblock.Options{External: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A block that is too large, and one whose index cannot be read.
	uploadBlock(t, bucket, "A")
	uploadBlock(t, bucket, "B")
	text := `{"ulid":"` + blockID("A").String() + `","version":1,"minTime":0,"maxTime":7200000,"stats":{"numSeries":10001},"thanos":{"labels":{"a":"b"}}}`
	testbucket.Upload(t, bucket, blockID("A").String()+"/meta.json", text)
	testbucket.Upload(t, bucket, blockID("B").String()+"/meta.json", strings.NewReplacer(blockID("A").String(), blockID("B").String(), "10001", "5").Replace(text))

	attempts := func(s *Syncer) int {
		return int(testutil.ToFloat64(s.metrics.loads.WithLabelValues("ok")) + testutil.ToFloat64(s.metrics.loads.WithLabelValues("error")))
	}
	options := func(bytes int64) Options {
		o := testOptions(t, bucket)
		o.Layout, o.PrepareBytes, o.HeaderLoads = LayoutThanos, bytes, 2
		return o
	}
	s := runSyncer(t, options(1<<20))
	testwait.Until(t, "the headers of all small blocks", func() bool { return attempts(s) == blocks+1 })
	all := s.HeaderBytes()
	for _, b := range s.Blocks() {
		if want := b.ID != blockID("A").String() && b.ID != blockID("B").String(); b.Loaded != want {
			t.Errorf("block %s: loaded %t, want %t", b.ID, b.Loaded, want)
		}
	}
	if files, err := filepath.Glob(filepath.Join(s.options.DataDir, "*", "index-header")); err != nil || len(files) != blocks {
		t.Errorf("%d local files, %v, want %d", len(files), err, blocks)
	}

	// Headers that were unloaded since, and that failed, are left to queries.
	for b := range s.current().all() {
		b.data.Unload()
	}
	s.prepare(t.Context())
	if n := attempts(s); n != blocks+1 {
		t.Errorf("%d headers were loaded again", n-blocks-1)
	}

	// The bound is exceeded by the concurrent loads at most. Blocks beyond it count as prepared.
	s = newSyncer(t, options(all/4))
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.prepare(t.Context())
	if n := s.HeaderBytes(); n < all/4 || n > all/4+2*smallLoads*all/blocks {
		t.Errorf("%d bytes of headers after %d loads, want %d", n, attempts(s), all/4)
	}
}
