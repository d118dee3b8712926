package latency

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 6 // 64 buckets for each power of two

	// maxBits bounds the range: 2^44 ns is 4.9 hours, and longer durations are counted as that long.
	maxBits = 44

	buckets = (maxBits-subBits)<<subBits + 1<<subBits
)

// A Histogram counts durations. Its zero value is empty and ready; it takes 20 KiB and
// is not safe for concurrent use.
type Histogram struct {
	counts [buckets]uint64
	count  uint64
	sum    time.Duration
	max    time.Duration
}

// Record counts one duration; a negative one counts as zero. It does not allocate.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count returns the number of recorded durations.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the total of the recorded durations.
func (h *Histogram) Sum() time.Duration { return h.sum }

// Max returns the longest recorded duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the exact average, and 0 if nothing was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Quantile returns the duration that a fraction q of the recorded ones did not exceed, with q from 0 to 1, or
// 0 if nothing was recorded. It does not allocate.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.count)))
	rank = min(max(rank, 1), h.count)
	if rank == h.count {
		return h.max
	}
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(middleOf(i), h.max)
		}
	}
	panic("BUG: a histogram's buckets hold less than its count")
}

// bucketOf returns the bucket of a duration in nanoseconds: the duration itself below 64, and above that its
// leading seven bits, of which the first is the power of two.
func bucketOf(ns uint64) int {
	ns = min(ns, 1<<maxBits-1)
	if ns < 1<<subBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	return (shift+1)<<subBits + int(ns>>shift) - 1<<subBits
}

// middleOf returns the middle of a bucket.
func middleOf(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket&(1<<subBits-1)+1<<subBits) << shift
	return time.Duration(low + (uint64(1)<<shift)/2)
}
