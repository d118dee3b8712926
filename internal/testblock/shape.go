package testblock

import (
	"fmt"
	"iter"
	"math/rand" //nolint:depguard // the published data are of this generator
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// LongSuffix is the suffix of label i's value in a Shape, of a realistic length.
const LongSuffix = "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"

// A Shape is a data set of the benchmarks of Mimir and Thanos (createHeadWithSeries there). Its series n is
//
//	{foo="bar", i="<number><LongSuffix>"}, number = (Block*Count + n) * Samples, seven digits
//
// with its first sample at number × Interval and one each Interval, so each series has an exclusive time
// range. Floats are consecutive results of math/rand's Float64.
type Shape struct {
	Count    int           // series
	Samples  int           // of each
	Interval time.Duration // 0 is a millisecond
	Block    int           // number of blocks of this shape before this one
	Seed     int64         // for math/rand

	// Kind of the samples: floats, or equal histograms; 0 is floats.
	Kind chunkenc.ValueType

	// J adds label j with the number, as in Thanos' form of the data set.
	J bool
}

// BlockSeries returns the data of BenchmarkBlockSeries: 1,000 series of a day at 15 s each, 48,000 chunks of
// 120 samples, about 43 MB.
func BlockSeries() Shape {
	return Shape{Count: 1000, Samples: 86400 / 15, Interval: 15 * time.Second, Seed: 120}
}

// Million returns block n of 4 with one sample in each of 1,000,000 series in total.
func Million(n int) Shape {
	return Shape{Count: 250_000, Samples: 1, Block: n, Seed: int64(n)}
}

// HundredThousand returns block n of 4 with 100 samples in each of 100,000 series in total.
func HundredThousand(n int) Shape {
	return Shape{Count: 25_000, Samples: 100, Block: n, Seed: int64(n)}
}

// Series yields the series; each one overwrites the samples of the previous one.
func (s Shape) Series() iter.Seq[Series] {
	step := s.Interval.Milliseconds()
	if step == 0 {
		step = 1
	}
	return func(yield func(Series) bool) {
		random := rand.New(rand.NewSource(s.Seed))
		samples := make([]Sample, s.Samples)
		for n := range s.Count {
			number := (s.Block*s.Count + n) * s.Samples
			for i := range samples {
				samples[i] = s.sample(int64(number+i)*step, random)
			}
			pairs := []string{"foo", "bar", "i", fmt.Sprintf("%07d%s", number, LongSuffix)}
			if s.J {
				pairs = append(pairs, "j", strconv.Itoa(number))
			}
			if !yield(Series{Labels: labels.FromStrings(pairs...), Samples: samples}) {
				return
			}
		}
	}
}

func (s Shape) sample(t int64, random *rand.Rand) Sample {
	switch s.Kind {
	case chunkenc.ValHistogram:
		return Sample{T: t, H: &histogram.Histogram{
			Count: 20, Sum: -3.1415, ZeroCount: 12, ZeroThreshold: 0.001,
			NegativeSpans:   []histogram.Span{{Offset: 0, Length: 4}, {Offset: 1, Length: 1}},
			NegativeBuckets: []int64{1, 2, -2, 1, -1},
		}}
	case chunkenc.ValFloatHistogram:
		return Sample{T: t, FH: &histogram.FloatHistogram{
			ZeroThreshold: 0.01, ZeroCount: 5.5, Count: 15, Sum: 11.5,
			PositiveSpans:   []histogram.Span{{Offset: -2, Length: 2}, {Offset: 1, Length: 3}},
			PositiveBuckets: []float64{0.5, 0, 1.5, 2, 3.5},
			NegativeSpans:   []histogram.Span{{Offset: 3, Length: 2}, {Offset: 3, Length: 2}},
			NegativeBuckets: []float64{1.5, 0.5, 2.5, 3},
		}}
	}
	return Sample{T: t, V: random.Float64()}
}

// Write writes the shape's block into dir and returns its id's text.
func (s Shape) Write(dir string, o Options) (string, error) {
	id, err := Write(dir, s.Series(), o)
	return id.String(), err
}
