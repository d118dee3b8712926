package storegateway

import "github.com/taredb/tare/internal/panics"

// A prefetch computes a result in a goroutine before it is needed. It must not be used concurrently. After the
// first start it allocates once per start.
type prefetch[T any] struct {
	results chan prefetchResult[T]
	running bool // a result was not taken yet
}

// A prefetchWork is the work that a prefetch runs.
type prefetchWork[T any] interface{ work() (T, error) }

type prefetchResult[T any] struct {
	value T
	err   error
}

// start runs the work in a goroutine. It must not be called while running.
func (a *prefetch[T]) start(w prefetchWork[T]) {
	if a.results == nil {
		a.results = make(chan prefetchResult[T], 1)
	}
	a.running = true
	go func() {
		var r prefetchResult[T]
		r.err = panics.Guard(func() (err error) {
			r.value, err = w.work()
			return err
		})
		a.results <- r
	}()
}

// take blocks until the result is ready and returns it.
func (a *prefetch[T]) take() (T, error) {
	a.running = false
	r := <-a.results
	return r.value, r.err
}
