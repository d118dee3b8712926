package stmtstats

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"
)

// A spread is the stored form of a histogram: the count of the zero bucket, then for each bucket that is not
// empty, in order of descending durations, the number of empty buckets above it and its count, all as
// varints. A reader of a high quantile reads only the beginning.

// AppendSpread appends h's spread to dst.
func (h *Histogram) AppendSpread(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.Zero)
	above := NumBuckets
	for used := h.Octaves; used != 0; {
		o := bits.Len64(used) - 1
		used &^= 1 << o
		for b := (o+1)*PerOctave - 1; b >= o*PerOctave; b-- {
			if n := h.Buckets[b]; n != 0 {
				dst = binary.AppendUvarint(dst, uint64(above-1-b))
				dst = binary.AppendUvarint(dst, n)
				above = b
			}
		}
	}
	return dst
}

// MaxSpread is the maximum length of a spread: for each bucket a gap of 0 and a count.
const MaxSpread = (1 + NumBuckets) * (1 + binary.MaxVarintLen64)

var errSpread = errors.New("a histogram has buckets that there are not")

// Uvarint returns the number at an index and the index of the next one, which is -1 if there is no number.
func Uvarint(b []byte, at int) (n uint64, next int) {
	if at < len(b) && b[at] < 0x80 {
		return uint64(b[at]), at + 1
	}
	return longUvarint(b, at)
}

func longUvarint(b []byte, at int) (n uint64, next int) {
	n, width := binary.Uvarint(b[min(at, len(b)):])
	if width <= 0 {
		return 0, -1
	}
	return n, at + width
}

// AddSpread adds the counts of a spread to h, except the sum of durations. After an error h is invalid.
func (h *Histogram) AddSpread(spread []byte) error {
	if len(spread) == 0 {
		return nil
	}
	zero, at := Uvarint(spread, 0)
	if at < 0 {
		return errSpread
	}
	h.Zero += zero
	above := uint64(NumBuckets)
	for at < len(spread) {
		var gap, count uint64
		if gap, at = Uvarint(spread, at); at < 0 || gap >= above {
			return errSpread
		}
		if count, at = Uvarint(spread, at); at < 0 || count == 0 {
			return errSpread
		}
		above -= gap + 1
		h.Buckets[above] += count
		h.Octaves |= 1 << (above / PerOctave)
	}
	return nil
}

// Subtract subtracts the counts of other. A bucket that would become negative becomes 0.
func (h *Histogram) Subtract(other *Histogram) {
	less := func(n *uint64, by uint64) { *n -= min(*n, by) }
	for used := other.Octaves & h.Octaves; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * PerOctave; b < (o+1)*PerOctave; b++ {
			less(&h.Buckets[b], other.Buckets[b])
		}
	}
	less(&h.Zero, other.Zero)
	less(&h.Nanos, other.Nanos)
}

// SetNative sets h to the counts of a Prometheus histogram that was created by Native.
func (h *Histogram) SetNative(n *histogram.Histogram) error {
	h.Reset()
	if n.Schema != Schema || len(n.NegativeSpans) > 0 {
		return errSpread
	}
	h.Zero, h.Nanos = n.ZeroCount, nanosOf(n.Sum)
	bucket, at, count := -1-FirstOctave*PerOctave, 0, int64(0)
	for _, span := range n.PositiveSpans {
		bucket += int(span.Offset)
		for range span.Length {
			if bucket < 0 || bucket >= NumBuckets || at == len(n.PositiveBuckets) {
				return errSpread
			}
			count += n.PositiveBuckets[at]
			if count > 0 {
				h.Buckets[bucket] = uint64(count)
				h.Octaves |= 1 << (bucket / PerOctave)
			}
			at++
			bucket++
		}
	}
	return nil
}

// nanosOf is the inverse of Histogram.Sum.
func nanosOf(seconds float64) uint64 {
	if !(seconds > 0) {
		return 0
	}
	return uint64(seconds*1e9 + 0.5)
}
