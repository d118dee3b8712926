package bytecache

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

const callLists = 64

// A callList holds the Loads under way whose hashes fall together.
type callList[K comparable, V any] struct {
	mu    sync.Mutex
	first atomic.Pointer[call[K, V]] // written under mu
}

// A call is one value being made, for all who ask for it meanwhile.
type call[K comparable, V any] struct {
	next  *call[K, V] // under the list's mu
	key   K
	epoch uint64      // of the cache when it began
	stale atomic.Bool // the key was set or deleted since

	done  sync.WaitGroup
	value V
	err   error
	panic *PanicError
}

// A PanicError is what those who waited for a Load panic with when the function that made the
// value panicked. The goroutine that ran the function panics with the original value.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("making a cached value: panic: %v\n\n%s", e.Value, e.Stack)
}

// ErrGoexit is what those who waited for a Load get when the function that made the value ended
// its goroutine by runtime.Goexit.
var ErrGoexit = errors.New("making a cached value: the goroutine exited")

// Load returns the value of k, and has fill make it when there is none. While one goroutine makes it,
// others that ask for the same key wait for its result, value or error. A value is
// kept unless fill says that it is not cacheable, there is an error, the cache refuses it as Set
// would, or the key was set, deleted or cleared meanwhile: what was made before such a change
// is returned to those who asked before, and to no one else.
//
// A hit costs what Get does.
func (c *Cache[K, V]) Load(k K, fill func() (v V, cacheable bool, err error)) (V, error) {
	hash := c.hashOf(k)
	if n := c.table.Load().find(hash, k); n != nil {
		c.hit(n)
		return n.value, nil
	}
	l := c.callList(hash)
	l.mu.Lock()
	epoch := c.epoch.Load()
	if n := c.table.Load().find(hash, k); n != nil { // made since the first look
		l.mu.Unlock()
		c.hit(n)
		return n.value, nil
	}
	c.stripe().misses.Add(1)
	for w := l.first.Load(); w != nil; w = w.next {
		if w.key == k && w.epoch == epoch && !w.stale.Load() {
			l.mu.Unlock()
			return w.wait()
		}
	}
	w := &call[K, V]{next: l.first.Load(), key: k, epoch: epoch}
	w.done.Add(1)
	l.first.Store(w)
	l.mu.Unlock()

	c.run(l, w, hash, fill)
	return w.value, w.err
}

// run makes the value of w, keeps it if it may, and lets the waiting go on in any case.
func (c *Cache[K, V]) run(l *callList[K, V], w *call[K, V], hash uint64, fill func() (V, bool, error)) {
	w.err = ErrGoexit // unless it returns
	returned := false
	defer func() {
		if !returned {
			if r := recover(); r != nil {
				w.panic = &PanicError{Value: r, Stack: debug.Stack()}
			}
		}
		l.remove(w)
		w.done.Done()
		if w.panic != nil {
			panic(w.panic.Value)
		}
	}()
	var cacheable bool
	w.value, cacheable, w.err = fill()
	switch {
	case w.err != nil:
	case !cacheable:
		c.stripe().uncacheable.Add(1)
	default:
		c.set(hash, w.key, w.value, w)
	}
	returned = true
}

// wait returns what another goroutine makes.
func (w *call[K, V]) wait() (V, error) {
	w.done.Wait()
	if w.panic != nil {
		panic(w.panic)
	}
	return w.value, w.err
}

func (c *Cache[K, V]) callList(hash uint64) *callList[K, V] {
	return &c.calls[hash>>57%callLists]
}

func (l *callList[K, V]) remove(w *call[K, V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first.Load() == w {
		l.first.Store(w.next)
		return
	}
	for p := l.first.Load(); p != nil; p = p.next {
		if p.next == w {
			p.next = w.next
			return
		}
	}
	panic("BUG: call under way is not in its list")
}

// outdate keeps what is being made for k from being stored.
func (c *Cache[K, V]) outdate(hash uint64, k K) {
	l := c.callList(hash)
	if l.first.Load() == nil {
		return
	}
	l.mu.Lock()
	for w := l.first.Load(); w != nil; w = w.next {
		if w.key == k {
			w.stale.Store(true)
		}
	}
	l.mu.Unlock()
}
