package lowpriority

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/testwait"
)

// nice returns the niceness of the current thread. The system call returns 20 less it.
func nice(t *testing.T) int {
	t.Helper()
	n, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	return 20 - n
}

// TestDo runs functions on threads of a low priority, beside others: no other goroutine has such a thread, during the calls and afterwards.
func TestDo(t *testing.T) {
	usual := nice(t)
	var calls sync.WaitGroup
	in, end := make(chan struct{}), make(chan struct{})
	const concurrent = 20
	for range concurrent {
		calls.Go(func() {
			Do(func() {
				if n := nice(t); n != niceness {
					t.Errorf("the thread has the niceness %d", n)
				}
				if unix.Gettid() == unix.Getpid() {
					t.Error("it is the main thread")
				}
				in <- struct{}{}
				<-end
				if n := nice(t); n != niceness {
					t.Errorf("the thread of the same call has the niceness %d", n)
				}
			})
		})
	}
	for range concurrent {
		testwait.Receive(t, "a call", in)
	}
	others := func() {
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				for range 10 {
					if n := nice(t); n != usual {
						t.Errorf("another goroutine has the niceness %d", n)
					}
					runtime.Gosched()
				}
			})
		}
		all.Wait()
	}
	others()
	close(end)
	testwait.Group(t, "the calls", &calls)
	others()
}

// TestPanic has a function panic: the panic is the caller's.
func TestPanic(t *testing.T) {
	cause := errors.New("out of range")
	defer func() {
		e, ok := recover().(*panics.Error)
		if !ok || !errors.Is(e, cause) || !strings.Contains(string(e.Stack), "TestPanic") {
			t.Errorf("recovered %v", e)
		}
	}()
	Do(func() { panic(cause) })
	t.Error("Do has returned")
}
