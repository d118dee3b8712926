package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// An archive writes the counters of a table, and PromQL reads them.
func ExampleArchive() {
	if err := countAndAsk(); err != nil {
		fmt.Println(err)
	}
	// Output: {digest="01000000000000000000000000000000"} => 3
}

func countAndAsk() error {
	dir, err := os.MkdirTemp("", "history")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	quiet := slog.New(slog.DiscardHandler)

	table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: 100, Slog: quiet})
	if err != nil {
		return err
	}
	defer func() { _ = table.Close() }()
	bucket, err := filesystem.NewBucket(filepath.Join(dir, "bucket"))
	if err != nil {
		return err
	}
	gateway, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			Layout:  blocksync.LayoutThanos,
			DataDir: filepath.Join(dir, "headers"),
			Cache:   tsblock.NewCache(1 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Log:     quiet,
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	})
	if err != nil {
		return err
	}
	defer func() { _ = gateway.Close() }()
	archive, err := history.OpenArchive(history.ArchiveOptions{
		Source: table, Dir: filepath.Join(dir, "series"), Labels: map[string]string{"instance": "gw-1"},
		Bucket: bucket, Gateway: gateway, Log: quiet,
	})
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()

	for range 3 {
		table.Observe(&querylog.Record{Digest: [16]byte{1}, Normalized: []byte("SELECT ?"), Start: time.Now(), Total: time.Millisecond})
	}
	once, cancel := context.WithCancel(context.Background())
	cancel() // Run writes immediately, and would continue at intervals
	if err := archive.Run(once); err != nil {
		return err
	}

	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = engine.Close() }()
	q, err := engine.NewInstantQuery(context.Background(), archive.Queryable(), nil, "sum by (digest) (tare_queries_total)", time.Now())
	if err != nil {
		return err
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	if err != nil {
		return err
	}
	for _, s := range v {
		fmt.Println(s.Metric, "=>", s.F)
	}
	return nil
}
