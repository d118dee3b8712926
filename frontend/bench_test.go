package frontend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

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
	f, err := New(testOptions())
	if err != nil {
		b.Fatal(err)
	}
	benchmarkMerge(b, func(responses []*http.Response, encoding string) (int64, error) {
		x := &exchange{f: f}
		resp := x.mergeResponses(b.Context(), responses, encoding)
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil {
			err = resp.Body.Close()
		}
		return n, err
	})
}

// BenchmarkPlainMergeResponses does the same work with encoding/json, into maps of labels.
func BenchmarkPlainMergeResponses(b *testing.B) {
	benchmarkMerge(b, func(responses []*http.Response, encoding string) (int64, error) {
		type result struct {
			Data []map[string]string `json:"data"`
		}
		var all result
		for _, resp := range responses {
			var one result
			if err := json.NewDecoder(resp.Body).Decode(&one); err != nil {
				return 0, err
			}
			all.Data = append(all.Data, one.Data...)
			if err := resp.Body.Close(); err != nil {
				return 0, err
			}
		}
		var c compressors
		w := io.Writer(io.Discard)
		z, release := c.writer(Encoding(encoding), w)
		defer release()
		if z != nil {
			w = z
		}
		text, err := json.Marshal(all)
		if err != nil {
			return 0, err
		}
		if _, err = w.Write(text); err == nil && z != nil {
			err = z.Close()
		}
		return int64(len(text)), err
	})
}

func benchmarkMerge(b *testing.B, merge func(responses []*http.Response, encoding string) (int64, error)) {
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
					n, err := merge(sets[i], c.encoding)
					if err != nil || n == 0 {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}

var _ io.WriterTo = (*mergedBody)(nil)

// TestMergeAllocs bounds the allocations of a merge, regardless of the number of series.
func TestMergeAllocs(t *testing.T) {
	f, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(series int) float64 {
		bodies := testactive.Bodies(128, series)
		readers := make([]*bytes.Reader, len(bodies))
		responses := make([]*http.Response, len(bodies))
		for i, body := range bodies {
			readers[i] = bytes.NewReader(body)
			responses[i] = &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(readers[i])}
		}
		return testing.AllocsPerRun(10, func() {
			for i, r := range readers {
				r.Reset(bodies[i])
			}
			x := &exchange{f: f}
			resp := x.mergeResponses(t.Context(), responses, "")
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < int64(series*128*80) {
				t.Fatal(n, err)
			}
		})
	}
	for _, series := range []int{1, 1000} {
		got := allocs(series)
		t.Logf("%d series: %v allocations", series, got)
		if got > 250 {
			t.Errorf("128 responses of %d series: %v allocations, want at most 250", series, got)
		}
	}
}
