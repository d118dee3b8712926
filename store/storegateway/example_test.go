package storegateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// exampleGateway returns a gateway over a bucket with one block: three series of 240 samples.
func exampleGateway() (g *storegateway.Gateway, cleanup func() error, err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, err
	}
	shape := testblock.Shape{Count: 3, Samples: 240, Interval: 15 * time.Second}
	if _, err := shape.Write(filepath.Join(dir, "bucket"), testblock.Options{External: map[string]string{"cluster": "eu"}}); err != nil {
		return nil, nil, err
	}
	bucket, err := filesystem.NewBucket(filepath.Join(dir, "bucket"))
	if err != nil {
		return nil, nil, err
	}
	g, err = storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			DataDir: filepath.Join(dir, "data"),
			Cache:   tsblock.NewCache(16 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Entries: tsblock.NewEntries(slab.EntriesOptions{}),
			Log:     slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	})
	if err != nil {
		return nil, nil, err
	}
	cleanup = func() error { return errors.Join(g.Close(), os.RemoveAll(dir)) }
	return g, cleanup, g.Sync(context.Background())
}

func ExampleQuery_Select() {
	ctx := context.Background()
	g, cleanup, err := exampleGateway()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup() //nolint:errcheck // nothing is left to do

	q, err := g.Admit(ctx, storegateway.Admission{}) // waits for admission
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	set, err := q.Select(ctx, storegateway.Request{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64,
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", "0000(240|480).*")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	for set.Next() {
		s := set.At() // valid until the next call of Next
		fmt.Println(s.Labels[0], len(s.Chunks), "chunks from", s.Chunks[0].MinTime)
	}
	fmt.Println(set.Err())
	// Output:
	// {cluster eu} 2 chunks from 3600000
	// {cluster eu} 2 chunks from 7200000
	// <nil>
}

func ExampleGateway_Queryable() {
	ctx := context.Background()
	g, cleanup, err := exampleGateway()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup() //nolint:errcheck // nothing is left to do

	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	tenant := func(context.Context) (string, error) { return "", nil }
	query, err := engine.NewInstantQuery(ctx, g.Queryable(tenant), nil,
		`count by (cluster) (count_over_time({foo="bar"}[3h]))`, time.UnixMilli(3*3600*1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer query.Close()
	fmt.Println(query.Exec(ctx))
	// Output:
	// {cluster="eu"} => 3 @[10800000]
}
