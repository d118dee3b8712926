package storegateway

import (
	"context"
	"log/slog"
	"math"
	"testing"

	"github.com/taredb/tare/storegateway/blocksync"

	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/tsblock"
)

// selectOptions are what tests of selects vary.
type selectOptions struct {
	queryBytes   int64 // default 256 MiB
	processBytes int64 // default 1 GiB
	limits       Limits
	local        bool // the directory is read as tare store reads one: by pread, past objstore
}

// newSelectGateway returns a gateway over the blocks in dir, and checks
// at the end that all memory has come back.
func newSelectGateway(tb testing.TB, dir string, o selectOptions) *Gateway {
	tb.Helper()
	if o.queryBytes == 0 {
		o.queryBytes = 256 << 20
	}
	if o.processBytes == 0 {
		o.processBytes = 1 << 30
	}
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		tb.Fatal(err)
	}
	pool, entries := slab.NewPool(slab.PoolOptions{}), tsblock.NewEntries(slab.EntriesOptions{})
	gate := slab.NewGate(slab.GateOptions{Bytes: o.processBytes, PerQuery: o.queryBytes})
	local := ""
	if o.local {
		local = dir
	}
	g, err := New(Options{
		Options: blocksync.Options{
			Bucket: bucket, LocalBucket: local, DataDir: tb.TempDir(), Layout: blocksync.LayoutThanos,
			Cache: tsblock.NewCache(64 << 20), Pool: pool, Entries: entries, Log: slog.New(slog.DiscardHandler),
		},
		Gate: gate, Limits: o.limits,
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := g.Sync(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
		if s := gate.Stats(); s.Held != 0 || s.Running != 0 || s.Misused != 0 {
			tb.Errorf("the gate is left with %+v", s)
		}
		if out := pool.Stats().OutBytes + entries.Stats().OutBytes; out != 0 {
			tb.Errorf("%d bytes of slabs are left out", out)
		}
	})
	return g
}

// newQuery admits a query that is closed at the end.
func newQuery(tb testing.TB, g *Gateway) *Query {
	tb.Helper()
	q, err := g.Query(context.Background(), "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	return q
}

// forever is a request for all times.
func forever() Request { return Request{MinTime: math.MinInt64, MaxTime: math.MaxInt64} }
