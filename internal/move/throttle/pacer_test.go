package throttle

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/tick"
)

// pacerAt returns a pacer with a fixed rate and no limits.
func pacerAt(t *testing.T, share float64) *Pacer {
	t.Helper()
	p := NewPacer(PacerOptions{})
	if err := p.SetLimits(LimitChange{Share: &share}); err != nil {
		t.Fatal(err)
	}
	return p
}

// batchesMoved lets workers copy for a minute, and returns the number of batches. A batch is read in a fifth
// of a millisecond and written in two, slightly longer for each worker. A chunk of several batches is one
// statement unless there is a pause within it. If the workers serialize, a statement keeps a lock until its
// end, as LOAD DATA does on AUTO_INCREMENT.
func batchesMoved(t *testing.T, share float64, workers, chunk int, serialise bool) (n int) {
	const minute = time.Minute
	synctest.Test(t, func(t *testing.T) {
		p := pacerAt(t, share)
		end := time.Now().Add(minute)
		lock := make(chan struct{}, 1)
		moved := make([]int, workers)
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				w := p.Join()
				within := false // within a statement
				settle := func() {
					if within && serialise {
						<-lock
					}
					within = false
				}
				for time.Now().Before(end) {
					if err := w.Begin(t.Context()); err != nil {
						t.Error(err)
					}
					for range chunk {
						if !time.Now().Before(end) {
							break
						}
						time.Sleep(200 * time.Microsecond)
						if !within && serialise {
							lock <- struct{}{}
						}
						within = true
						time.Sleep(2*time.Millisecond + time.Duration(i)*50*time.Microsecond)
						moved[i]++
						if w.Due() {
							settle()
							if err := w.Wait(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
					settle()
					w.End()
				}
			})
		}
		all.Wait()
		for i := range moved {
			n += moved[i]
		}
		for i := range moved {
			if moved[i] < n/workers/2-chunk { // turns are by chunks
				t.Errorf("worker %d did %d batches of %d", i, moved[i], n)
			}
		}
	})
	return n
}

// TestPacerKeepsTheShare checks that workers reach the rate times their full speed if they delay each other,
// and do not exceed it if they do not.
func TestPacerKeepsTheShare(t *testing.T) {
	for _, tt := range []struct {
		workers, chunk int
		serialise      bool
	}{{1, 8, false}, {4, 8, false}, {4, 128, false}, {4, 8, true}, {4, 128, true}, {16, 8, true}} {
		full := batchesMoved(t, 1, tt.workers, tt.chunk, tt.serialise)
		for _, share := range []float64{1.0 / 64, 0.125, 0.3, 0.5, 0.69, 0.9} {
			got := float64(batchesMoved(t, share, tt.workers, tt.chunk, tt.serialise)) / float64(full)
			t.Logf("%+v at %.3g: %.3g", tt, share, got)
			least := 0.85 * share
			if !tt.serialise { // workers that do not wait for others could do more than the admitted ones
				least *= math.Ceil(share*float64(tt.workers)) / float64(tt.workers)
			}
			if got < least || got > 1.15*share {
				t.Errorf("%+v: at a share of %.3g they did %.3g of their work", tt, share, got)
			}
		}
	}
}

// TestPacerChanges changes the rate while workers run: no worker runs while the rate is 0, and work done at
// full speed is not charged later. A worker within a long statement delays the others only for a short time.
func TestPacerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacerAt(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var moved atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				w := p.Join()
				defer w.End()
				for err := w.Begin(ctx); err == nil; {
					time.Sleep(time.Millisecond)
					moved.Add(1)
					if w.Due() {
						err = w.Wait(ctx)
					}
				}
			})
		}
		after := func(share float64, d time.Duration, least, most int64) {
			t.Helper()
			if err := p.SetLimits(LimitChange{Share: &share}); err != nil {
				t.Fatal(err)
			}
			before := moved.Load()
			time.Sleep(d)
			if n := moved.Load() - before; n < least || n > most {
				t.Errorf("at %v: %d batches in %v, want %d to %d", share, n, d, least, most)
			}
		}
		after(1, time.Minute, 239_000, 240_004)
		after(0.5, time.Second, 1800, 2100)
		after(0, time.Hour, 0, 4)
		after(0.01, time.Minute, 2000, 2450)
		after(1, time.Second, 3900, 4004)

		stray := p.Join()
		if err := stray.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		after(0.5, time.Minute, 800, 120_000)
		stray.End()
		after(0.5, time.Second, 1700, 2100)
		after(0, time.Second, 0, 4)
		cancel()
		all.Wait()
		if p.gate.working != 0 {
			t.Errorf("%d are within after all have ended", p.gate.working)
		}
	})
}

// TestAllocs measures the checks of each row and each batch.
func TestAllocs(t *testing.T) {
	full, half := pacerAt(t, 1).Join(), pacerAt(t, 0.5).Join()
	if err := half.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	th := tick.NewThrottle(tick.Process(), half.MayRun)
	defer th.Close()
	alloctest.Run(t, []alloctest.Case{
		{Name: "due at full speed", Op: func() error {
			if full.Due() {
				return errors.New("a pause is due")
			}
			return nil
		}},
		{Name: "due at half speed", Op: func() error {
			half.p.gate.since = time.Now().Add(time.Hour) // even if the goroutine is not scheduled for long
			if half.Due() {
				return errors.New("a pause is due at once")
			}
			return nil
		}},
		{Name: "the throttle of a row", Op: func() error {
			if !th.OK() {
				return errors.New("no")
			}
			return nil
		}},
	})
}

// TestPacerReducesWorkersFirst has rates of limits and of the operator for four workers: limits reduce the workers that work at a time, and the
// time of the last one; an operator reduces the time.
func TestPacerReducesWorkersFirst(t *testing.T) {
	for _, tt := range []struct {
		rate, most float64
		workers    int
		duty       float64
	}{
		{1, 1, 4, 1},
		{0.75, 1, 3, 1},
		{0.5, 1, 2, 1},
		{0.375, 1, 2, 0.75},
		{0.25, 1, 1, 1},
		{0.125, 1, 1, 0.5},
		{minRate, 1, 1, 4 * minRate},
		{1, 0.5, 2, 0.5},
		{0.5, 0.6, 2, 0.6},
		{1, 0, 1, 0},
	} {
		p := NewPacer(PacerOptions{})
		for range 4 {
			p.Join()
		}
		p.core.limits, p.core.looked, p.core.rate, p.core.maxRate = []Limit{{Kind: LimitP99, Bound: 20}}, true, tt.rate, tt.most
		p.mu.Lock()
		p.allow()
		workers := p.maxInStep()
		p.mu.Unlock()
		if got := p.allowed(); math.Abs(got-tt.duty) > 1e-9 || workers != tt.workers {
			t.Errorf("rate %v, at most %v: %d workers for %v of the time, want %d for %v", tt.rate, tt.most, workers, got, tt.workers, tt.duty)
		}
	}
}
