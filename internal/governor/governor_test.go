package governor

import (
	"context"
	"runtime"
	"testing"
	"time"
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
	step(load(0.2), 2) // and not at once again
	for range 10 {
		s.Decide(load(8))
	}
	step(load(8), 4) // never past the machine's
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
