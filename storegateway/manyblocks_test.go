package storegateway

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/slab"
)

var manyBlocks = flag.Int("many-blocks", 100, "blocks of TestManySmallBlocks")

// sameSeries are series that each block has, with samples of its own time.
func sameSeries(block, series, samples int) iter.Seq[testblock.Series] {
	return func(yield func(testblock.Series) bool) {
		for n := range series {
			s := testblock.Series{Labels: labels.FromStrings("foo", "bar", "i", fmt.Sprintf("%02d%s", n, testblock.LongSuffix))}
			for i := range samples {
				s.Samples = append(s.Samples, testblock.Sample{T: int64(block*samples+i) * 60_000, V: float64(i * n)})
			}
			if !yield(s) {
				return
			}
		}
	}
}

// TestManySmallBlocks has ten selects of twenty series in many small blocks, as a query of as many selectors does, and
// reads all samples of each. What the query reserves at its peak grows with blocks and selects by at most 2,900 bytes,
// so that 1,000 blocks and ten selectors fit into 32 MiB; if the selects are alike, or differ in their time ranges alone, by a
// tenth of it.
func TestManySmallBlocks(t *testing.T) {
	const series, samplesEach, selects = 20, 20, 10
	blocks := *manyBlocks
	dir := sharedBlocks(t, fmt.Sprintf("many-%d", blocks), func(dir string) error {
		for i := range blocks {
			if _, err := testblock.Write(dir, sameSeries(i, series, samplesEach), testblock.Options{External: map[string]string{}}); err != nil {
				return err
			}
		}
		return nil
	})
	all := func(int) []*labels.Matcher {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "foo", "bar")}
	}
	for name, c := range map[string]struct {
		hints    func(i int) *storage.SelectHints
		matchers func(i int) []*labels.Matcher
	}{
		"alike":  {func(int) *storage.SelectHints { return nil }, all},
		"ranges": {func(i int) *storage.SelectHints { return &storage.SelectHints{Start: int64(i), End: 1 << 60} }, all},
		"different": {func(int) *storage.SelectHints { return nil }, func(i int) []*labels.Matcher {
			return append(all(i), labels.MustNewMatcher(labels.MatchNotEqual, "i", fmt.Sprint(i)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			most := int64(2900) * int64(blocks) * selects
			if name != "different" {
				most /= selects
			}
			most += 3 << 20 // a group of blocks that is being read, and the chunks of one
			g := newStore(t, dir, func(o *Options) {
				o.Gate = slab.NewGate(slab.GateOptions{Bytes: most, PerQuery: most})
			})
			query, err := g.Query(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer query.Close()
			ctx := WithQuery(t.Context(), query)
			querier, err := g.Queryable(func(context.Context) (string, error) { return "", nil }).Querier(0, 1<<60)
			if err != nil {
				t.Fatal(err)
			}
			defer querier.Close()
			var sets []storage.SeriesSet
			for i := range selects {
				sets = append(sets, querier.Select(ctx, true, c.hints(i), c.matchers(i)...))
			}
			held := int64(0)
			for _, set := range sets {
				n, samples := 0, 0
				for set.Next() {
					if held == 0 {
						held = query.Quota().Used()
					}
					n++
					it := set.At().Iterator(nil)
					for it.Next() != chunkenc.ValNone {
						samples++
					}
					if it.Err() != nil {
						t.Fatal(it.Err())
					}
				}
				if set.Err() != nil || n != series || samples < series*(samplesEach*blocks-1) || samples > series*samplesEach*blocks {
					t.Fatalf("%d series, %d samples, %v", n, samples, set.Err())
				}
			}
			t.Logf("%d bytes are held before chunks are read, at most %d, of %d", held, query.Quota().Peak(), most)
			if s := g.Entries().Stats(); s.OutBytes > held {
				t.Errorf("%d bytes of entries are lent, %d charged", s.OutBytes, held)
			}
		})
	}
}

// TestWindowsOfManyBlocks walks series after series through blocks whose chunks do not fit together: those of half of them
// stay loaded.
func TestWindowsOfManyBlocks(t *testing.T) {
	const blocks, series = 20, 20
	dir := t.TempDir()
	for i := range blocks {
		if _, err := testblock.Write(dir, sameSeries(i, series, 20), testblock.Options{External: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	g := newStore(t, dir, nil)
	query := newQuery(t, g)
	querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	set := querier.Select(WithQuery(t.Context(), query), true, nil, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar")).(*sampleSet)
	set.read()
	all := int64(0)
	for _, p := range set.of.series[0].places {
		all += p.held.batch.PlannedBytes()
	}
	set.of.windows.most = all / 2
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	if err := querier.Close(); err != nil {
		t.Error(err)
	}
	if n := query.Stats().Read.Chunks.Reads; n < blocks || n > blocks*series*3/5 {
		t.Errorf("%d reads of chunks for %d series in %d blocks", n, series, blocks)
	}
}
