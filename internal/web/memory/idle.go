package memory

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Returner returns unused memory of the process to the system after a quiet period: once, and again only
// after there was activity. The runtime does so too, but within minutes, and it keeps a tenth more than the
// heap's goal.
type Returner struct {
	after    time.Duration
	activity func() uint64
	log      *slog.Logger
	free     func()       // debug.FreeOSMemory, except in tests
	released func() int64 // likewise released

	returns, returned, nanos atomic.Uint64 // number of returns, bytes, and their duration

	returnsDesc, returnedDesc, secondsDesc *prometheus.Desc
}

// NewReturner returns a Returner. A period is quiet if activity, a counter, does not change for that long.
func NewReturner(after time.Duration, activity func() uint64, log *slog.Logger) *Returner {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &Returner{
		after: after, activity: activity, log: log, free: debug.FreeOSMemory, released: released,
		returnsDesc:  desc("tare_idle_memory_returns_total", "Idle periods after which memory was returned to the system (option return-idle-memory)."),
		returnedDesc: desc("tare_idle_memory_returned_bytes_total", "Bytes returned to the system after idle periods."),
		secondsDesc:  desc("tare_idle_memory_return_seconds_total", "Time spent returning memory, collections included."),
	}
}

// looksASpell is the number of checks per quiet period: a period that starts between two checks is noticed
// late by a fraction of its length.
const looksASpell = 8

// Run watches for quiet periods until ctx is done.
func (r *Returner) Run(ctx context.Context) error {
	look := time.NewTicker(max(r.after/looksASpell, time.Millisecond))
	defer look.Stop()
	last, since, done := r.activity(), time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if now := r.activity(); now != last {
			last, since, done = now, time.Now(), false
			continue
		}
		if !done && time.Since(since) >= r.after {
			r.giveBack()
			done = true
		}
	}
}

// giveBack returns memory, and measures the cost and the result.
func (r *Returner) giveBack() {
	before, begin := r.released(), time.Now()
	r.free()
	took := time.Since(begin)
	bytes := max(r.released()-before, 0)
	r.returns.Add(1)
	r.returned.Add(uint64(bytes))
	r.nanos.Add(uint64(took))
	r.log.Debug("idle memory returned to the system", "bytes", bytes, "took", took)
}

// released returns the bytes of the heap's address space that were returned to the system.
func released() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Describe implements prometheus.Collector.
func (r *Returner) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *Returner) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	send(r.returnsDesc, float64(r.returns.Load()))
	send(r.returnedDesc, float64(r.returned.Load()))
	send(r.secondsDesc, time.Duration(r.nanos.Load()).Seconds())
}

var _ prometheus.Collector = (*Returner)(nil)
