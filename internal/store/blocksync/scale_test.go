package blocksync

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/testbucket"
)

// maxBlockBytes is the memory limit of a block before it is first read.
const maxBlockBytes = 1536

// TestTenThousandBlocks checks that concurrent calls of a sync are bounded, that its time is that of the
// calls divided by the bound, that a sync without changes costs one listing, and that a block takes little
// memory until it is read.
func TestTenThousandBlocks(t *testing.T) {
	const (
		blocks  = 10_000
		latency = 20 * time.Millisecond
	)
	memory := objstore.NewInMemBucket()
	r := rand.New(rand.NewPCG(3, 4))
	for i := range blocks {
		var id ulid.ULID
		for j := range id {
			id[j] = byte(r.Uint32())
		}
		id[0] &= 0x7f
		dir := id.String()
		testbucket.Upload(t, memory, dir+"/index", "index")
		testbucket.Upload(t, memory, dir+"/chunks/000001", "chunks")
		testbucket.Upload(t, memory, dir+"/meta.json", fmt.Sprintf(`{"ulid":%q,"version":1,"minTime":%d,"maxTime":%d,
			"stats":{"numSamples":1000,"numSeries":100,"numChunks":200},"compaction":{"level":3,"sources":[%q,%q]},
			"thanos":{"version":1,"labels":{"cluster":"eu-1","replica":"%d"},"source":"compactor","files":[
			{"rel_path":"chunks/000001","size_bytes":6},{"rel_path":"index","size_bytes":5},{"rel_path":"meta.json"}]}}`,
			dir, i*7200_000, (i+1)*7200_000, dir, dir, i%3))
	}
	var g *Syncer
	synctest.Test(t, func(t *testing.T) {
		bucket := testbucket.NewFailing(memory)
		bucket.Latency = latency
		o := testOptions(t, bucket)
		o.Layout = LayoutThanos
		var err error
		if g, err = New(o); err != nil {
			t.Fatal(err)
		}
		before := heapBytes()
		start := time.Now()
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		bucket.TakeCalls() // frees its memory
		per := (heapBytes() - before) / blocks
		calls := bucket.Calls.Load()
		t.Logf("%d calls, at most %d at once, %s of fake time; %d bytes a block", calls, bucket.Most.Load(), took, per)
		if calls != 1+3*blocks { // a listing, and one meta.json and two sizes per block
			t.Errorf("%d calls", calls)
		}
		if most := bucket.Most.Load(); most != DefaultConcurrency {
			t.Errorf("%d calls at once, of %d allowed", most, DefaultConcurrency)
		}
		if least := latency * time.Duration(calls) / DefaultConcurrency; took > least*21/20+latency {
			t.Errorf("the sync took %s, of %s that its calls take", took, least)
		}
		if per > maxBlockBytes {
			t.Errorf("a block takes %d bytes, more than %d", per, maxBlockBytes)
		}
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := bucket.Calls.Load() - calls; n != 1 {
			t.Errorf("a sync without changes made %d calls", n)
		}
	})
	if n := len(g.Blocks()); n != blocks {
		t.Errorf("%d blocks are served", n)
	}
	const from = 5000 * 7200_000
	handles := pinned(g, "", from, from+3*7200_000-1)
	if len(handles) != 3 {
		t.Errorf("%d blocks have a part in three blocks' time", len(handles))
	}
	ReleaseAll(handles)
	if handles := pinned(g, "", math.MinInt64, math.MaxInt64); len(handles) != blocks {
		t.Errorf("%d blocks in all of time", len(handles))
	} else {
		ReleaseAll(handles)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
