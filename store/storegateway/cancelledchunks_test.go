package storegateway

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
)

// TestCancelledBetweenChunks cancels a select whose chunks are in memory: its iterators stop at the next chunk.
func TestCancelledBetweenChunks(t *testing.T) {
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 4, Samples: 1000, Step: 1000, Start: 1_700_000_000_000}
	if _, err := testblock.Write(dir, testblock.Between(testblock.Random(testseed.Rand(t), o), 0, math.MaxInt64), testblock.Options{External: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	g := openDir(t, dir, slab.GateOptions{Bytes: 64 << 20, PerQuery: 8 << 20})
	querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := querier.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	for set.Next() {
		if place := set.At().(*oneSeries).places[0]; len(place.held.batch.Chunks(place.i)) < 2 {
			continue
		}
		it := set.At().Iterator(nil)
		if it.Next() == chunkenc.ValNone {
			t.Fatal(it.Err())
		}
		cancel()
		for it.Next() != chunkenc.ValNone {
		}
		if !errors.Is(it.Err(), context.Canceled) {
			t.Errorf("after the cancellation: %v", it.Err())
		}
		return
	}
	t.Fatal("no series has two chunks", set.Err())
}
