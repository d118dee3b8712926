package testblock

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// RandomOptions configures Random.
type RandomOptions struct {
	Series  int
	Samples int   // maximum per series
	Start   int64 // time of the first sample, in milliseconds
	Step    int64 // usual time between samples, in milliseconds
}

// ChunkRange returns an Options.ChunkRange with which a head accepts all of the series.
func (o RandomOptions) ChunkRange() int64 { return 4 * (int64(o.Samples)*o.Step + 1) }

// Random returns series that resemble those of a monitored fleet, in the order of labels, the same for the
// same state of r: floats, integer and float histograms with exponential and with custom buckets, series that
// change their kind, gaps, counter resets, stale markers and other unusual floats. Labels are __name__, job,
// instance, and le, zone and "empty-ish" ones that only some have.
func Random(r *rand.Rand, o RandomOptions) []Series {
	all := make([]Series, 0, o.Series)
	for n := range o.Series {
		b := labels.NewScratchBuilder(6)
		b.Add("__name__", fmt.Sprintf("metric_%d", n%7))
		b.Add("job", []string{"api", "db", "node", "a.b+c|d"}[r.IntN(4)])
		b.Add("instance", fmt.Sprintf("host-%03d:%d", n/7, 9000+n%3))
		if r.IntN(3) == 0 {
			b.Add("le", []string{"0.1", "1", "+Inf"}[r.IntN(3)])
		}
		if r.IntN(2) == 0 {
			b.Add("zone", []string{"eu", "us", "ö\n\"x\\"}[r.IntN(3)])
		}
		if r.IntN(5) == 0 {
			b.Add("zzz_last", fmt.Sprint(r.IntN(3)))
		}
		b.Sort()
		all = append(all, Series{Labels: b.Labels(), Samples: randomSamples(r, o)})
	}
	slices.SortFunc(all, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(all, func(a, b Series) bool { return labels.Equal(a.Labels, b.Labels) })
}

// randomSamples returns the samples of one series.
func randomSamples(r *rand.Rand, o RandomOptions) []Sample {
	samples := make([]Sample, 0, o.Samples)
	how := r.IntN(7) // five kinds of samples; additional floats, and one that changes
	v, level := 0.0, int64(r.IntN(4))
	t := o.Start + r.Int64N(o.Step)
	end := o.Start + int64(o.Samples)*o.Step
	for t < end && len(samples) < o.Samples {
		kind := how
		if how == 6 {
			kind = len(samples) / 40 % 5
		}
		switch r.IntN(60) {
		case 0: // a gap
			samples = append(samples, staleSample(t+o.Step/2, kind))
			t += o.Step * (1 + r.Int64N(50))
		case 1: // a counter reset
			v, level = 0, int64(r.IntN(4))
		}
		t += o.Step + r.Int64N(max(o.Step/10, 1))
		v += float64(r.IntN(10))
		if r.IntN(4) == 0 {
			level++
		}
		if t < end && len(samples) < o.Samples {
			samples = append(samples, sampleOf(r, kind, t, v, level))
		}
	}
	if len(samples) == 0 {
		samples = append(samples, Sample{T: o.Start, V: 1})
	}
	return samples
}

// staleSample returns the staleness marker of a series of the kind.
func staleSample(t int64, kind int) Sample {
	stale := math.Float64frombits(value.StaleNaN)
	switch kind {
	case 1, 3:
		return Sample{T: t, H: &histogram.Histogram{Sum: stale}}
	case 2, 4:
		return Sample{T: t, FH: &histogram.FloatHistogram{Sum: stale}}
	}
	return Sample{T: t, V: stale}
}

func sampleOf(r *rand.Rand, kind int, t int64, v float64, level int64) Sample {
	switch kind {
	case 1:
		return Sample{T: t, H: exponential(level, r.IntN(3))}
	case 2:
		return Sample{T: t, FH: exponential(level, r.IntN(3)).ToFloat(nil)}
	case 3:
		return Sample{T: t, H: custom(level)}
	case 4:
		return Sample{T: t, FH: custom(level).ToFloat(nil)}
	}
	if r.IntN(40) == 0 {
		v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.SmallestNonzeroFloat64}[r.IntN(5)]
	}
	return Sample{T: t, V: v}
}

// exponential returns a histogram of the standard schemas with level observations; more is the number of its
// buckets beyond the first two.
func exponential(level int64, more int) *histogram.Histogram {
	h := &histogram.Histogram{
		Schema: 1, ZeroThreshold: 0.001, ZeroCount: uint64(level), Sum: 18.4 * float64(level+1),
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 2}},
		PositiveBuckets: []int64{level + 1, 1},
		NegativeSpans:   []histogram.Span{{Offset: 1, Length: 1}},
		NegativeBuckets: []int64{level},
	}
	if more > 0 {
		h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: int32(more), Length: 1})
		h.PositiveBuckets = append(h.PositiveBuckets, -1)
	}
	h.Count = count(h)
	return h
}

// custom returns a histogram with custom bounds.
func custom(level int64) *histogram.Histogram {
	h := &histogram.Histogram{
		Schema: histogram.CustomBucketsSchema, Sum: 5 * float64(level+1),
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 1}},
		PositiveBuckets: []int64{level + 1, 1, -1},
		CustomValues:    []float64{0.5, 1, 2.5, 10},
	}
	h.Count = count(h)
	return h
}

// count sums the buckets.
func count(h *histogram.Histogram) uint64 {
	n := int64(h.ZeroCount)
	for _, deltas := range [][]int64{h.PositiveBuckets, h.NegativeBuckets} {
		at := int64(0)
		for _, d := range deltas {
			at += d
			n += at
		}
	}
	return uint64(n)
}

// Between yields the part of the series with mint <= time < maxt, omitting series without any sample there.
// With overlapping times, the parts give overlapping blocks.
func Between(series []Series, mint, maxt int64) iter.Seq[Series] {
	return func(yield func(Series) bool) {
		for _, s := range series {
			from, _ := slices.BinarySearchFunc(s.Samples, mint, compareTime)
			to, _ := slices.BinarySearchFunc(s.Samples, maxt, compareTime)
			if from < to && !yield(Series{Labels: s.Labels, Samples: s.Samples[from:to]}) {
				return
			}
		}
	}
}

func compareTime(s Sample, t int64) int {
	switch {
	case s.T < t:
		return -1
	case s.T > t:
		return 1
	}
	return 0
}
