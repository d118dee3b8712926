package querylog

import (
	"context"
	"sync"
)

// A tidier compresses and removes rotated files in the background. Its goroutine starts over if another file
// was rotated meanwhile and exits when no work is left.
type tidier struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	cancel  context.CancelFunc // of the goroutine; nil if there is none; under mu
	again   bool               // under mu
	stopped bool               // under mu
}

// tidy starts the work on the rotated files of o.
func (t *tidier) tidy(o *file) {
	if o.rotation.Keep == 0 && o.rotation.Compression == Plain {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.cancel != nil {
		t.again = true
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.wg.Go(func() {
		for {
			if err := o.rotation.tidy(ctx, o.path); err != nil && ctx.Err() == nil {
				o.log.Error("rotated query logs are not tidied", "path", o.path, "err", err)
			}
			if !t.more() {
				return
			}
		}
	})
}

// more reports whether there is more work; if not, it records that the goroutine exits.
func (t *tidier) more() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.again && !t.stopped {
		t.again = false
		return true
	}
	t.cancel()
	t.cancel = nil
	return false
}

// stop stops the work. The next start completes it.
func (t *tidier) stop() {
	t.mu.Lock()
	t.stopped = true
	if t.cancel != nil {
		t.cancel()
	}
	t.mu.Unlock()
	t.wg.Wait()
}
