package gateway

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	liveSeconds = 10              // time covered by Live
	liveSlots   = liveSeconds + 2 // one being filled, one being cleared
	liveSub     = 16              // buckets per power of two: a quantile is within 1/16
	liveBuckets = 40 * liveSub    // microseconds up to 2^40
)

// live counts a stripe's statements of the last seconds: one slot per second, each a histogram of durations in
// microseconds, log-linear with liveSub buckets per power of two. Recording is a few atomic additions; a slot
// is cleared by the first statement of its second.
type live struct {
	clearing sync.Mutex // once a second
	slots    [liveSlots]liveSlot
}

type liveSlot struct {
	second  atomic.Int64 // the slot's second since base, plus 1
	calls   atomic.Uint64
	errors  atomic.Uint64
	buckets [liveBuckets]atomic.Uint32
}

// Live are metrics of the last 10 seconds.
type Live struct {
	Seconds    float64 `json:"seconds"`    // time covered by the metrics
	Statements uint64  `json:"statements"` // statements that finished in it
	PerSecond  float64 `json:"statements_per_second"`
	Errors     uint64  `json:"errors"`
	P50        float64 `json:"p50_us"` // microseconds, within 1/16
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`

	Connections int `json:"connections"` // currently connected clients
}

func liveBucket(us uint64) int {
	if us < liveSub {
		return int(us)
	}
	e := bits.Len64(us) - 5 // us>>e is in [liveSub, 2*liveSub)
	return min(e*liveSub+int(us>>e), liveBuckets-1)
}

// liveValue returns the middle of a bucket.
func liveValue(b int) float64 {
	if b < 2*liveSub {
		return float64(b)
	}
	e := b/liveSub - 1
	low := uint64(b-e*liveSub) << e
	return float64(low) + float64(uint64(1)<<e)/2
}

// liveSecond numbers the seconds since the server's start, from 1.
func liveSecond(sinceStart time.Duration) int64 { return int64(sinceStart/time.Second) + 1 }

// record counts a statement that finished at a time since the server's start. It does not allocate.
func (l *live) record(finished, d time.Duration, failed bool) {
	second := liveSecond(finished)
	s := &l.slots[second%liveSlots]
	if s.second.Load() != second {
		l.clearSlot(s, second)
	}
	s.calls.Add(1)
	if failed {
		s.errors.Add(1)
	}
	s.buckets[liveBucket(uint64(max(d, 0)/time.Microsecond))].Add(1)
}

// clearSlot clears the slot of a second before the first statement is counted in it.
func (l *live) clearSlot(s *liveSlot, second int64) {
	l.clearing.Lock()
	defer l.clearing.Unlock()
	if s.second.Load() >= second {
		return // another statement cleared it
	}
	s.calls.Store(0)
	s.errors.Store(0)
	for i := range s.buckets {
		s.buckets[i].Store(0)
	}
	s.second.Store(second)
}

// live sums the whole seconds that had passed at a time since the server's start, over all stripes.
func (m *metrics) live(sinceStart time.Duration) Live {
	second := liveSecond(sinceStart)
	out := Live{Seconds: float64(min(second-1, liveSeconds))}
	var sum [liveBuckets]uint64
	var total uint64
	for i := range m.stripes {
		l := &m.stripes[i].live
		for i := range l.slots {
			s := &l.slots[i]
			at := s.second.Load()
			if at >= second || at < second-liveSeconds || at == 0 {
				continue
			}
			out.Statements += s.calls.Load()
			out.Errors += s.errors.Load()
			for b := range s.buckets {
				n := uint64(s.buckets[b].Load())
				sum[b] += n
				total += n
			}
		}
	}
	if out.Seconds > 0 {
		out.PerSecond = float64(out.Statements) / out.Seconds
	}
	out.P50 = liveQuantile(&sum, total, 0.50)
	out.P99 = liveQuantile(&sum, total, 0.99)
	out.P999 = liveQuantile(&sum, total, 0.999)
	return out
}

func liveQuantile(sum *[liveBuckets]uint64, total uint64, q float64) float64 {
	if total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(total)+0.5), 1)
	var seen uint64
	for b, n := range sum {
		if seen += n; seen >= rank {
			return liveValue(b)
		}
	}
	panic("BUG: a quantile past all counted statements")
}
