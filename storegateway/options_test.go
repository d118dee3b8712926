package storegateway

import (
	"log/slog"
	"testing"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
	"github.com/taredb/tare/tsblock"
)

// Names of a block's files.
const (
	metaName       = "meta.json"
	indexName      = "index"
	tombstonesName = "tombstones"
)

// testOptions are those of a gateway over a bucket.
func testOptions(t testing.TB, bucket objstore.Bucket) Options {
	return Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			DataDir: t.TempDir(),
			Cache:   tsblock.NewCache(4 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Entries: tsblock.NewEntries(slab.EntriesOptions{}),
			Log:     slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	}
}

func newGateway(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// discardLog is a log of go-kit that says nothing.
type discardLog struct{}

func (discardLog) Log(...any) error { return nil }
