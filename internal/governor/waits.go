package governor

import (
	"math"
	"runtime/metrics"
	"time"
)

// waits reads how long goroutines waited to run since it was last asked.
type waits struct {
	samples []metrics.Sample
	before  []uint64 // the runtime's counts at the last reading
	delta   []uint64
}

func newWaits() *waits {
	w := &waits{samples: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	w.median()
	return w
}

// median is the upper bound of the bucket that the median falls into; 0 when nothing ran.
// It allocates at the first call alone.
func (w *waits) median() time.Duration {
	metrics.Read(w.samples)
	h := w.samples[0].Value.Float64Histogram()
	if w.before == nil {
		w.before, w.delta = make([]uint64, len(h.Counts)), make([]uint64, len(h.Counts))
	}
	for i, n := range h.Counts {
		w.delta[i], w.before[i] = n-w.before[i], n
	}
	return median(w.delta, h.Buckets)
}

func median(counts []uint64, bounds []float64) time.Duration {
	var total, seen uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	for i, n := range counts {
		if seen += n; 2*seen >= total {
			upper := bounds[i+1]
			if math.IsInf(upper, 1) {
				upper = bounds[i]
			}
			return time.Duration(upper * float64(time.Second))
		}
	}
	panic("BUG: a median past all counts")
}
