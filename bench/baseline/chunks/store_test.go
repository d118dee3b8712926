package chunks

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// newStore returns a store of the block in dir.
func newStore(t testing.TB, dir, id string) *Store {
	t.Helper()
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	source := tsblock.Dir(dir)
	text, err := os.ReadFile(filepath.Join(dir, id, tsblock.MetaFile))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := tsblock.ParseMeta(text)
	if err != nil {
		t.Fatal(err)
	}
	block, err := tsblock.New(source, id, meta, tsblock.Options{
		Cache: tsblock.NewCache(64 << 20), Pool: slab.NewPool(slab.PoolOptions{}),
		Entries: tsblock.NewEntries(slab.EntriesOptions{}), LocalDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		block.Close()
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewStore(block, bucket)
}

// BenchmarkBlockSeries is the old side of grafana/mimir#3215; the new one is the benchmark of that name in
// package storegateway.
func BenchmarkBlockSeries(b *testing.B) {
	dir := b.TempDir()
	id, err := testblock.BlockSeries().Write(dir, testblock.Options{External: map[string]string{"ext1": "1"}})
	if err != nil {
		b.Fatal(err)
	}
	s := newStore(b, dir, id)
	testblock.BenchmarkBlockSeries(b, func(q testblock.SeriesQuery, t *testblock.Tally) error {
		return s.Select(context.Background(), shardOf(q), func(_ []tsblock.Label, _ []tsblock.Chunk, chunks []*Chunk) error {
			t.Series++
			for _, c := range chunks {
				t.Chunk(c.Data)
			}
			return nil
		}, q.Matcher)
	})
}

func shardOf(q testblock.SeriesQuery) tsblock.Shard {
	if !q.Sharded {
		return tsblock.Shard{}
	}
	return tsblock.Shard{Index: q.Shard, Count: testblock.SeriesRounds}
}

// TestSameBytes runs each query of the benchmark on the baseline and on the product, on one block: labels,
// times, encodings and bytes of all chunks are equal.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	id, err := testblock.BlockSeries().Write(dir, testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	old, product := newStore(t, dir, id), newGateway(t, dir)
	for _, sharded := range []bool{false, true} {
		for n, q := range testblock.SeriesQueries(sharded) {
			sameBytes(t, fmt.Sprintf("query %d, sharded %t", n, sharded), old, product, q)
		}
	}
}

func newGateway(t *testing.T, dir string) *storegateway.Gateway {
	t.Helper()
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:      bucket,
			LocalBucket: dir,
			DataDir:     t.TempDir(),
			Layout:      blocksync.LayoutPrometheus,
			Cache:       tsblock.NewCache(64 << 20),
			Pool:        slab.NewPool(slab.PoolOptions{}),
			Log:         slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func sameBytes(t *testing.T, name string, old *Store, product *storegateway.Gateway, s testblock.SeriesQuery) {
	t.Helper()
	q, err := product.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set, err := q.Select(t.Context(), storegateway.Request{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: []*labels.Matcher{s.Matcher}, Shard: shardOf(s),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	series := 0
	err = old.Select(t.Context(), shardOf(s), func(want []tsblock.Label, times []tsblock.Chunk, chunks []*Chunk) error {
		series++
		if !set.Next() {
			return fmt.Errorf("the product ends before series %d: %w", series, set.Err())
		}
		got := set.At()
		if fmt.Sprint(got.Labels) != fmt.Sprint(want) || len(got.Chunks) != len(chunks) {
			return fmt.Errorf("series %d: %v with %d chunks, want %v with %d", series, got.Labels, len(got.Chunks), want, len(chunks))
		}
		for i, c := range got.Chunks {
			if c.MinTime != times[i].MinTime || c.MaxTime != times[i].MaxTime || !chunks[i].Equal(c.Encoding, c.Data) {
				return fmt.Errorf("series %v: chunk %d differs", want, i)
			}
		}
		return nil
	}, s.Matcher)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if set.Next() || set.Err() != nil || series == 0 {
		t.Errorf("%s: after %d series: more, or %v", name, series, set.Err())
	}
}
