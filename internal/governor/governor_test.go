package governor

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// load is one 100 ms period with the given CPU time, in processors.
func load(processors float64) Sample {
	return Sample{Elapsed: busyTick, CPU: time.Duration(processors * float64(busyTick))}
}

func TestDecide(t *testing.T) {
	s := State{Max: 4, Now: 1}
	step := func(p Sample, want int) {
		t.Helper()
		if got := s.Decide(p); got != want {
			t.Fatalf("Decide(%+v) = %d, want %d", p, got, want)
		}
	}
	step(load(0.5), 1)
	step(load(0.8), 2) // past 70 % of one
	step(load(1.2), 2) // 60 % of two
	step(load(1.5), 3)
	for range int(quiet/busyTick) - 1 {
		step(load(0.2), 3)
	}
	step(load(1.5), 3) // the quiet spell was broken
	for range int(quiet/busyTick) - 1 {
		step(load(0.2), 3)
	}
	step(load(0.2), 2) // after 10 s of little load
	queue := load(0.4)
	queue.Wait = time.Millisecond
	step(queue, 3) // little load, but goroutines queue
	queue.Wait = 200 * time.Microsecond
	for range 2 * int(quiet/busyTick) {
		step(queue, 3) // and they still would
	}
	for range int(quiet/busyTick) - 1 {
		step(load(0.2), 3)
	}
	step(load(0.2), 2)
	step(load(0.2), 2) // and not at once again
	for range 10 {
		s.Decide(load(8))
	}
	step(load(8), 4) // never past the machine's
}

func TestMedian(t *testing.T) {
	bounds := []float64{0, 1e-6, 1e-3, 1}
	for _, c := range []struct {
		counts []uint64
		want   time.Duration
	}{
		{[]uint64{50, 50, 0}, time.Microsecond},
		{[]uint64{49, 51, 0}, time.Millisecond},
		{[]uint64{0, 0, 3}, time.Second},
		{[]uint64{0, 0, 0}, 0},
	} {
		if got := median(c.counts, bounds); got != c.want {
			t.Errorf("median of %v = %v, want %v", c.counts, got, c.want)
		}
	}
}

func TestRunRestores(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx) }()
	testwait.Equal(t, "GOMAXPROCS of an idle process", 1, func() int { return runtime.GOMAXPROCS(0) })
	cancel()
	if err := testwait.Receive(t, "Run to return", done); err != nil {
		t.Fatal(err)
	}
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS after Run = %d, want %d as before", got, before)
	}
}
