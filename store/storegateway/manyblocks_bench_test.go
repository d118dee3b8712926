package storegateway_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

var benchBlocks = flag.Int("bench-blocks", 300, "blocks of BenchmarkManyBlocks")

// manyBlocksDir returns a directory with -bench-blocks blocks of two hours.
func manyBlocksDir(b *testing.B) string {
	b.Helper()
	const series, samples = 200, 120
	dir := b.TempDir()
	for n := range *benchBlocks {
		_, err := testblock.Write(dir, testblock.SameSeries(230_000+n/3, series, samples), testblock.Options{
			External: map[string]string{"cluster": []string{"eu", "us", "ap"}[n%3]}, ChunkRange: 4 * 3600 * 1000,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// A slowBucket returns after 20 ms, as a bucket over a network does, and counts its calls.
type slowBucket struct {
	objstore.Bucket
	calls *atomic.Int64
}

func (s slowBucket) Provider() objstore.ObjProvider { return objstore.S3 }

func (s slowBucket) wait(ctx context.Context) error {
	s.calls.Add(1)
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowBucket) GetRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Bucket.GetRange(ctx, name, off, n)
}

func (s slowBucket) Attributes(ctx context.Context, name string) (objstore.ObjectAttributes, error) {
	if err := s.wait(ctx); err != nil {
		return objstore.ObjectAttributes{}, err
	}
	return s.Bucket.Attributes(ctx, name)
}

// BenchmarkFirstQuery reads one series of all blocks twice, from a directory and from a bucket with 20 ms of latency,
// by a store that has just synced, with and without index headers prepared. It reports the time of both queries, the
// calls of the bucket per block during them, and the query's memory per block.
func BenchmarkFirstQuery(b *testing.B) {
	dir := manyBlocksDir(b)
	for _, where := range []string{"directory", "20ms"} {
		for _, prepared := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/prepared=%t", where, prepared), func(b *testing.B) {
				var times [2]time.Duration
				var calls atomic.Int64
				var peak, reads int64
				for range b.N {
					files, err := filesystem.NewBucket(dir)
					if err != nil {
						b.Fatal(err)
					}
					options := teststore.Options(b, files)
					if where == "directory" {
						options.LocalBucket = dir
					} else {
						options.Bucket = slowBucket{files, &calls}
					}
					options.Layout, options.Cache, options.EagerHeaders = blocksync.LayoutThanos, tsblock.NewCache(256<<20), prepared
					g := teststore.New(b, options)
					if err := g.Sync(b.Context()); err != nil {
						b.Fatal(err)
					}
					before := calls.Load()
					for i := range times {
						start := time.Now()
						peak = max(peak, oneSeries(b, g))
						times[i] += time.Since(start)
					}
					reads += calls.Load() - before
				}
				n := float64(b.N)
				b.ReportMetric(times[0].Seconds()*1000/n, "first-ms/op")
				b.ReportMetric(times[1].Seconds()*1000/n, "next-ms/op")
				b.ReportMetric(float64(reads)/n/float64(*benchBlocks), "calls/block")
				b.ReportMetric(float64(peak)/float64(*benchBlocks), "B/block")
			})
		}
	}
}

// oneSeries reads the chunks of one series in all blocks and returns the peak of the query's memory.
func oneSeries(b *testing.B, g *storegateway.Gateway) int64 {
	b.Helper()
	q, err := g.Admit(b.Context(), storegateway.Admission{})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	request := forever()
	request.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", "00.+")}
	set, err := q.Select(b.Context(), request)
	if err != nil {
		b.Fatal(err)
	}
	defer set.Close()
	chunks := 0
	for set.Next() {
		chunks += len(set.At().Chunks)
	}
	if set.Err() != nil || chunks < *benchBlocks {
		b.Fatal(chunks, set.Err())
	}
	return q.Quota().Peak()
}

// BenchmarkManyBlocks runs queries over all blocks of a bucket, each with the same 200 series of two hours: the chunks of
// one series, and the values of a label. An operation is a query, from admission to Close.
func BenchmarkManyBlocks(b *testing.B) {
	dir := manyBlocksDir(b)
	g := newSelectGateway(b, dir, selectOptions{local: true, processBytes: 4 << 30})
	run := func(name string, read func(*storegateway.Query) int) {
		b.Run(name, func(b *testing.B) {
			once := func() {
				q, err := g.Admit(context.Background(), storegateway.Admission{})
				if err != nil {
					b.Fatal(err)
				}
				defer q.Close()
				if n := read(q); n == 0 {
					b.Fatal("nothing was read")
				}
			}
			once() // loads index headers and pages
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
	run("one series", func(q *storegateway.Query) (chunks int) {
		request := forever()
		request.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "i", "00.+")}
		set, err := q.Select(context.Background(), request)
		if err != nil {
			b.Fatal(err)
		}
		defer set.Close()
		for set.Next() {
			chunks += len(set.At().Chunks)
		}
		if err := set.Err(); err != nil {
			b.Fatal(err)
		}
		return chunks
	})
	values := func(ms ...*labels.Matcher) func(q *storegateway.Query) int {
		return func(q *storegateway.Query) int {
			found, missing, err := q.LabelValues(context.Background(), "i", storegateway.LabelsRequest{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: ms})
			if err != nil || len(missing.Warnings()) > 0 {
				b.Fatal(err, missing.Warnings())
			}
			return len(found)
		}
	}
	run("label values", values())
	run("label values with a matcher", values(labels.MustNewMatcher(labels.MatchEqual, "foo", "bar")))
}
