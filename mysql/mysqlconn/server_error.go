package mysqlconn

import (
	"fmt"

	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A ServerError is an ERR packet in response to a login or a command.
type ServerError struct {
	Number  mysqlwire.Errno
	State   string // SQLSTATE; empty if the server sent it before its greeting
	Message string
	Version string // of the server; empty before its greeting
}

// Error returns the number, the SQLSTATE and the server's message in one line, without hidden characters: it may have
// been chosen by an impostor, and be printed on a terminal.
func (e *ServerError) Error() string {
	text := visible.Line(e.Message)
	if e.State == "" {
		return fmt.Sprintf("server error %d: %s", e.Number, text)
	}
	return fmt.Sprintf("server error %d (%s): %s", e.Number, visible.Line(e.State), text)
}

// SafeToRetry reports whether the server did nothing, so that a retry may succeed and cannot repeat an
// effect: it refused the connection, or gave up waiting for a lock. After a deadlock the whole transaction
// has to be repeated, after a lock wait timeout at least the statement.
func (e *ServerError) SafeToRetry() bool {
	switch e.Number {
	case mysqlwire.ErrnoTooManyConnections, mysqlwire.ErrnoTooManyUserConnections,
		mysqlwire.ErrnoLockWaitTimeout, mysqlwire.ErrnoDeadlock:
		return true
	}
	return false
}

// decodeServerError decodes an ERR packet as a ServerError, or returns a decoding error.
func decodeServerError(payload []byte, version string) error {
	var e mysqlwire.Err
	if err := e.Decode(payload); err != nil {
		return err
	}
	s := &ServerError{Number: e.Number, Message: string(e.Message), Version: version}
	if e.HasState {
		s.State = string(e.State[:])
	}
	return s
}
