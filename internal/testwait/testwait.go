package testwait

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Limit is the maximum duration of every wait. It is below go test's time-out for a package, which ends a run
// without a description.
const Limit = 2 * time.Minute

// pause is the interval between polls.
const pause = time.Millisecond

// A waiter is one wait; tests of this package shorten its limit.
type waiter struct {
	tb    testing.TB
	limit time.Duration
}

func in(tb testing.TB) waiter { return waiter{tb, Limit} }

// Until polls until done returns true.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	in(tb).until(what, func() (string, bool) { return "", done() })
}

// UntilState polls until done returns true, and prints the last state it returned on failure.
func UntilState(tb testing.TB, what string, done func() (state string, ok bool)) {
	tb.Helper()
	in(tb).until(what, done)
}

// Value polls get until ok accepts the value, and returns that value.
func Value[T any](tb testing.TB, what string, get func() T, ok func(T) bool) T {
	tb.Helper()
	var v T
	in(tb).until(what, func() (string, bool) {
		v = get()
		return fmt.Sprintf("%+v", v), ok(v)
	})
	return v
}

// Equal polls get until it returns want.
func Equal[T comparable](tb testing.TB, what string, want T, get func() T) {
	tb.Helper()
	Value(tb, what, get, func(v T) bool { return v == want })
}

func (w waiter) until(what string, done func() (string, bool)) {
	w.tb.Helper()
	for deadline := time.Now().Add(w.limit); ; {
		state, ok := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			w.fail(what, state)
			return
		}
		time.Sleep(pause) // polls: done
	}
}

// Receive returns the next value of a channel; the zero value if it is closed.
func Receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	return receive(in(tb), what, from)
}

func receive[T any](w waiter, what string, from <-chan T) T {
	w.tb.Helper()
	select { // avoids a timer if a value is ready
	case v := <-from:
		return v
	default:
	}
	limit := time.NewTimer(w.limit)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		w.fail(what, "")
		var zero T
		return zero
	}
}

// Group waits for a sync.WaitGroup.
func Group(tb testing.TB, what string, wg *sync.WaitGroup) {
	tb.Helper()
	in(tb).group(what, wg)
}

func (w waiter) group(what string, wg *sync.WaitGroup) {
	w.tb.Helper()
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	receive(w, what, done)
}

// fail stops the test. The stacks show the other side of the wait.
func (w waiter) fail(what, state string) {
	w.tb.Helper()
	if state != "" {
		state = "; last state: " + state
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	w.tb.Fatalf("waited %v for %s%s\n\n%s", w.limit, what, state, stacks)
}
