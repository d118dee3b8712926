package governor

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// What Decide goes by.
const (
	raiseShare   = 0.70                   // of the processors' time
	lowerShare   = 0.45                   // of one processor fewer
	raiseLatency = 500 * time.Microsecond // p99 of the time that runnable goroutines wait
	quiet        = 10 * time.Second       // how long the load must be low

	busyTick = 100 * time.Millisecond
	idleTick = time.Second
	idleCPU  = 0.01 // processors in use below which the process is idle
)

// A Sample is what the process did in one period.
type Sample struct {
	Elapsed time.Duration
	CPU     time.Duration // user and system time
	Latency time.Duration // p99 of the time between a goroutine's being runnable and running
}

// A State decides; it knows no clock and no process.
type State struct {
	Max   int // processors of the machine
	Now   int // processors in use, 1 to Max
	Quiet time.Duration
}

// Decide takes the next sample and answers how many processors to run on.
func (s *State) Decide(p Sample) int {
	used := float64(p.CPU) / float64(max(p.Elapsed, 1)) // processors
	switch {
	case s.Now < s.Max && (used > raiseShare*float64(s.Now) || p.Latency > raiseLatency && used > raiseShare/2*float64(s.Now)):
		s.Now, s.Quiet = s.Now+1, 0
	case s.Now > 1 && used < lowerShare*float64(s.Now-1) && p.Latency <= raiseLatency:
		if s.Quiet += p.Elapsed; s.Quiet >= quiet {
			s.Now, s.Quiet = s.Now-1, 0
		}
	default:
		s.Quiet = 0
	}
	return s.Now
}

// Run governs until ctx ends. It starts with one processor, and at its end sets what it
// found.
func Run(ctx context.Context) error {
	before := runtime.GOMAXPROCS(0)
	s := State{Max: before, Now: 1}
	runtime.GOMAXPROCS(s.Now)
	defer runtime.GOMAXPROCS(before)
	g := newGauge()
	last, err := g.read()
	if err != nil {
		return err
	}
	timer := time.NewTimer(busyTick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next, err := g.read()
		if err != nil {
			return err
		}
		p := next.since(last)
		last = next
		if was := s.Now; s.Decide(p) != was {
			runtime.GOMAXPROCS(s.Now)
		}
		wait := busyTick
		if float64(p.CPU) < idleCPU*float64(p.Elapsed) {
			wait = idleTick
		}
		timer.Reset(wait)
	}
}

// A gauge reads the process's counters.
type gauge struct {
	samples []metrics.Sample
	before  []uint64 // the histogram at the last reading
	delta   []uint64
}

type reading struct {
	at      time.Time
	cpu     time.Duration
	latency time.Duration
}

func (r reading) since(before reading) Sample {
	return Sample{Elapsed: r.at.Sub(before.at), CPU: r.cpu - before.cpu, Latency: r.latency}
}

func newGauge() *gauge {
	return &gauge{samples: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
}

func (g *gauge) read() (reading, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return reading{}, fmt.Errorf("read the process's CPU time: %w", err)
	}
	r := reading{at: time.Now(), cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	metrics.Read(g.samples)
	h := g.samples[0].Value.Float64Histogram()
	if g.before == nil {
		g.before, g.delta = make([]uint64, len(h.Counts)), make([]uint64, len(h.Counts))
	}
	for i, n := range h.Counts {
		g.delta[i], g.before[i] = n-g.before[i], n
	}
	r.latency = quantile(g.delta, h.Buckets, 0.99)
	return r, nil
}

// quantile is the upper bound of the bucket that the quantile falls into.
func quantile(counts []uint64, bounds []float64, q float64) time.Duration {
	var total, seen uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, n := range counts {
		if seen += n; seen >= rank {
			upper := bounds[i+1]
			if math.IsInf(upper, 1) {
				upper = bounds[i]
			}
			return time.Duration(upper * float64(time.Second))
		}
	}
	panic("BUG: a quantile past all counts")
}
