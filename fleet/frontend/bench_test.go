package frontend

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/testactive"
)

// testOptions returns the options of a frontend that sends no request over the network.
func testOptions() Options {
	return Options{
		Downstreams: []*url.URL{{Scheme: "http", Host: "127.0.0.1:1"}},
		Shards:      16, MaxShards: 128, MergeBytes: 64 << 20,
	}
}

// BenchmarkActiveSeriesMiddlewareMergeResponses has the cases, the names and the data of the benchmark of
// grafana/mimir#7665. As there, an operation consumes a set of responses.
func BenchmarkActiveSeriesMiddlewareMergeResponses(b *testing.B) {
	benchmarkMerge(b, activeseries.Strict)
}

// BenchmarkStdlibMergeResponses is BenchmarkActiveSeriesMiddlewareMergeResponses with --decoder stdlib.
func BenchmarkStdlibMergeResponses(b *testing.B) { benchmarkMerge(b, activeseries.Stdlib) }

func benchmarkMerge(b *testing.B, by activeseries.Implementation) {
	f, err := New(testOptions())
	if err != nil {
		b.Fatal(err)
	}
	type benchmarkCase struct {
		name      string
		encoding  string
		numSeries int
	}
	for _, c := range []benchmarkCase{
		{"encoding=none", "", 1},
		{"encoding=snappy", "x-snappy-framed", 1},
		{"seriesCount=1_000", "", 1_000},
		{"seriesCount=10_000", "", 10_000},
	} {
		for _, numResponses := range []int{4, 16, 64, 128} {
			b.Run(fmt.Sprintf("%s/num-responses-%d", c.name, numResponses), func(b *testing.B) {
				bodies := testactive.Bodies(numResponses, c.numSeries)
				var size int64
				for _, body := range bodies {
					size += int64(len(body))
				}
				sets := make([][]*http.Response, b.N)
				for i := range sets {
					sets[i] = make([]*http.Response, numResponses)
					for k, body := range bodies {
						sets[i][k] = &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}
					}
				}
				b.SetBytes(size)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N { // not b.Loop: each operation consumes a set
					x := &exchange{f: f, decoding: Decoding{By: by}}
					body := x.mergeResponses(b.Context(), sets[i], c.encoding).Body
					if n, err := io.Copy(io.Discard, body); err != nil || n == 0 {
						b.Fatal(n, err)
					}
					if err := body.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

var _ io.WriterTo = (*mergedBody)(nil)

// TestMergeAllocs bounds the allocations of a merge, regardless of the number of series and the decoder.
func TestMergeAllocs(t *testing.T) {
	f, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(by activeseries.Implementation, series int) float64 {
		bodies := testactive.Bodies(128, series)
		readers := make([]*bytes.Reader, len(bodies))
		responses := make([]*http.Response, len(bodies))
		for i, body := range bodies {
			readers[i] = bytes.NewReader(body)
			responses[i] = &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(readers[i])}
		}
		return testing.AllocsPerRun(5, func() {
			for i, r := range readers {
				r.Reset(bodies[i])
			}
			x := &exchange{f: f, decoding: Decoding{By: by}}
			resp := x.mergeResponses(t.Context(), responses, "")
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < int64(series*128*80) {
				t.Fatal(n, err)
			}
		})
	}
	for _, by := range []activeseries.Implementation{activeseries.Strict, activeseries.Stdlib} {
		for _, series := range []int{1, 1000} {
			if got := allocs(by, series); got > 250 {
				t.Errorf("%v: 128 responses of %d series: %v allocations, want at most 250", by, series, got)
			}
		}
	}
}
