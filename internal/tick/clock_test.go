package tick

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClock starts clocks with intervals that are possible or not, whose first ticks are the least.
func TestClock(t *testing.T) {
	for interval, works := range map[time.Duration]bool{-1: false, 0: false, 1: true, time.Hour: true} {
		func() {
			defer func() {
				if (recover() == nil) != works {
					t.Errorf("%v: it works: %t", interval, !works)
				}
			}()
			if now := New(interval).Now(); now != 1 {
				t.Errorf("%v: the first tick is %d", interval, now)
			}
		}()
	}
	synctest.Test(t, func(t *testing.T) { // where no time passes
		c := New(time.Second)
		for want := Tick(2); want < 9; want++ {
			if c.Acquire()(); c.Now() != want {
				t.Errorf("tick %d, want %d", c.Now(), want)
			}
		}
		time.Sleep(5 * time.Second)
		defer c.Acquire()()
		was := c.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := c.Now().Sub(was); was != Tick(5*time.Second) || got != 2*time.Second {
			t.Errorf("after tick %d: %v", was, got)
		}
	})
}

// TestReleased releases clocks: their goroutines have exited then.
func TestReleased(t *testing.T) {
	c := New(time.Hour)
	for range 100 {
		one, two := c.Acquire(), c.Acquire()
		ended := c.ended
		one()
		select {
		case <-ended:
			t.Fatal("the clock stops with one holder left")
		default:
		}
		two()
		select {
		case <-ended:
		default:
			t.Fatal("the clock's goroutine runs after its last release")
		}
	}
}
