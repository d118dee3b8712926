package storegateway_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// TestChunkCopies iterates over the chunks of series in several blocks: copies exist of one block's chunks at
// a time, and are charged to the query.
func TestChunkCopies(t *testing.T) {
	const blocks, samples = 8, 600
	dir := t.TempDir()
	for i := range blocks {
		if _, err := testblock.Write(dir, testblock.SameSeries(i, 3, samples), testblock.Options{External: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	g := teststore.Open(t, dir, nil)
	query := newQuery(t, g)
	querier, err := g.ChunkQueryable(func(context.Context) (string, error) { return "", nil }).ChunkQuerier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	set := querier.Select(storegateway.WithQuery(t.Context(), query), true, &storage.SelectHints{End: 1 << 60}, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
	var it chunks.Iterator
	n, charged := 0, int64(0)
	for set.Next() {
		before := query.Quota().UsedFor(slab.Series)
		it = set.At().Iterator(it)
		all, bytes := 0, make(map[int64]int) // by block
		for it.Next() {
			n++
			c := it.At()
			bytes[c.MinTime/(samples*60_000)] += len(c.Chunk.Bytes())
			all += len(c.Chunk.Bytes())
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		charged += query.Quota().UsedFor(slab.Series) - before
		most := slices.Max(slices.Collect(maps.Values(bytes)))
		if len(bytes) != blocks || charged < int64(most) || charged > int64(all/blocks*2) {
			t.Errorf("%d bytes are charged for copies, of a series with %d in %d blocks, at most %d in one", charged, all, len(bytes), most)
		}
	}
	if set.Err() != nil || n < 3*blocks*samples/120 {
		t.Errorf("%d chunks, %v", n, set.Err())
	}
}

// TestChunkCopiesOfOverlaps iterates over the chunks of series whose chunks overlap: a series is re-encoded as a whole, and
// its chunks are charged to the query.
func TestChunkCopiesOfOverlaps(t *testing.T) {
	w := newOverlapTwin(t, rand.New(rand.NewPCG(testseed.New(t), 19)), selectOptions{})
	query := newQuery(t, w.gateway)
	querier, err := w.gateway.ChunkQueryable(noTenant).ChunkQuerier(w.start, w.end)
	run(t, err)
	defer querier.Close()
	set := querier.Select(storegateway.WithQuery(t.Context(), query), true, nil, named()...)
	var it chunks.Iterator
	charged, most := int64(0), int64(0)
	for set.Next() {
		before := query.Quota().UsedFor(slab.Series)
		it = set.At().Iterator(it)
		bytes := int64(0)
		for it.Next() {
			bytes += int64(len(it.At().Chunk.Bytes()))
		}
		run(t, it.Err())
		charged += query.Quota().UsedFor(slab.Series) - before
		if most = max(most, bytes); charged < most {
			t.Errorf("%d bytes are charged, a series has %d", charged, most)
		}
	}
	run(t, set.Err())
	if w.several == 0 || most == 0 {
		t.Errorf("%d series with overlapping chunks, at most %d bytes", w.several, most)
	}
}
