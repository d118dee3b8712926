package storegateway

import (
	"context"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/slab"
)

// TestManySmallBlocks selects the same few series ten times in many small blocks, as a query of as many selectors
// does, and reads all samples of each. What the query holds grows with its data.
func TestManySmallBlocks(t *testing.T) {
	const blocks, series, selectors = 24, 20, 10
	dir := t.TempDir()
	for i := range blocks {
		shape := testblock.Shape{Count: series, Samples: 120, Interval: 60e9, Block: i, Seed: int64(i)}
		if _, err := shape.Write(dir, testblock.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	g := newStore(t, dir, func(o *Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 6 << 20, PerQuery: 6 << 20})
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
	for range selectors {
		set := querier.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchRegexp, "foo", ".+"))
		n := 0
		for set.Next() {
			it := set.At().Iterator(nil)
			for it.Next() != 0 {
				n++
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
		if set.Err() != nil || n == 0 {
			t.Fatalf("%d samples, %v", n, set.Err())
		}
	}
	held := query.Quota().Used() - query.Quota().UsedFor(slab.Chunks)
	if perBlock := held / (blocks * selectors); perBlock > 20<<10 {
		t.Errorf("%d bytes are held for each block and selector besides chunks", perBlock)
	}
	t.Logf("%d bytes are held, %d of them in chunks", query.Quota().Used(), query.Quota().UsedFor(slab.Chunks))
	if n := g.entries.Stats(); n.OutBytes > held {
		t.Errorf("%d bytes of entries are lent, %d charged", n.OutBytes, held)
	}
}
