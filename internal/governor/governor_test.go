package governor

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// load is one 100 ms period with the given share of all CPU time, in processors.
func load(processors float64, latency time.Duration) Sample {
	return Sample{Elapsed: busyTick, CPU: time.Duration(processors * float64(busyTick)), Latency: latency}
}

func TestDecide(t *testing.T) {
	s := State{Max: 4, Now: 1}
	step := func(p Sample, want int) {
		t.Helper()
		if got := s.Decide(p); got != want {
			t.Fatalf("Decide(%+v) = %d, want %d", p, got, want)
		}
	}
	step(load(0.5, 0), 1)
	step(load(0.8, 0), 2)                // past 70 % of one
	step(load(1.2, 0), 2)                // 60 % of two
	step(load(1.2, time.Millisecond), 3) // goroutines wait
	step(load(0.1, time.Millisecond), 3) // waiting without load is no reason to add
	for range int(quiet/busyTick) - 1 {
		step(load(0.2, 0), 3)
	}
	step(load(0.2, 0), 2) // after 10 s of little load
	step(load(0.2, 0), 2) // and not at once again
	for range 10 {
		s.Decide(load(8, 0))
	}
	step(load(8, 0), 4) // never past the machine's
}

func TestQuantile(t *testing.T) {
	bounds := []float64{0, 1e-6, 1e-3, 1}
	if got := quantile([]uint64{99, 1, 0}, bounds, 0.99); got != time.Microsecond {
		t.Errorf("p99 of 99 short and 1 long = %v, want 1µs", got)
	}
	if got := quantile([]uint64{98, 2, 0}, bounds, 0.99); got != time.Millisecond {
		t.Errorf("p99 of 98 short and 2 long = %v, want 1ms", got)
	}
	if got := quantile([]uint64{0, 0, 0}, bounds, 0.99); got != 0 {
		t.Errorf("p99 of nothing = %v, want 0", got)
	}
}

func TestRunRestores(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx) }()
	for runtime.GOMAXPROCS(0) != 1 && before > 1 {
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS after Run = %d, want %d as before", got, before)
	}
}
