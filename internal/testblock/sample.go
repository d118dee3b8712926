package testblock

import (
	"fmt"
	"iter"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// SampleText returns a text of the current sample, exact to the bit; with hint it includes a histogram's
// counter reset hint.
func SampleText(it chunkenc.Iterator, kind chunkenc.ValueType, hint bool) string {
	if kind == chunkenc.ValFloat {
		at, v := it.At()
		return fmt.Sprintf("%d %x", at, math.Float64bits(v))
	}
	var (
		at   int64
		text string
		h    *histogram.FloatHistogram
	)
	if kind == chunkenc.ValHistogram {
		var integers *histogram.Histogram
		at, integers = it.AtHistogram(nil)
		text, h = integers.String(), integers.ToFloat(nil)
	} else {
		at, h = it.AtFloatHistogram(nil)
		text = h.String()
	}
	if !hint {
		return fmt.Sprintf("%d %s %s %x", at, kind, text, math.Float64bits(h.Sum))
	}
	return fmt.Sprintf("%d %s %s %x %d", at, kind, text, math.Float64bits(h.Sum), h.CounterResetHint)
}

// SameSeries yields series with the same labels in each block, with samples a minute apart in a time range
// exclusive to the block.
func SameSeries(block, series, samples int) iter.Seq[Series] {
	return func(yield func(Series) bool) {
		for n := range series {
			s := Series{Labels: labels.FromStrings("foo", "bar", "i", fmt.Sprintf("%02d%s", n, LongSuffix))}
			for i := range samples {
				s.Samples = append(s.Samples, Sample{T: int64(block*samples+i) * 60_000, V: float64(i * n)})
			}
			if !yield(s) {
				return
			}
		}
	}
}
