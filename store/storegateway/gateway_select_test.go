package storegateway_test

import (
	"context"
	"math"
	"testing"

	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// selectOptions are the options that tests of selects vary.
type selectOptions struct {
	queryBytes   int64 // default 256 MiB
	processBytes int64 // default 1 GiB
	limits       storegateway.Limits
	local        bool // read the directory as tare store does: by pread, not through objstore
}

// newSelectGateway returns a gateway over the blocks in dir.
func newSelectGateway(tb testing.TB, dir string, o selectOptions) *storegateway.Gateway {
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
	options := teststore.Options(tb, bucket)
	options.Layout, options.Cache, options.Limits = blocksync.LayoutThanos, tsblock.NewCache(64<<20), o.limits
	options.Gate = slab.NewGate(slab.GateOptions{Bytes: o.processBytes, PerQuery: o.queryBytes})
	if o.local {
		options.LocalBucket = dir
	}
	g := teststore.New(tb, options)
	if err := g.Sync(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return g
}

// newQuery admits a query and closes it at the end of the test.
func newQuery(tb testing.TB, g *storegateway.Gateway) *storegateway.Query {
	tb.Helper()
	q, err := g.Admit(context.Background(), storegateway.Admission{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	return q
}

// forever returns a request for all times.
func forever() storegateway.Request {
	return storegateway.Request{MinTime: math.MinInt64, MaxTime: math.MaxInt64}
}
