package promapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/prometheus/promql"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/panics/report"
)

// An ErrorType is the class of an error, sent as errorType.
type ErrorType string

// Error types, and their HTTP status.
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

// statusClientClosed is the status that nginx logs for a client that disconnected before its response.
const statusClientClosed = 499

// status returns the HTTP status of an error type.
func (t ErrorType) status() int {
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

// An Error is an error with its type. A storage or an Admit hook may return one, also wrapped, to determine
// the response.
type Error struct {
	Type ErrorType
	Err  error

	// Status is the HTTP status if it differs from the type's; 0 otherwise.
	Status int
}

// Error returns the type and the text.
func (e *Error) Error() string { return string(e.Type) + ": " + e.Err.Error() }

// Unwrap returns the error without its type.
func (e *Error) Unwrap() error { return e.Err }

// text returns the text that is sent to the client. It omits the text of a panic, which is only logged.
func (e *Error) text() string {
	if panics.Of(e.Err) != nil {
		return report.Internal
	}
	return e.Err.Error()
}

func (e *Error) status() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Type.status()
}

// badParam returns the error of an invalid parameter.
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

// classify returns an error of the engine, the storage or a hook with its type.
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
		// Keep the whole text, which names the operation.
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

// untyped returns err without the type in its text if err has no text beyond e.
func untyped(err error, e *Error) error {
	if err.Error() == e.Error() {
		return e.Err
	}
	return err
}
