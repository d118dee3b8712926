package storegateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// histogramChunk returns the data of a chunk of gauge histograms, whose sum is value.
func histogramChunk(t *testing.T, values ...float64) []byte {
	t.Helper()
	c := chunkenc.NewFloatHistogramChunk()
	app, err := c.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		h := &histogram.FloatHistogram{
			CounterResetHint: histogram.GaugeType, Count: v, Sum: v,
			PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []float64{v / 2, v / 2},
		}
		if _, _, app, err = app.AppendFloatHistogram(nil, 0, int64(i), h, true); err != nil {
			t.Fatal(err)
		}
	}
	return c.Bytes()
}

func floatChunk(t *testing.T, values ...float64) []byte {
	t.Helper()
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		app.Append(0, int64(i), v)
	}
	return c.Bytes()
}

// TestAggregateChunks reads chunks of aggregates that Thanos writes for histograms, and damaged ones.
func TestAggregateChunks(t *testing.T) {
	var histograms, floats tsblock.Aggregates
	set := func(all *tsblock.Aggregates, kind tsblock.Aggregate, e chunkenc.Encoding, data []byte) tsblock.Aggregates {
		all[kind].Encoding, all[kind].Data = byte(e), data
		return *all
	}
	set(&histograms, tsblock.AggregateCount, chunkenc.EncXOR, floatChunk(t, 1, 2, 4))
	set(&histograms, tsblock.AggregateSum, chunkenc.EncFloatHistogram, histogramChunk(t, 6, 10, 12))
	for kind := range floats {
		set(&floats, tsblock.Aggregate(kind), chunkenc.EncXOR, floatChunk(t, float64(kind), float64(kind), float64(kind)))
	}
	without := floats
	without[tsblock.AggregateMax].Data = nil
	short, moved := histograms, histograms
	for _, c := range []struct {
		name  string
		reads aggregation
		data  []byte
		want  []float64
		err   string
	}{
		{"averages", averages, histograms.AppendTo(nil), []float64{6, 5, 3}, ""},
		{"sums", sums, histograms.AppendTo(nil), []float64{6, 10, 12}, ""},
		{"histograms have no minimum", minima, histograms.AppendTo(nil), nil, ""},
		{"counts", counts, histograms.AppendTo(nil), []float64{1, 2, 4}, ""},
		{"maxima", maxima, floats.AppendTo(nil), []float64{3, 3, 3}, ""},
		{"a missing aggregate", maxima, without.AppendTo(nil), nil, "it has no aggregate max"},
		{"fewer counts", averages, new(set(&short, tsblock.AggregateCount, chunkenc.EncXOR, floatChunk(t, 1, 2))).AppendTo(nil), nil, "differ in number"},
		{"counts that are histograms", averages, new(set(&moved, tsblock.AggregateCount, chunkenc.EncFloatHistogram, histogramChunk(t, 1, 2, 3))).AppendTo(nil), nil, "differ in their times"},
		{"a chunk that ends early", counts, histograms.AppendTo(nil)[:5], nil, "a length goes past"},
		{"more bytes", counts, append(histograms.AppendTo(nil), 0), nil, "bytes after"},
		{"an unknown encoding", sums, new(set(&short, tsblock.AggregateSum, 77, []byte{1, 2, 3})).AppendTo(nil), nil, "encoding 77 is unknown"},
		{"a short header", sums, new(set(&short, tsblock.AggregateSum, chunkenc.EncFloatHistogram, []byte{0, 1})).AppendTo(nil), nil, "shorter than its header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := mixedIterator{series: &oneSeries{of: &selected{reads: c.reads}}}
			err := it.decodeData(tsblock.EncodingAggregates, c.data)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []float64
			for _, s := range it.samples {
				if s.float != nil {
					s.value = s.float.Sum
					if s.float.PositiveBuckets[0] != s.value/2 {
						t.Errorf("buckets %v of %v", s.float.PositiveBuckets, s.value)
					}
				}
				got = append(got, s.value)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestKeptAggregates expects the aggregates of a part of a chunk, with all of its counters.
func TestKeptAggregates(t *testing.T) {
	var all tsblock.Aggregates
	for kind := range all {
		all[kind].Encoding, all[kind].Data = byte(chunkenc.EncXOR), floatChunk(t, 10, 11, 12, 13)
	}
	kept, err := keptAggregates(all.AppendTo(nil), 1, 2)
	if err != nil || len(kept) != 1 || kept[0].MinTime != 1 || kept[0].MaxTime != 2 {
		t.Fatalf("%v, %v", kept, err)
	}
	parts, err := tsblock.SplitAggregates(kept[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	for kind := range parts {
		want := []float64{11, 12}
		if tsblock.Aggregate(kind) == tsblock.AggregateCounter {
			want = []float64{10, 11, 12, 13}
		}
		samples, err := appendSamples(nil, parts[kind].Encoding, parts[kind].Data)
		var got []float64
		for _, s := range samples {
			got = append(got, s.value)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", tsblock.Aggregate(kind), got, err, want)
		}
	}
	if kept, err := keptAggregates(all.AppendTo(nil), 4, 9); err != nil || len(kept) != 0 {
		t.Errorf("outside: %v, %v", kept, err)
	}
}

// TestLimitResolution expects functions of two samples to read blocks of at most half of their range.
func TestLimitResolution(t *testing.T) {
	for _, c := range []struct {
		function string
		span     time.Duration
		want     blocksync.Resolution
	}{
		{"rate", 10 * time.Minute, blocksync.FiveMinutes},
		{"increase", 9 * time.Minute, blocksync.Resolution(270_000)},
		{"deriv", 3 * time.Hour, blocksync.OneHour},
		{"rate", 0, blocksync.OneHour},
		{"avg_over_time", time.Minute, blocksync.OneHour},
		{"", time.Minute, blocksync.OneHour},
	} {
		if got := limitResolution(blocksync.OneHour, &storage.SelectHints{Func: c.function, Range: c.span.Milliseconds()}); got != c.want {
			t.Errorf("%s over %s: %s, want %s", c.function, c.span, got, c.want)
		}
	}
	// Two ranges of a function in one expression are not read as one.
	one, two := Request{MaxResolution: blocksync.FiveMinutes}, Request{MaxResolution: blocksync.OneHour}
	if keyOf(&one, true, counters) == keyOf(&two, true, counters) {
		t.Error("selects of different resolutions have the same key")
	}
}

// TestMaxSourceResolution parses the parameter and derives the lookback delta.
func TestMaxSourceResolution(t *testing.T) {
	for _, c := range []struct {
		text           string
		step, lookback time.Duration
		want           blocksync.Resolution
		wider          time.Duration
	}{
		{"", time.Hour, 5 * time.Minute, 0, 0},
		{"0s", time.Hour, 5 * time.Minute, 0, 0},
		{"299s", 0, 5 * time.Minute, 0, 0},
		{"5m", 0, 5 * time.Minute, blocksync.FiveMinutes, 5 * time.Minute},
		{"5m", 0, time.Minute, blocksync.FiveMinutes, 5 * time.Minute},
		{"5m1s", 0, 5 * time.Minute, blocksync.FiveMinutes + 1000, time.Hour},
		{"1h", 0, 10 * time.Minute, blocksync.OneHour, time.Hour},
		{"1h", 0, 2 * time.Hour, blocksync.OneHour, 2 * time.Hour},
		{"auto", 0, 5 * time.Minute, 0, 0},
		{"auto", 25 * time.Minute, 5 * time.Minute, blocksync.FiveMinutes, 5 * time.Minute},
		{"auto", 24 * time.Minute, 5 * time.Minute, 0, 0},
		{"auto", 5 * time.Hour, 5 * time.Minute, blocksync.OneHour, time.Hour},
	} {
		ctx, wider, err := prepareResolution(t.Context(), c.text, c.step, c.lookback)
		if got := maxResolutionOf(ctx); err != nil || got != c.want || wider != c.wider {
			t.Errorf("%q, step %s: got %s, lookback %s, %v; want %s, %s", c.text, c.step, got, wider, err, c.want, c.wider)
		}
	}
	for _, text := range []string{"-5m", "often", "5"} {
		if _, _, err := prepareResolution(t.Context(), text, 0, 0); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
