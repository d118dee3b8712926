package tsblock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/panics"
)

// A lazyFile is the content of a local file, loaded on first use. Concurrent callers share one load, which is
// cancelled only when all of them have given up.
type lazyFile[T any] struct {
	load func(context.Context) (*T, error)
	now  atomic.Pointer[T]

	mu     sync.Mutex
	flight *flight[T]
	latest <-chan struct{} // done channel of the last flight; nil before the first
}

// A flight is a load in progress.
type flight[T any] struct {
	before  <-chan struct{} // closed when the previous, cancelled load has returned; nil: there is none
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int // guarded by the lazyFile's mu
	value   *T
	err     error
}

// get returns the loaded value, and loads it if needed. The channel loads bounds concurrent loads. get does
// not allocate if the value is loaded.
func (l *lazyFile[T]) get(ctx context.Context, loads chan struct{}) (*T, error) {
	if v := l.now.Load(); v != nil {
		return v, nil
	}
	l.mu.Lock()
	if v := l.now.Load(); v != nil {
		l.mu.Unlock()
		return v, nil
	}
	f := l.flight
	if f == nil {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight[T]{before: l.latest, done: make(chan struct{}), cancel: cancel}
		l.flight, l.latest = f, f.done
		go l.run(own, f, loads)
	}
	f.waiters++
	l.mu.Unlock()

	var err error
	select {
	case <-f.done:
	case <-ctx.Done():
		err = context.Cause(ctx) // the load's error may be that of the cancellation below
	}
	l.mu.Lock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
		if l.flight == f {
			l.flight = nil // the next caller starts a new load
		}
	}
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.value, f.err
}

// run loads once and notifies the waiters.
func (l *lazyFile[T]) run(ctx context.Context, f *flight[T], loads chan struct{}) {
	defer close(f.done)
	if f.before != nil {
		<-f.before // both would write the same local file, and each removes files that the other has started
	}
	if loads != nil {
		select {
		case loads <- struct{}{}:
			defer func() { <-loads }()
		case <-ctx.Done():
			f.err = context.Cause(ctx)
			return
		}
	}
	f.err = panics.Guard(func() (err error) {
		f.value, err = l.load(ctx)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight == f {
		l.flight = nil
		if f.err == nil {
			l.now.Store(f.value)
		}
	}
}

// drop removes the loaded value.
func (l *lazyFile[T]) drop() { l.now.Store(nil) }

// dropThis removes the loaded value if it is v, and reports whether it was.
func (l *lazyFile[T]) dropThis(v *T) bool { return l.now.CompareAndSwap(v, nil) }
