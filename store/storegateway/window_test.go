package storegateway

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/tsblock"
)

// openDir returns a gateway that has synced with a directory of blocks.
func openDir(t *testing.T, dir string, gate slab.GateOptions) *Gateway {
	t.Helper()
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{
		Options: blocksync.Options{
			Bucket: bucket, LocalBucket: dir, DataDir: t.TempDir(), Layout: blocksync.LayoutThanos,
			Cache: tsblock.NewCache(4 << 20), Pool: slab.NewPool(slab.PoolOptions{}), Log: slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(gate),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func noTenant(context.Context) (string, error) { return "", nil }

// TestWindowsOfManyBlocks iterates series by series over blocks whose chunks do not all fit: those of half of
// the blocks stay loaded.
func TestWindowsOfManyBlocks(t *testing.T) {
	const blocks, series = 20, 20
	dir := t.TempDir()
	for i := range blocks {
		if _, err := testblock.Write(dir, testblock.SameSeries(i, series, 20), testblock.Options{External: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	g := openDir(t, dir, slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20})
	query, err := g.Admit(t.Context(), Admission{})
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	set := querier.Select(withQuery(t.Context(), query), true, nil, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar")).(*sampleSet)
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

// TestPlanIsKept compares the chunk bytes of queries of several selects with their plans.
func TestPlanIsKept(t *testing.T) {
	dir := t.TempDir()
	if _, err := (testblock.Shape{Count: 60, Samples: 1440, Interval: 15 * time.Second, Seed: 1}).Write(dir, testblock.Options{External: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	g := openDir(t, dir, slab.GateOptions{Bytes: 64 << 20, PerQuery: 64 << 20})
	for _, granted := range []int64{1 << 20, 64 << 20} {
		q, err := g.admit(t.Context(), Admission{}, slab.AdmitOptions{First: granted})
		if err != nil {
			t.Fatal(err)
		}
		querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
		if err != nil {
			t.Fatal(err)
		}
		ctx := withQuery(t.Context(), q)
		var walks []func() error
		var sets []storage.SeriesSet
		for _, value := range []string{"a.*", ".*"} {
			set := querier.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"), labels.MustNewMatcher(labels.MatchRegexp, "none", value+"|"))
			sets = append(sets, set)
			walks = append(walks, func() error {
				for set.Next() {
					it := set.At().Iterator(nil)
					for it.Next() != chunkenc.ValNone {
					}
					if it.Err() != nil {
						return it.Err()
					}
				}
				return set.Err()
			})
		}
		sets[0].(*sampleSet).read() // reads all selects
		plan := q.plan
		if plan.all == 0 || plan.once == 0 || plan.once > plan.all || q.quota.Granted() < q.quota.Used()+plan.all {
			t.Errorf("the plan is %+v of %d bytes granted, %d used", plan, q.quota.Granted(), q.quota.Used())
		}
		if n := q.quota.UsedFor(slab.Chunks); n != 0 {
			t.Errorf("%d bytes of chunks before the first is read", n)
		}
		used := q.quota.Used()
		for _, walk := range walks {
			if err := walk(); err != nil {
				t.Fatal(err)
			}
		}
		if peak := q.quota.Peak() - used; peak > plan.all || peak < plan.once/2 {
			t.Errorf("the queries held %d bytes of chunks at most, the plan is %+v", peak, plan)
		}
		if err := querier.Close(); err != nil {
			t.Error(err)
		}
		q.Close()
	}
}
