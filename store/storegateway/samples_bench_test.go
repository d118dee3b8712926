package storegateway_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// BenchmarkSamples reads all samples of series of floats, as PromQL does.
func BenchmarkSamples(b *testing.B) {
	dir := b.TempDir()
	o := testblock.RandomOptions{Series: 400, Samples: 1000, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(1, 4)), o)
	var floats []testblock.Series
	for _, s := range series {
		if len(s.Samples) > 0 && s.Samples[0].H == nil && s.Samples[0].FH == nil {
			floats = append(floats, s)
		}
	}
	if _, err := testblock.Write(dir, testblock.Between(floats, 0, math.MaxInt64), testblock.Options{ChunkRange: o.ChunkRange()}); err != nil {
		b.Fatal(err)
	}
	g := teststore.Open(b, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutPrometheus })
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		q, err := g.Queryable(func(context.Context) (string, error) { return "", nil }).Querier(math.MinInt64, math.MaxInt64)
		if err != nil {
			b.Fatal(err)
		}
		set := q.Select(b.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
		var it chunkenc.Iterator
		for set.Next() {
			it = set.At().Iterator(it)
			for it.Next() != chunkenc.ValNone {
				n++
			}
			if it.Err() != nil {
				b.Fatal(it.Err())
			}
		}
		if set.Err() != nil {
			b.Fatal(set.Err())
		}
		_ = q.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/sample")
}
