package governor

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// What Decide goes by.
const (
	raiseShare = 0.70                   // of the processors' time
	lowerShare = 0.45                   // of one processor fewer
	raiseWait  = 400 * time.Microsecond // median wait of runnable goroutines
	lowerWait  = 100 * time.Microsecond
	quiet      = 10 * time.Second // how long the load must be low

	busyTick = 100 * time.Millisecond
	idleTick = time.Second
	idleCPU  = 0.01 // processors in use below which the process is idle
)

// A Sample is what the process did in one period.
type Sample struct {
	Elapsed time.Duration
	CPU     time.Duration // user and system time
	Wait    time.Duration // median time between a goroutine's being runnable and running
}

// A State decides; it knows no clock and no process.
type State struct {
	Max   int           // processors of the machine
	Now   int           // processors in use, 1 to Max
	Quiet time.Duration // how long one fewer would have done
}

// Decide takes the next sample and answers how many processors to run on.
func (s *State) Decide(p Sample) int {
	used := float64(p.CPU) / float64(max(p.Elapsed, 1)) // processors
	switch {
	case s.Now < s.Max && (used > raiseShare*float64(s.Now) || p.Wait > raiseWait):
		s.Now, s.Quiet = s.Now+1, 0
	case s.Now > 1 && used < lowerShare*float64(s.Now-1) && p.Wait < lowerWait:
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
	at, cpu, err := usage()
	if err != nil {
		return err
	}
	waits := newWaits()
	timer := time.NewTimer(busyTick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		nextAt, nextCPU, err := usage()
		if err != nil {
			return err
		}
		p := Sample{Elapsed: nextAt.Sub(at), CPU: nextCPU - cpu, Wait: waits.median()}
		at, cpu = nextAt, nextCPU
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

// usage is the process's CPU time so far.
func usage() (at time.Time, cpu time.Duration, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return time.Time{}, 0, fmt.Errorf("read the process's CPU time: %w", err)
	}
	return time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
