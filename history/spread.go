package history

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"
)

// A histogram is kept as its spread: the count of the zero bucket, then for each bucket that is not
// empty, in order, how many empty ones are before it, and its count; all as varints.

// appendSpread appends h's spread to dst.
func (h *Histogram) appendSpread(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.zero)
	next := 0
	for used := h.used; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * perOctave; b < (o+1)*perOctave; b++ {
			if n := h.buckets[b]; n != 0 {
				dst = binary.AppendUvarint(dst, uint64(b-next))
				dst = binary.AppendUvarint(dst, n)
				next = b + 1
			}
		}
	}
	return dst
}

var errSpread = errors.New("a histogram has buckets that there are not")

// addSpread adds what a spread counts to h, but the time. h is not to be used after an error.
func (h *Histogram) addSpread(spread []byte) error {
	if len(spread) == 0 {
		return nil
	}
	zero, n := binary.Uvarint(spread)
	if n <= 0 {
		return errSpread
	}
	h.zero += zero
	next := uint64(0)
	for at := n; at < len(spread); {
		gap, n := binary.Uvarint(spread[at:])
		if n <= 0 || gap >= numBuckets {
			return errSpread
		}
		at += n
		count, n := binary.Uvarint(spread[at:])
		b := next + gap
		if n <= 0 || count == 0 || b >= numBuckets {
			return errSpread
		}
		at += n
		h.buckets[b] += count
		h.used |= 1 << (b / perOctave)
		next = b + 1
	}
	return nil
}

// subtract takes away what other has counted; of what is less than that nothing remains.
func (h *Histogram) subtract(other *Histogram) {
	less := func(n *uint64, by uint64) { *n -= min(*n, by) }
	for used := other.used & h.used; used != 0; used &= used - 1 {
		o := bits.TrailingZeros64(used)
		for b := o * perOctave; b < (o+1)*perOctave; b++ {
			less(&h.buckets[b], other.buckets[b])
		}
	}
	less(&h.zero, other.zero)
	less(&h.nanos, other.nanos)
}

// setNative makes h what a Prometheus histogram counts that Native made.
func (h *Histogram) setNative(n *histogram.Histogram) error {
	h.Reset()
	if n.Schema != Schema || len(n.NegativeSpans) > 0 {
		return errSpread
	}
	h.zero, h.nanos = n.ZeroCount, nanosOf(n.Sum)
	bucket, at, count := -1-firstOctave*perOctave, 0, int64(0)
	for _, span := range n.PositiveSpans {
		bucket += int(span.Offset)
		for range span.Length {
			if bucket < 0 || bucket >= numBuckets || at == len(n.PositiveBuckets) {
				return errSpread
			}
			count += n.PositiveBuckets[at]
			if count > 0 {
				h.buckets[bucket] = uint64(count)
				h.used |= 1 << (bucket / perOctave)
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
