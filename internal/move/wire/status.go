package wire

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A requestError means that a request is invalid, or cannot be served now.
type requestError struct {
	code codes.Code
	error
}

func (e *requestError) Unwrap() error { return e.error }

func refuse(code codes.Code, format string, args ...any) error {
	return &requestError{code, fmt.Errorf(format, args...)}
}

// statusOf returns an error as gRPC sends it: its text, its code, and the error of the source's server with
// its number.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err // of gRPC itself
	}
	var refused *requestError
	var server *mysqlconn.ServerError
	var stop *binlog.StopError
	switch {
	case errors.As(err, &refused):
		return status.Error(refused.code, err.Error())
	case errors.As(err, &stop):
		m := &rowpb.StopError{Reason: uint32(stop.Reason), At: stop.At.String(), Table: stop.Table, What: stop.What, Try: stop.Try, Sql: stop.SQL, Digest: stop.Digest, Change: uint32(stop.Change)}
		if stop.Err != nil {
			m.Cause = stop.Err.Error()
		}
		return detailed(codes.FailedPrecondition, err, m)
	case errors.As(err, &server):
		return detailed(codes.Unknown, err, &rowpb.ServerError{Number: uint32(server.Number), State: server.State, Message: server.Message})
	case errors.Is(err, rowstream.ErrNoTable):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, rowstream.ErrAltered):
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unknown, err.Error())
}

// detailed returns the status of an error, with a detail message.
func detailed(code codes.Code, err error, more protoadapt.MessageV1) error {
	s := status.New(code, err.Error())
	if with, e := s.WithDetails(more); e == nil {
		s = with
	}
	return s.Err()
}

// A remoteError is an error of the other side, with its type there.
type remoteError struct {
	addr  string
	text  string
	cause error // nil if its type is not transferred
}

func (e *remoteError) Error() string { return e.addr + ": " + e.text }

func (e *remoteError) Unwrap() error { return e.cause }

// errorOf returns the error of a status from the service at addr.
func errorOf(ctx context.Context, addr string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	s := status.Convert(err)
	e := &remoteError{addr: addr, text: s.Message()}
	for _, d := range s.Details() {
		switch m := d.(type) {
		case *rowpb.ServerError:
			e.cause = &mysqlconn.ServerError{Number: mysqlwire.Errno(m.GetNumber()), State: m.GetState(), Message: m.GetMessage()}
			return e
		case *rowpb.StopError:
			e.cause = stopOf(m)
			return e
		}
	}
	switch s.Code() {
	case codes.NotFound:
		e.cause = rowstream.ErrNoTable
	case codes.Aborted:
		e.cause = rowstream.ErrAltered
	case codes.Unauthenticated:
		e.text = "the server wants another token: " + e.text
	case codes.Unimplemented:
		e.text = "the reader is too old for this: update the tare rowstream there (" + e.text + ")"
	case codes.Unavailable, codes.ResourceExhausted:
		e.text = s.Code().String() + ": " + e.text
	}
	return e
}

// stopOf returns the StopError of a message.
func stopOf(m *rowpb.StopError) *binlog.StopError {
	e := &binlog.StopError{
		Reason: binlog.StopReason(m.GetReason()), Table: m.GetTable(), What: m.GetWhat(), Try: m.GetTry(), SQL: m.GetSql(), Digest: m.GetDigest(), Change: schemaChangeKindOf(m.GetChange()),
	}
	if p, err := binlog.ParsePosition(m.GetAt()); err == nil {
		e.At = p
	}
	if m.GetReason() > math.MaxUint8 || !e.Reason.Known() {
		e.Reason = binlog.StopUnknown
	}
	if m.GetCause() != "" {
		e.Err = errors.New(m.GetCause())
	}
	return e
}
