package storeapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/thanos-io/objstore/providers/filesystem"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// exampleGateway returns a gateway over a bucket with one block: two series of 240 samples.
func exampleGateway() (g *storegateway.Gateway, cleanup func() error, err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, err
	}
	shape := testblock.Shape{Count: 2, Samples: 240, Interval: 15 * time.Second}
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

// A server listens on a TCP address in production; the example uses a connection in memory.
func ExampleAPI_NewServer() {
	gateway, cleanup, err := exampleGateway()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cleanup() //nolint:errcheck // removes temporary files

	api := storeapi.New(gateway, storeapi.Options{Timeout: time.Minute})
	server := api.NewServer()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- api.Serve(server, listener) }()

	conn, err := grpc.NewClient("passthrough:///store",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := storepb.NewStoreClient(conn).Series(context.Background(), &storepb.SeriesRequest{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64,
		Matchers: []*storepb.LabelMatcher{{Type: storepb.LabelMatcher_EQ, Name: "foo", Value: "bar"}},
	})
	for err == nil {
		var response *storepb.SeriesResponse
		if response, err = stream.Recv(); err == nil && response.GetSeries() != nil {
			series := response.GetSeries()
			fmt.Println(series.GetLabels()[0].GetName(), series.GetLabels()[0].GetValue(), len(series.GetChunks()), "chunks")
		}
	}
	fmt.Println(errors.Is(err, io.EOF))

	_ = conn.Close()
	server.Stop()
	fmt.Println(<-served)
	// Output:
	// cluster eu 2 chunks
	// cluster eu 2 chunks
	// true
	// <nil>
}
