//go:build !race

// Excluded from race tests: it would take minutes, and other tests cover the same code with goroutines.

package storegateway_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// TestPromqltestThroughBlocks runs Prometheus' own PromQL test files with the samples in blocks that the
// gateway serves: when a file has loaded more samples, the head is written as a block that replaces the
// previous one.
func TestPromqltestThroughBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates some 3,000 expressions")
	}
	e := &blockEngine{t: t, engine: promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)}
	promqltest.RunBuiltinTestsWithStorage(t, e, func(t testing.TB) storage.Storage {
		return teststorage.New(t, func(o *tsdb.Options) {
			o.EnableSTStorage = true
			o.FloatChunkEncoding = chunkenc.EncXOR2
			o.EnableHistogramSTEncoding = true
			o.StripeSize = 32
			o.WALSegmentSize = -1
			o.MaxExemplars = 1
		})
	})
	t.Logf("%d evaluations over %d blocks", e.evaluations, e.blocks)
	if e.evaluations < 3000 || e.blocks < 100 {
		t.Errorf("only %d evaluations over %d blocks", e.evaluations, e.blocks)
	}
}

// A blockEngine evaluates queries on a block of the samples that a test has loaded. It serves one query at a
// time.
type blockEngine struct {
	t      testing.TB
	engine *promql.Engine

	mu                  sync.Mutex
	storage             storage.Queryable
	state               string // of the head that the block was written from
	gateway             *storegateway.Gateway
	evaluations, blocks int
}

func (e *blockEngine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	e.evaluations++
	return e.engine.NewInstantQuery(ctx, e.queryable(q), opts, qs, ts)
}

func (e *blockEngine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	e.evaluations++
	return e.engine.NewRangeQuery(ctx, e.queryable(q), opts, qs, start, end, step)
}

// queryable returns the gateway over a block of the storage's current samples. An empty storage has no block.
func (e *blockEngine) queryable(q storage.Queryable) storage.Queryable {
	e.mu.Lock()
	defer e.mu.Unlock()
	db, ok := q.(*teststorage.TestStorage)
	if !ok {
		e.t.Fatalf("the storage is a %T", q)
	}
	head := db.DB.Head()
	meta := head.Meta()
	state := fmt.Sprintf("%d series, %d to %d, %+v", head.NumSeries(), head.MinTime(), head.MaxTime(), meta.Stats)
	if e.gateway != nil && e.storage == q && e.state == state {
		return e.gateway.Queryable(noTenant)
	}
	if head.NumSeries() == 0 {
		return q
	}
	dir := filepath.Join(e.t.TempDir(), "blocks")
	if err := db.DB.Snapshot(dir, true); err != nil {
		e.t.Fatal(err)
	}
	if e.gateway != nil {
		if err := e.gateway.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	e.gateway = teststore.Open(e.t, dir, func(o *storegateway.Options) {
		o.Layout = blocksync.LayoutPrometheus
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20})
	})
	e.storage, e.state = q, state
	e.blocks++
	return e.gateway.Queryable(noTenant)
}
