package promapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/prometheus/promql"

	"github.com/taredb/tare/internal/panics"
)

// ErrorType is the class of an error in an answer's errorType.
type ErrorType string

// The classes and the status each is answered with.
const (
	Timeout       ErrorType = "timeout"        // 503
	Canceled      ErrorType = "canceled"       // 499
	Execution     ErrorType = "execution"      // 422
	BadData       ErrorType = "bad_data"       // 400
	Internal      ErrorType = "internal"       // 500
	Unavailable   ErrorType = "unavailable"    // 503
	NotFound      ErrorType = "not_found"      // 404
	NotAcceptable ErrorType = "not_acceptable" // 406
)

// statusClientClosed is what nginx logs for a client that left before its answer.
const statusClientClosed = 499

// Status returns the HTTP status of a class.
func (t ErrorType) Status() int {
	switch t {
	case BadData:
		return http.StatusBadRequest
	case Execution:
		return http.StatusUnprocessableEntity
	case Canceled:
		return statusClientClosed
	case Timeout, Unavailable:
		return http.StatusServiceUnavailable
	case NotFound:
		return http.StatusNotFound
	case NotAcceptable:
		return http.StatusNotAcceptable
	}
	return http.StatusInternalServerError
}

// Error is an error with its class. A storage or an Admit hook may return one, also wrapped,
// to say how it is to be answered.
type Error struct {
	Type ErrorType
	Err  error

	// Status is the HTTP status where it is not the class' own; 0 otherwise.
	Status int
}

// Error returns the class and the text.
func (e *Error) Error() string { return string(e.Type) + ": " + e.Err.Error() }

// Unwrap returns the error without its class.
func (e *Error) Unwrap() error { return e.Err }

// text is what the client sees. The text of a panic is for the log.
func (e *Error) text() string {
	if panics.Of(e.Err) != nil {
		return panics.Internal
	}
	return e.Err.Error()
}

func (e *Error) status() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Type.Status()
}

// badParam is the error of a parameter that does not read.
func badParam(name string, err error) *Error {
	return &Error{Type: BadData, Err: &paramError{name, err}}
}

func badData(err error) *Error { return &Error{Type: BadData, Err: err} }

type paramError struct {
	name string
	err  error
}

func (e *paramError) Error() string { return `invalid parameter "` + e.name + `": ` + e.err.Error() }
func (e *paramError) Unwrap() error { return e.err }

// classify gives an error of engine, storage or hook its class.
func (a *API) classify(err error) *Error {
	if panics.Of(err) != nil {
		return &Error{Type: Internal, Err: err}
	}
	// The engine does not unwrap an error of its storage.
	cause := err
	if es, ok := errors.AsType[promql.ErrStorage](err); ok {
		cause = es.Err
	}
	if e, ok := errors.AsType[*Error](cause); ok {
		// The whole text is kept: it says what was being done.
		return &Error{Type: e.Type, Status: e.Status, Err: untyped(err, e)}
	}
	if a.o.Classify != nil {
		if t := a.o.Classify(cause); t != "" {
			return &Error{Type: t, Err: err}
		}
	}
	if _, ok := errors.AsType[promql.ErrQueryCanceled](err); ok {
		return &Error{Type: Canceled, Err: err}
	}
	if _, ok := errors.AsType[promql.ErrQueryTimeout](err); ok {
		return &Error{Type: Timeout, Err: err}
	}
	if _, ok := errors.AsType[promql.ErrStorage](err); ok {
		return &Error{Type: Internal, Err: err}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Type: Canceled, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Type: Timeout, Err: err}
	}
	return &Error{Type: Execution, Err: err}
}

// untyped returns err without the class in its text where e is all there is.
func untyped(err error, e *Error) error {
	if err.Error() == e.Error() {
		return e.Err
	}
	return err
}
