package storegateway

import (
	"context"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/slab"
)

// TestChunkCopies walks the chunks of series in several blocks: copies of one block's chunks exist at a time, and are
// charged to the query.
func TestChunkCopies(t *testing.T) {
	const blocks, samples = 8, 600
	dir := t.TempDir()
	for i := range blocks {
		if _, err := testblock.Write(dir, sameSeries(i, 3, samples), testblock.Options{External: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	g := newStore(t, dir, nil)
	query := newQuery(t, g)
	querier, err := g.ChunkQueryable(func(context.Context) (string, error) { return "", nil }).ChunkQuerier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	set := querier.Select(WithQuery(t.Context(), query), true, &storage.SelectHints{End: 1 << 60}, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
	var it chunks.Iterator
	n := 0
	for set.Next() {
		before := query.Quota().UsedFor(slab.Series)
		s := set.At().(*chunkSeries)
		it = s.Iterator(it)
		all, most := 0, 0
		for it.Next() {
			n++
			held := 0
			for _, m := range it.(*chunkList).metas {
				held += len(m.Chunk.Bytes())
			}
			all, most = all+len(it.At().Chunk.Bytes()), max(most, held)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if most > all/blocks*2 || s.of.copies < int64(most) {
			t.Errorf("%d bytes of a series are copied at once, %d of them charged, of %d in %d blocks", most, s.of.copies, all, blocks)
		}
		if charged := query.Quota().UsedFor(slab.Series) - before; charged > s.of.copies {
			t.Errorf("a series charges %d bytes more, its copies %d", charged, s.of.copies)
		}
	}
	if set.Err() != nil || n < 3*blocks*samples/120 {
		t.Errorf("%d chunks, %v", n, set.Err())
	}
}
