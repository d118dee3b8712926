package storegateway

import "github.com/taredb/tare/internal/panics"

// An ahead computes a result in a goroutine before it is needed. It must not be used concurrently. After the
// first start it allocates once per start.
type ahead[T any] struct {
	results chan aheadResult[T]
	running bool // a result was not taken yet
}

// An aheadWork is the work that an ahead runs.
type aheadWork[T any] interface{ work() (T, error) }

type aheadResult[T any] struct {
	value T
	err   error
}

// start runs the work in a goroutine. It must not be called while running.
func (a *ahead[T]) start(w aheadWork[T]) {
	if a.results == nil {
		a.results = make(chan aheadResult[T], 1)
	}
	a.running = true
	go func() {
		var r aheadResult[T]
		r.err = panics.Guard(func() (err error) {
			r.value, err = w.work()
			return err
		})
		a.results <- r
	}()
}

// take blocks until the result is ready and returns it.
func (a *ahead[T]) take() (T, error) {
	a.running = false
	r := <-a.results
	return r.value, r.err
}
