package activeseries

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/taredb/tare/internal/testactive"
)

// TestMerge expects each series of the responses in the merged one.
func TestMerge(t *testing.T) {
	var bodies []io.ReadCloser
	for _, body := range testactive.Bodies(5, 40) {
		bodies = append(bodies, io.NopCloser(bytes.NewReader(body)))
	}
	var response struct{ Data []map[string]string }
	if err := json.NewDecoder(Merge(t.Context(), bodies, "")).Decode(&response); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range response.Data {
		seen[l["__name__"]+l["series"]] = true
	}
	if len(response.Data) != 200 || len(seen) != 200 {
		t.Errorf("%d series, %d different ones, want 200", len(response.Data), len(seen))
	}
}

// BenchmarkActiveSeriesMiddlewareMergeResponses has the cases and the data of the benchmark of that name in
// package frontend.
func BenchmarkActiveSeriesMiddlewareMergeResponses(b *testing.B) {
	for _, c := range []struct {
		name, encoding string
		series         int
	}{
		{"encoding=none", "", 1},
		{"encoding=snappy", "x-snappy-framed", 1},
		{"seriesCount=1_000", "", 1000},
		{"seriesCount=10_000", "", 10_000},
	} {
		for _, n := range []int{4, 16, 64, 128} {
			b.Run(fmt.Sprintf("%s/num-responses-%d", c.name, n), func(b *testing.B) {
				texts := testactive.Bodies(n, c.series)
				size := int64(0)
				for _, text := range texts {
					size += int64(len(text))
				}
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					bodies := make([]io.ReadCloser, n)
					for i := range bodies {
						bodies[i] = io.NopCloser(bytes.NewReader(texts[i]))
					}
					r := Merge(b.Context(), bodies, c.encoding)
					if _, err := io.Copy(io.Discard, r); err != nil {
						b.Fatal(err)
					}
					if err := r.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
