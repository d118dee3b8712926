package storegateway_test

import (
	"context"
	"flag"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/storegateway"
)

var benchBlocks = flag.Int("bench-blocks", 300, "blocks of BenchmarkManyBlocks")

// BenchmarkManyBlocks runs queries over all blocks of a bucket, each with the same 200 series of two hours: the chunks of
// one series, and the values of a label. An operation is a query, from admission to Close.
func BenchmarkManyBlocks(b *testing.B) {
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
