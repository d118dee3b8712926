// Package lowpriority runs long computations so that the scheduler of the operating system prefers the other threads of the
// process: those that relay statements.
package lowpriority

import (
	"runtime"

	"github.com/taredb/tare/internal/panics"
)

// Do calls f in another goroutine, on a thread of a lower priority than the process has, and returns when f has. A panic of f is
// one of the caller, as a *panics.Error. Goroutines that f starts have the usual priority. The thread ends with f: each call costs
// about as much as the start of a thread.
func Do(f func()) {
	done := make(chan error, 1)
	go func() {
		done <- panics.Guard(func() error {
			run(f)
			return nil
		})
	}()
	if err := <-done; err != nil {
		panic(err)
	}
}

// run calls f on the thread of a goroutine that ends afterwards.
func run(f func()) {
	runtime.LockOSThread() // and not unlocked, so that the thread ends too: it cannot raise its priority again
	if isMain() {          // it would not end
		defer runtime.UnlockOSThread()
		Do(f)
		return
	}
	lower()
	f()
}
