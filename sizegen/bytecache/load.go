package bytecache

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
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

	owner uint64 // the goroutine that runs it

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

// ErrRecursive is returned by a Load that would wait for itself: of a key whose fill function is running in the same
// goroutine, or in one that waits for it.
var ErrRecursive = errors.New("making a cached value: its creation requires the value itself")

// Load returns the value of k, and calls fill to create it if there is none. Concurrent calls for the same
// key wait for the result of one fill, value or error. The value is stored unless fill reports that it is not
// cacheable, there is an error, the cache refuses it as Set would, or the key was set, deleted or cleared
// meanwhile: a value created before such a change is returned to the callers that requested it before the
// change, and to no later ones.
//
// A fill that loads its own key, itself or through the fills of other keys, receives ErrRecursive.
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
			return c.wait(w)
		}
	}
	w := &call[K, V]{next: l.first.Load(), key: k, epoch: epoch, owner: goroutine()}
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
func (c *Cache[K, V]) wait(w *call[K, V]) (V, error) {
	me := goroutine()
	if !c.waits.enter(me, w.owner) {
		var zero V
		return zero, ErrRecursive
	}
	w.done.Wait()
	c.waits.leave(me)
	if w.panic != nil {
		panic(w.panic)
	}
	return w.value, w.err
}

// waits are the goroutines that wait for calls of others, and these others.
type waits struct {
	mu    sync.Mutex
	owner map[uint64]uint64 // by waiting goroutine
}

// enter records that a goroutine waits for another, and returns false if that one waits for it, directly or through others.
func (w *waits) enter(me, owner uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for next, ok := owner, true; ok; next, ok = w.owner[next] {
		if next == me {
			return false
		}
	}
	if w.owner == nil {
		w.owner = make(map[uint64]uint64)
	}
	w.owner[me] = owner
	return true
}

func (w *waits) leave(me uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.owner, me)
}

// goroutine returns the number of the current goroutine, which the runtime reveals in stacks only. It takes about a
// microsecond.
func goroutine() uint64 {
	var buf [40]byte // "goroutine 1234 [running]:…"
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + uint64(c-'0')
	}
	return n
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
