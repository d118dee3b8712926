package panics

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// An Error is a recovered panic.
type Error struct {
	Value any
	Stack []byte // of the goroutine that panicked; nil: the recovering library logged it

	reported atomic.Bool
}

// Error returns the text of the panic's value, for logs: it may contain internal details.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// ToReport returns true at the first call: a panic is reported once, no matter how many layers see it.
func (e *Error) ToReport() bool { return !e.reported.Swap(true) }

// Unwrap returns the panic's value if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recovered returns the panic whose value recover has returned. It must be called by the deferred function
// itself, because it records the stack.
func Recovered(v any) *Error {
	if e, ok := v.(*Error); ok {
		return e
	}
	return &Error{Value: v, Stack: debug.Stack()}
}

// Guard calls f and returns its error, or its panic as an *Error. It is for goroutines, in which an
// unrecovered panic ends the process.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(v)
		}
	}()
	return f()
}

// bug is the prefix of Tare's panics.
const bug = "BUG: "

// Of returns the panic in the chain of an error, nil if there is none. Libraries that recover panics
// themselves, such as the PromQL engine, return a runtime.Error or the bare text.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[runtime.Error](err); ok || strings.HasPrefix(err.Error(), bug) {
		return &Error{Value: err}
	}
	return nil
}
