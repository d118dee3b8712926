package tick

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/alloctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAsksOncePerTick counts the polls of a loop that checks far more often.
func TestAsksOncePerTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		th := NewThrottle(New(100*time.Millisecond), func() bool { asked++; return true })
		defer th.Close()
		for range 1000 { // one second
			for range 10 {
				if !th.OK() {
					t.Fatal("got no, want yes")
				}
			}
			time.Sleep(time.Millisecond)
		}
		if asked < 10 || asked > 11 {
			t.Errorf("asked %d times in 10 ticks", asked)
		}
	})
}

// TestNoIsNotKept makes the condition negative between two ticks, and positive again.
func TestNoIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := true
		th := NewThrottle(New(time.Second), func() bool { return allowed })
		defer th.Close()
		if !th.OK() {
			t.Error("first question: got no")
		}
		allowed = false
		if !th.OK() {
			t.Error("same tick: got no, want the yes that was given")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if th.OK() {
			t.Error("next tick: got yes, want no")
		}
		allowed = true
		if !th.OK() {
			t.Error("after a no each call asks: got no")
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		th := NewThrottle(New(time.Second), func() bool { return time.Since(start) >= 5*time.Second })
		defer th.Close()
		if err := th.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("waited %v, want 5s", got)
		}
		if err := th.Wait(t.Context()); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("second wait: %v after %v", err, time.Since(start))
		}
	})
}

func TestWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("client gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(gone) })
		th := NewThrottle(New(time.Second), func() bool { return false })
		defer th.Close()
		if err := th.Wait(ctx); !errors.Is(err, gone) {
			t.Errorf("got %v, want %v", err, gone)
		}
	})
}

// TestHolders holds the clock several times: it ticks from the first hold to the last release, and again
// later.
func TestHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Second)
		ticks := func(d time.Duration) bool {
			was := c.Now()
			time.Sleep(d)
			synctest.Wait()
			return c.Now() > was
		}
		if ticks(time.Minute) {
			t.Error("ticks without a holder")
		}
		for range 2 {
			a, b := c.Acquire(), c.Acquire()
			a()
			a() // the second call has no effect
			if !ticks(time.Second) {
				t.Error("does not tick with one holder left")
			}
			b()
			if ticks(time.Minute) {
				t.Error("ticks after the last release")
			}
		}
	})
}

func TestTicksGrow(t *testing.T) {
	c := New(time.Hour)
	last := c.Now()
	for range 100 {
		c.Acquire()()
		if c.Now() <= last {
			t.Fatalf("tick %d after %d", c.Now(), last)
		}
		last = c.Now()
	}
}

func TestSub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Second)
		defer c.Acquire()()
		was := c.Now()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := c.Now().Sub(was).Round(time.Second); got != 10*time.Second {
			t.Errorf("got %v, want 10s", got)
		}
	})
}

func TestAllocs(t *testing.T) {
	th := NewThrottle(Process(), func() bool { return true })
	defer th.Close()
	never := NewThrottle(Process(), func() bool { return false })
	defer never.Close()
	ctx := context.Background()
	alloctest.Run(t, []alloctest.Case{
		{Name: "OK, yes", Op: func() error {
			if !th.OK() {
				return errors.New("no")
			}
			return nil
		}},
		{Name: "OK, no", Op: func() error {
			if never.OK() {
				return errors.New("yes")
			}
			return nil
		}},
		{Name: "Wait, yes", Op: func() error { return th.Wait(ctx) }},
	})
}

func ExampleThrottle() {
	questions := 0
	t := NewThrottle(New(time.Hour), func() bool {
		questions++
		return true
	})
	defer t.Close()
	rows := 0
	for range 1_000_000 {
		if err := t.Wait(context.Background()); err != nil {
			break
		}
		rows++
	}
	fmt.Println(rows, "rows,", questions, "question")
	// Output: 1000000 rows, 1 question
}

func ExampleClock() {
	c := New(time.Hour)
	release := c.Acquire()
	first := c.Now()
	release()
	c.Acquire()() // Acquire writes a tick
	fmt.Println(c.Now() > first)
	// Output: true
}

func BenchmarkThrottle(b *testing.B) {
	th := NewThrottle(Process(), func() bool { return true })
	defer th.Close()
	b.Run("OK", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !th.OK() {
				b.Fatal("no")
			}
		}
	})
	b.Run("Wait", func(b *testing.B) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			if err := th.Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	// The comparison: the same check with a system clock read per row.
	b.Run("time.Since", func(b *testing.B) {
		last := time.Now()
		b.ReportAllocs()
		for b.Loop() {
			if time.Since(last) > time.Hour {
				b.Fatal("an hour has passed")
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			th := NewThrottle(Process(), func() bool { return true })
			defer th.Close()
			for pb.Next() {
				th.OK()
			}
		})
	})
}
