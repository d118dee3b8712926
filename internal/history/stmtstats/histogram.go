package stmtstats

import (
	"math"
	"math/bits"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
)

// A Histogram counts durations in buckets that are 2.2 % wide. It has some 9 KiB, and is meant as a buffer to
// read into rather than for storage. The zero value is empty.
type Histogram struct {
	Octaves uint64 // bit o: octave o may have counts; the others have none
	Zero    uint64 // durations too short for the first octave
	Nanos   uint64 // sum of all durations
	Buckets [NumBuckets]uint64
}

// Reset empties h.
func (h *Histogram) Reset() {
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		clear(h.Buckets[o*PerOctave : (o+1)*PerOctave])
	}
	h.Octaves, h.Zero, h.Nanos = 0, 0, 0
}

// Record counts one duration. It does not allocate.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	if b := BucketOf(d); b == zeroBucket {
		h.Zero++
	} else {
		h.Octaves |= 1 << (b / PerOctave)
		h.Buckets[b]++
	}
	h.Nanos += uint64(d)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for used := other.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			h.Buckets[b] += other.Buckets[b]
		}
	}
	h.Octaves |= other.Octaves
	h.Zero += other.Zero
	h.Nanos += other.Nanos
}

// MergePart adds the part of each bucket of other between two fractions from 0 to 1. Consecutive parts that
// cover 0 to 1 add up to all of it.
func (h *Histogram) MergePart(other *Histogram, from, to float64) {
	if from <= 0 && to >= 1 {
		h.Merge(other)
		return
	}
	between := func(n uint64) uint64 { return uint64(float64(n)*to+0.5) - uint64(float64(n)*from+0.5) }
	for used := other.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			h.Buckets[b] += between(other.Buckets[b])
		}
	}
	h.Octaves |= other.Octaves
	h.Zero += between(other.Zero)
	h.Nanos += between(other.Nanos)
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 {
	n := h.Zero
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for _, c := range h.Buckets[o*PerOctave : (o+1)*PerOctave] {
			n += c
		}
	}
	return n
}

// Sum returns the sum of all durations in seconds.
func (h *Histogram) Sum() float64 { return float64(h.Nanos) / 1e9 }

// Quantile returns a duration in the bucket of the q-quantile, 0 ≤ q ≤ 1, with an error of at most 2.2 %. It
// returns 0 if h is empty, or if the quantile is less than a microsecond.
func (h *Histogram) Quantile(q float64) time.Duration {
	count := h.Count()
	if count == 0 {
		return 0
	}
	rank := rankOf(q, count)
	seen := h.Zero
	if seen >= rank {
		return 0
	}
	for b, n := range h.Buckets {
		if seen += n; seen >= rank {
			return midOf(b)
		}
	}
	panic("BUG: a histogram's buckets hold less than its count")
}

// A Bucket is a number of durations, and the duration that represents them in quantiles.
type Bucket struct {
	Duration time.Duration
	Count    uint64
}

// NonEmpty returns the buckets that are not empty, in ascending order of their durations. Durations of less than a
// microsecond are represented by 0.
func (h *Histogram) NonEmpty() (buckets []Bucket) {
	n := 0
	if h.Zero > 0 {
		n++
	}
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for _, count := range h.Buckets[o*PerOctave : (o+1)*PerOctave] {
			if count != 0 {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	buckets = make([]Bucket, 0, n)
	if h.Zero > 0 {
		buckets = append(buckets, Bucket{Count: h.Zero})
	}
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			if n := h.Buckets[b]; n != 0 {
				buckets = append(buckets, Bucket{midOf(b), n})
			}
		}
	}
	return buckets
}

// midOf returns the duration that represents those in a bucket.
func midOf(bucket int) time.Duration {
	return time.Duration(math.Sqrt(BoundOf(bucket-1)*BoundOf(bucket)) * 1e9)
}

// maxGap is the maximum number of empty buckets that are written between two others instead of a new span: an
// empty bucket costs a bit in a chunk, a span a few bytes.
const maxGap = 4

// Native returns h as a Prometheus histogram that shares no memory with it.
func (h *Histogram) Native() *histogram.Histogram {
	n := &histogram.Histogram{
		Schema: Schema, ZeroThreshold: ZeroThreshold, ZeroCount: h.Zero, Count: h.Zero, Sum: h.Sum(),
	}
	next := math.MinInt // the index after the last bucket written
	var last uint64
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			c := h.Buckets[b]
			if c == 0 {
				continue
			}
			// Prometheus' bucket i ends at 2^(i/32) seconds.
			index := b + 1 + FirstOctave*PerOctave
			switch gap := index - next; {
			case len(n.PositiveSpans) == 0:
				n.PositiveSpans = append(n.PositiveSpans, histogram.Span{Offset: int32(index)})
			case gap > maxGap:
				n.PositiveSpans = append(n.PositiveSpans, histogram.Span{Offset: int32(gap)})
			default:
				for range gap {
					n.PositiveBuckets = append(n.PositiveBuckets, -int64(last))
					n.PositiveSpans[len(n.PositiveSpans)-1].Length++
					last = 0
				}
			}
			n.PositiveBuckets = append(n.PositiveBuckets, int64(c)-int64(last))
			n.PositiveSpans[len(n.PositiveSpans)-1].Length++
			n.Count += c
			last, next = c, index+1
		}
	}
	return n
}

// Indexed returns the counts of the buckets by Prometheus' indexes.
func (h *Histogram) Indexed() map[int]int64 {
	counts := make(map[int]int64)
	for used := h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			if n := h.Buckets[b]; n != 0 {
				counts[b+1+FirstOctave*PerOctave] = int64(n)
			}
		}
	}
	return counts
}
