package gateway

import (
	"sync/atomic"
	"time"
)

// pauseBounds are the upper bounds of the histogram of holds, in seconds.
var pauseBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// pauses counts how long holds lasted.
type pauses struct {
	buckets [len(pauseBounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

func (p *pauses) add(d time.Duration) {
	i := 0
	for i < len(pauseBounds) && d.Seconds() > pauseBounds[i] {
		i++
	}
	p.buckets[i].Add(1)
	p.nanos.Add(uint64(max(d, 0)))
}

// read is the histogram as Prometheus takes it.
func (p *pauses) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(pauseBounds))
	for i, bound := range pauseBounds {
		count += p.buckets[i].Load()
		buckets[bound] = count
	}
	count += p.buckets[len(pauseBounds)].Load()
	return count, float64(p.nanos.Load()) / float64(time.Second), buckets
}
