package storegateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// samplesOf returns the samples of a set, by series; it omits series without samples.
func samplesOf(t *testing.T, set storage.SeriesSet) map[string][]int64 {
	t.Helper()
	samples := make(map[string][]int64)
	var it chunkenc.Iterator
	for set.Next() {
		name := set.At().Labels().String()
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
			at, v := it.At()
			samples[name] = append(samples[name], at, int64(v))
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return samples
}

// TestSharedRanges runs selects of one querier with the same matchers and random time ranges, like those of
// rate(x[5m]) / rate(x[1h] offset 1d): each returns the same as it does alone, and blocks are read once where
// ranges overlap.
func TestSharedRanges(t *testing.T) {
	const blocks, series, samples = 6, 5, 300
	seed := testseed.New(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	dir := t.TempDir()
	for i := range blocks {
		if _, err := testblock.Write(dir, testblock.SameSeries(i, series, samples), testblock.Options{External: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	g := teststore.Open(t, dir, nil)
	const end = blocks * samples * 60_000
	for range 30 {
		query := newQuery(t, g)
		ctx := storegateway.WithQuery(t.Context(), query)
		open := func() storage.Querier {
			q, err := g.Queryable(func(context.Context) (string, error) { return "", nil }).Querier(0, end)
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		shared := open()
		var ranges [][2]int64
		var sets []storage.SeriesSet
		pick := func(q storage.Querier, r [2]int64) storage.SeriesSet {
			return q.Select(ctx, true, &storage.SelectHints{Start: r[0], End: r[1]}, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
		}
		for range 1 + rng.IntN(6) {
			from := rng.Int64N(end)
			r := [2]int64{from, from + rng.Int64N(end/3)}
			ranges = append(ranges, r)
			sets = append(sets, pick(shared, r))
		}
		var got []map[string][]int64
		for _, set := range sets {
			got = append(got, samplesOf(t, set))
		}
		late := ranges[0] // of a select after the others were read
		late[1] -= (late[1] - late[0]) / 2
		ranges, got = append(ranges, late), append(got, samplesOf(t, pick(shared, late)))
		if err := shared.Close(); err != nil {
			t.Fatal(err)
		}
		if read, want := query.Stats().Blocks, blocksOf(ranges, samples*60_000, blocks); read != want {
			t.Errorf("ranges %v: %d blocks were read, want %d", ranges, read, want)
		}
		for i, r := range ranges {
			alone := open()
			want := samplesOf(t, pick(alone, r))
			if err := alone.Close(); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got[i]) != fmt.Sprint(want) {
				t.Errorf("range %d to %d beside %v: got %d series, want %d, or other samples", r[0], r[1], ranges, len(got[i]), len(want))
			}
		}
		query.Close()
	}
}

// blocksOf returns the number of blocks of the given length in the union of each group of overlapping ranges.
func blocksOf(ranges [][2]int64, length int64, blocks int) (n int) {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	for len(ranges) > 0 {
		r := ranges[0]
		for ranges = ranges[1:]; len(ranges) > 0 && ranges[0][0] <= r[1]+1; ranges = ranges[1:] {
			r[1] = max(r[1], ranges[0][1])
		}
		for b := range blocks {
			if int64(b)*length <= r[1] && int64(b+1)*length-60_000 >= r[0] {
				n++
			}
		}
	}
	return n
}
