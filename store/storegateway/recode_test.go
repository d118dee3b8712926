package storegateway

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/taredb/tare/internal/alloctest"
)

// startChunk returns a chunk with start timestamps.
func startChunk(f testing.TB, encoding chunkenc.Encoding, n int) ChunkView {
	f.Helper()
	chunk, err := chunkenc.NewEmptyChunk(encoding)
	if err != nil {
		f.Fatal(err)
	}
	app, err := chunk.Appender()
	if err != nil {
		f.Fatal(err)
	}
	for i := range int64(n) {
		st, at := 500+i/10*7000, 1000+i*15_000
		var next chunkenc.Chunk
		switch encoding {
		case chunkenc.EncXOR2:
			app.Append(st, at, float64(i*i))
		case chunkenc.EncHistogramST:
			next, _, app, err = app.AppendHistogram(nil, st, at, tsdbutil.GenerateTestHistogram(i), false)
		default:
			next, _, app, err = app.AppendFloatHistogram(nil, st, at, tsdbutil.GenerateTestFloatHistogram(i), false)
		}
		if err != nil {
			f.Fatal(err)
		}
		if next != nil {
			chunk = next
		}
	}
	return ChunkView{Encoding: byte(encoding), Data: chunk.Bytes()}
}

// decode returns the texts of a chunk's samples, by Prometheus' decoder, and an error where that fails or panics.
func decode(encoding byte, data []byte) (texts []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	samples, err := appendSamples(nil, encoding, data)
	for _, s := range samples {
		text := fmt.Sprintf("%d %x", s.t, math.Float64bits(s.value))
		switch {
		case s.integer != nil:
			text = fmt.Sprint(s.t, histogramText(s.integer.ToFloat(nil)))
		case s.float != nil:
			text = fmt.Sprint(s.t, histogramText(s.float))
		}
		texts = append(texts, text)
	}
	return texts, err
}

// histogramText is exact, and the same for histograms that differ in empty buckets.
func histogramText(h *histogram.FloatHistogram) string {
	h = h.Copy().Compact(0)
	return fmt.Sprintf("%d %x %x %x %x %v %x %v %x %x", h.Schema, math.Float64bits(h.ZeroThreshold), math.Float64bits(h.ZeroCount),
		math.Float64bits(h.Count), math.Float64bits(h.Sum), h.PositiveSpans, h.PositiveBuckets, h.NegativeSpans, h.NegativeBuckets, h.CustomValues)
}

// TestCheckChunk reads layouts of chunks, and finds those that are damaged.
func TestCheckChunk(t *testing.T) {
	wide := &histogram.FloatHistogram{Schema: 3, Count: 1e9, ZeroThreshold: 0.3, PositiveSpans: []histogram.Span{{Offset: -70, Length: 600}, {Offset: 7000, Length: 5}}, NegativeSpans: []histogram.Span{{Offset: 100_000, Length: 9}}}
	wide.PositiveBuckets, wide.NegativeBuckets = make([]float64, 605), make([]float64, 9)
	custom := &histogram.FloatHistogram{Schema: histogram.CustomBucketsSchema, Count: 3, PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: make([]float64, 3), CustomValues: []float64{1, 2.5}}
	stale := &histogram.FloatHistogram{Sum: math.Float64frombits(value.StaleNaN)}
	for want, h := range map[uint64]*histogram.FloatHistogram{614: wide, 3: custom, 0: stale, 8: tsdbutil.GenerateTestFloatHistogram(1)} {
		chunk := chunkenc.NewFloatHistogramChunk()
		app, err := chunk.Appender()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := app.AppendFloatHistogram(nil, 0, 1000, h, false); err != nil {
			t.Fatal(err)
		}
		data := chunk.Bytes()
		if err := checkChunk(byte(chunkenc.EncFloatHistogram), data); err != nil {
			t.Error(err)
		}
		if l, err := readLayout(data[leastChunkData:]); err != nil || l.buckets() != want {
			t.Errorf("%d buckets, %v; want %d", l.buckets(), err, want)
		}
		for end := range data {
			if l, err := readLayout(data[min(leastChunkData, end):end]); err == nil && l.buckets() != want {
				t.Errorf("%d of %d bytes have %d buckets, want %d", end, len(data), l.buckets(), want)
			}
		}
	}
}

// TestRecode re-encodes whole chunks with their counter reset hints, and refuses those without start timestamps.
func TestRecode(t *testing.T) {
	for from, to := range map[chunkenc.Encoding]chunkenc.Encoding{
		chunkenc.EncXOR2: chunkenc.EncXOR, chunkenc.EncHistogramST: chunkenc.EncHistogram, chunkenc.EncFloatHistogramST: chunkenc.EncFloatHistogram,
	} {
		for _, n := range []int{1, 2, 40} {
			c := startChunk(t, from, n)
			want, err := decode(c.Encoding, c.Data)
			if err != nil || len(want) != n {
				t.Fatalf("%d samples, want %d (%v)", len(want), n, err)
			}
			before := []ChunkView{{MinTime: 1}}
			done, err := AppendWithoutStart(before, &c)
			if err != nil || len(done) != 2 || done[0].MinTime != 1 {
				t.Fatalf("encoding %d, %d samples: %d chunks, %v", from, n, len(done), err)
			}
			got, err := decode(done[1].Encoding, done[1].Data)
			if err != nil || !slices.Equal(got, want) || done[1].Encoding != byte(to) || done[1].MinTime != 1000 || done[1].MaxTime != 1000+int64(n-1)*15_000 {
				t.Errorf("encoding %d, %d samples: encoding %d from %d to %d, %q, %v; want %q", from, n, done[1].Encoding, done[1].MinTime, done[1].MaxTime, got, err, want)
			}
			if from != chunkenc.EncXOR2 {
				hint := func(c ChunkView) chunkenc.CounterResetHeader {
					chunk, err := openChunk(c.Encoding, c.Data)
					if err != nil {
						t.Fatal(err)
					}
					return chunk.(interface {
						GetCounterResetHeader() chunkenc.CounterResetHeader
					}).GetCounterResetHeader()
				}
				if got, want := hint(done[1]), hint(c); got != want {
					t.Errorf("encoding %d, %d samples: hint %d, want %d", from, n, got, want)
				}
			}
			if again, err := AppendWithoutStart(before, &done[1]); err == nil || len(again) != 1 {
				t.Errorf("encoding %d is re-encoded: %d chunks, %v", to, len(again), err)
			}
		}
	}
}

// FuzzRecode re-encodes chunks without their start timestamps: they have the same samples, or an error is returned.
func FuzzRecode(f *testing.F) {
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR2, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST} {
		for _, n := range []int{1, 2, 40} {
			c := startChunk(f, e, n)
			f.Add(c.Encoding, c.Data)
		}
	}
	f.Fuzz(func(t *testing.T, encoding byte, data []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		done, err := AppendWithoutStart(nil, &ChunkView{Encoding: encoding, Data: data})
		if err != nil {
			if len(done) > 0 {
				t.Errorf("%d chunks, and %v", len(done), err)
			}
			return
		}
		want, err := decode(encoding, data)
		if err != nil {
			t.Fatalf("a chunk that cannot be decoded (%v) is re-encoded", err)
		}
		var got []string
		for _, c := range done {
			texts, err := decode(c.Encoding, c.Data)
			if err != nil || len(texts) == 0 {
				t.Fatalf("a chunk of %d samples: %v", len(texts), err)
			}
			got = append(got, texts...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("samples\n%q\nwant\n%q", got, want)
		}
	})
}
