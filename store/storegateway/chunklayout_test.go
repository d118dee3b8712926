package storegateway

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testseed"
)

// histogramData returns the data of a chunk with one sample.
func histogramData(t *testing.T, h *histogram.FloatHistogram) []byte {
	t.Helper()
	c := chunkenc.NewFloatHistogramChunk()
	app, err := c.Appender()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := app.AppendFloatHistogram(nil, 0, 1000, h, false); err != nil {
		t.Fatal(err)
	}
	return c.Bytes()
}

// TestLayoutsAsValidate generates histograms: those that Prometheus accepts in samples pass, and the others do not.
func TestLayoutsAsValidate(t *testing.T) {
	r := testseed.Rand(t)
	bounds := []float64{math.Inf(-1), -1, 0, 0.001, 0.002, 1, 2.5, 1e300, math.Inf(1), math.NaN()}
	spans := func(most int) (all []histogram.Span, buckets []float64) {
		for range r.IntN(most) {
			offset := r.Int32N(3)
			if len(all) == 0 || r.IntN(12) == 0 {
				offset -= r.Int32N(2)
			}
			s := histogram.Span{Offset: offset, Length: r.Uint32N(3)}
			all = append(all, s)
			buckets = append(buckets, make([]float64, s.Length)...)
		}
		return all, buckets
	}
	valid := 0
	const n = 4000
	for range n {
		h := &histogram.FloatHistogram{Schema: []int32{histogram.CustomBucketsSchema, 0, 8, -4}[r.IntN(4)]}
		h.PositiveSpans, h.PositiveBuckets = spans(4)
		if custom := histogram.IsCustomBucketsSchema(h.Schema); custom {
			at := r.IntN(3)
			for range r.IntN(5) {
				h.CustomValues = append(h.CustomValues, bounds[min(at, len(bounds)-1)])
				if at += 1 + r.IntN(2); r.IntN(12) == 0 {
					at--
				}
			}
		} else if r.IntN(2) == 0 {
			h.NegativeSpans, h.NegativeBuckets = spans(4)
		}
		if r.IntN(20) == 0 {
			h.NegativeSpans, h.NegativeBuckets = spans(3)
		}
		want := h.Validate()
		got := checkChunk(byte(chunkenc.EncFloatHistogram), histogramData(t, h))
		if (got == nil) != (want == nil) {
			t.Fatalf("%+v: %v, Prometheus: %v", h, got, want)
		}
		if want == nil {
			valid++
		}
	}
	if valid < n/4 || valid > n-n/20 {
		t.Errorf("%d of %d histograms are valid", valid, n)
	}
}

// TestLayoutBounds has layouts that Prometheus accepts, and whose buckets are too many or too far away.
func TestLayoutBounds(t *testing.T) {
	for _, c := range []struct {
		spans []histogram.Span
		want  string // "": accepted
	}{
		{[]histogram.Span{{Length: maxBuckets}}, ""},
		{[]histogram.Span{{Length: maxBuckets}, {Length: 1}}, "65537 buckets are more than 65536"},
		{[]histogram.Span{{Offset: maxBucketIndex - 2, Length: 2}}, ""},
		{[]histogram.Span{{Offset: maxBucketIndex - 2, Length: 3}}, "out of range"},
		{[]histogram.Span{{Offset: -maxBucketIndex, Length: 2}}, ""},
		{[]histogram.Span{{Offset: -maxBucketIndex - 1, Length: 2}}, "out of range"},
		{[]histogram.Span{{Offset: math.MaxInt32, Length: 3}}, "out of range"},
		{[]histogram.Span{{Offset: 1 << 29, Length: 1}, {Offset: 1 << 29, Length: 1}}, "out of range"},
	} {
		h := &histogram.FloatHistogram{PositiveSpans: c.spans}
		for _, s := range c.spans {
			h.PositiveBuckets = append(h.PositiveBuckets, make([]float64, s.Length)...)
		}
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		err := checkChunk(byte(chunkenc.EncFloatHistogram), histogramData(t, h))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.spans, err, c.want)
		}
	}
}

// TestDecodedBytes compares the size that is reserved for decoded samples with their number and buckets.
func TestDecodedBytes(t *testing.T) {
	wide := &histogram.FloatHistogram{PositiveSpans: []histogram.Span{{Length: 1000}}, PositiveBuckets: make([]float64, 1000)}
	data := histogramData(t, wide)
	one := decodedBytes(byte(chunkenc.EncFloatHistogram), data)
	if one < 8*1000 || one > 10*1000 {
		t.Errorf("%d bytes for a histogram of 1,000 buckets", one)
	}
	data[0], data[1] = 0xff, 0xff // samples, of which the data may lack most
	if n := decodedBytes(byte(chunkenc.EncFloatHistogram), data); n != one*math.MaxUint16 {
		t.Errorf("%d bytes for 65,535 histograms, %d for one", n, one)
	}
	floats := chunkenc.NewXORChunk()
	app, err := floats.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		app.Append(0, int64(i), 1)
	}
	if n := decodedBytes(byte(chunkenc.EncXOR), floats.Bytes()); n < 120*16 || n > 120*100 {
		t.Errorf("%d bytes for 120 floats", n)
	}
	if n := decodedBytes(byte(chunkenc.EncFloatHistogram), data[:4]); n != 0 {
		t.Errorf("%d bytes for a chunk that is not decoded", n)
	}
	it := &mixedIterator{charged: 2 << 40} // a larger chunk was charged before: no select is needed
	if err := it.charge(byte(chunkenc.EncFloatHistogram), data); err != nil {
		t.Error(err)
	}
}
