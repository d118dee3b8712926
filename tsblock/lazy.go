package tsblock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/panics"
)

// A lazyFile is what a local file says, loaded on first use. Those who ask while it is being loaded
// share the load. It runs on its own: that the first of them gives up does not hurt the
// others, and it ends early only when all have.
type lazyFile[T any] struct {
	load func(context.Context) (*T, error)
	now  atomic.Pointer[T]

	mu     sync.Mutex
	flight *flight[T]
	latest <-chan struct{} // done of the flight that was begun last; nil before the first
}

// A flight is one load under way.
type flight[T any] struct {
	before  <-chan struct{} // closed when the load before has returned, which was cancelled; nil: there is none
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int // under the lazyFile's mu
	value   *T
	err     error
}

// get returns what is loaded. The loads channel bounds how many loads run. When it is loaded already,
// get does not allocate.
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

	select {
	case <-f.done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
		if l.flight == f {
			l.flight = nil // who comes now begins anew
		}
	}
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.err
	default:
		return nil, context.Cause(ctx)
	}
}

// run loads once and tells the waiters.
func (l *lazyFile[T]) run(ctx context.Context, f *flight[T], loads chan struct{}) {
	defer close(f.done)
	if f.before != nil {
		<-f.before // both would write the same local file, and each removes what the other has begun
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

// drop forgets what is loaded.
func (l *lazyFile[T]) drop() { l.now.Store(nil) }

// dropThis forgets what is loaded if it is still v, and reports whether it was.
func (l *lazyFile[T]) dropThis(v *T) bool { return l.now.CompareAndSwap(v, nil) }
