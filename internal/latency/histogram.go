package latency

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 6 // 64 buckets for each power of two

	// maxBits bounds what is told apart: 2^44 ns is 4.9 hours, and what took longer is
	// counted as that long.
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

// Merge adds what other counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Sum is the total of the durations recorded.
func (h *Histogram) Sum() time.Duration { return h.sum }

// Max is the longest duration recorded, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean is the exact average, and 0 when nothing was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Quantile is the duration that a share of q of those recorded did not exceed, with q
// from 0 to 1; it is 0 when nothing was recorded. It does not allocate.
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

// bucketOf is the bucket of a duration in nanoseconds: itself below 64, and past that its
// leading seven bits, of which the first says the power of two.
func bucketOf(ns uint64) int {
	ns = min(ns, 1<<maxBits-1)
	if ns < 1<<subBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	return (shift+1)<<subBits + int(ns>>shift) - 1<<subBits
}

// middleOf is the middle of a bucket.
func middleOf(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket&(1<<subBits-1)+1<<subBits) << shift
	return time.Duration(low + (uint64(1)<<shift)/2)
}
