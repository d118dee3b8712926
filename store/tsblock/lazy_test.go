package tsblock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestCancelledLoad cancels a load that takes time to return: the next one waits for it, since both write the
// same file.
func TestCancelledLoad(t *testing.T) {
	var running, most, calls atomic.Int32
	release := make(chan struct{})
	l := lazyFile[int]{load: func(ctx context.Context) (*int, error) {
		defer running.Add(-1)
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		if calls.Add(1) == 1 {
			<-ctx.Done()
			<-release
			return nil, ctx.Err()
		}
		return new(int), nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := l.get(ctx, nil)
		failed <- err
	}()
	testwait.Until(t, "the first load", func() bool { return calls.Load() == 1 })
	cancel()
	if err := testwait.Receive(t, "the first to give up", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	loaded := make(chan error, 1)
	go func() {
		v, err := l.get(t.Context(), nil)
		if err == nil && v == nil {
			err = errors.New("nothing is loaded")
		}
		loaded <- err
	}()
	testwait.Until(t, "the second load to be begun", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.flight != nil
	})
	close(release)
	if err := testwait.Receive(t, "the second load", loaded); err != nil {
		t.Error(err)
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d loads ran at once", n)
	}
}

// TestTimedOutLoad has a load that ends as soon as its only caller, which times out, cancels it: the caller reports
// its own time-out.
func TestTimedOutLoad(t *testing.T) {
	var l lazyFile[int]
	loads := make(chan struct{}, 1)
	loads <- struct{}{} // the load waits until it is cancelled
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	flight := &flight[int]{done: make(chan struct{})}
	own, cancelLoad := context.WithCancel(t.Context())
	flight.cancel = func() {
		cancelLoad()
		testwait.Receive(t, "the load to end", flight.done)
	}
	l.flight, l.latest = flight, flight.done
	go l.run(own, flight, loads)
	if _, err := l.get(ctx, loads); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller that timed out: %v", err)
	}
}
