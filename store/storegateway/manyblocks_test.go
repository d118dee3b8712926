package storegateway_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

var manyBlocks = flag.Int("many-blocks", 100, "blocks of TestManySmallBlocks")

// TestManySmallBlocks runs ten selects of twenty series in many small blocks, as a query of as many selectors
// does, and reads all samples of each. The query's peak reservation grows with blocks and selects by at most
// 2,900 bytes, so that 1,000 blocks and ten selectors fit into 32 MiB; if the selects are equal, or differ in
// their time ranges only, by a tenth of that.
func TestManySmallBlocks(t *testing.T) {
	const series, samplesEach, selects = 20, 20, 10
	blocks := *manyBlocks
	dir := shared.Dir(t, fmt.Sprintf("many-%d", blocks), func(dir string) error {
		for i := range blocks {
			if _, err := testblock.Write(dir, testblock.SameSeries(i, series, samplesEach), testblock.Options{External: map[string]string{}}); err != nil {
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
			most += 3 << 20 // a group of blocks being read, and the chunks of one
			g := teststore.Open(t, dir, func(o *storegateway.Options) {
				o.Gate = slab.NewGate(slab.GateOptions{Bytes: most, PerQuery: most})
			})
			query, err := g.Admit(t.Context(), storegateway.Admission{})
			if err != nil {
				t.Fatal(err)
			}
			defer query.Close()
			ctx := storegateway.WithQuery(t.Context(), query)
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

// TestOneSeriesInManyBlocks reads one series of 200 in each of many blocks, as they come from a head every two hours.
// A query's memory grows by at most 12,800 bytes per block, so that 10,000 blocks take half of the default of
// --query-bytes.
func TestOneSeriesInManyBlocks(t *testing.T) {
	const blocks, series, samples = 100, 200, 120
	dir := shared.Dir(t, fmt.Sprintf("one-in-%d", blocks), func(dir string) error {
		for n := range blocks {
			_, err := testblock.Write(dir, testblock.SameSeries(230_000+n, series, samples), testblock.Options{
				External: map[string]string{"cluster": "eu"}, ChunkRange: 4 * 3600 * 1000,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	g := teststore.Open(t, dir, nil)
	query, err := g.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	request := forever()
	request.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", "00.+")}
	set, err := query.Select(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	found, chunks := 0, 0
	for set.Next() {
		found++
		chunks += len(set.At().Chunks)
	}
	if set.Err() != nil || found == 0 || chunks < blocks*found {
		t.Fatalf("%d series, %d chunks, %v", found, chunks, set.Err())
	}
	each := query.Quota().Peak() / blocks
	t.Logf("%d series with %d chunks: %d bytes per block", found, chunks, each)
	if each > 12_800 {
		t.Errorf("a block takes %d bytes", each)
	}
}
