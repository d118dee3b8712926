package storegateway

import "github.com/taredb/tare/internal/panics"

// An ahead is a result that a goroutine computes before it is needed. One goroutine at a time uses it. After the first
// start it allocates once for each start.
type ahead[T any] struct {
	results chan aheadResult[T]
	running bool // its result was not taken
}

// An aheadWork is the work of an ahead.
type aheadWork[T any] interface{ work() (T, error) }

type aheadResult[T any] struct {
	value T
	err   error
}

// start starts the work. It is not called while running.
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

// take waits for the result.
func (a *ahead[T]) take() (T, error) {
	a.running = false
	r := <-a.results
	return r.value, r.err
}
