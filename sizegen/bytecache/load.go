package bytecache

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

const callLists = 64

// A callList is the Loads in progress whose hashes share a bucket.
type callList[K comparable, V any] struct {
	mu    sync.Mutex
	first atomic.Pointer[call[K, V]] // written under mu
}

// A call is the creation of one value, for all concurrent requesters.
type call[K comparable, V any] struct {
	next  *call[K, V] // under the list's mu
	key   K
	epoch uint64      // of the cache at its start
	stale atomic.Bool // the key was set or deleted since

	done  sync.WaitGroup
	value V
	err   error
	panic *PanicError
}

// A PanicError is the panic value in goroutines that wait for a Load whose function panicked. The goroutine
// that ran the function panics with the original value.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("making a cached value: panic: %v\n\n%s", e.Value, e.Stack)
}

// ErrGoexit is returned to goroutines that wait for a Load whose function exited its goroutine by
// runtime.Goexit.
var ErrGoexit = errors.New("making a cached value: the goroutine exited")

// Load returns the value of k, and calls fill to create it if there is none. Concurrent calls for the same
// key wait for the result of one fill, value or error. The value is stored unless fill reports that it is not
// cacheable, there is an error, the cache refuses it as Set would, or the key was set, deleted or cleared
// meanwhile: a value created before such a change is returned to the callers that requested it before the
// change, and to no later ones.
//
// A hit has the cost of Get.
func (c *Cache[K, V]) Load(k K, fill func() (v V, cacheable bool, err error)) (V, error) {
	hash := c.hashOf(k)
	if n := c.table.Load().find(hash, k); n != nil {
		c.hit(n)
		return n.value, nil
	}
	l := c.callList(hash)
	l.mu.Lock()
	epoch := c.epoch.Load()
	if n := c.table.Load().find(hash, k); n != nil { // created since the first lookup
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

// run creates the value of w, stores it if permitted, and wakes the waiting callers in any case.
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

// wait returns the result of another goroutine's call.
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

// outdate prevents values in creation for k from being stored.
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
