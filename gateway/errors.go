package gateway

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Errors that end sessions.
var (
	errClientDisconnected = errors.New("the client disconnected")
	errQuit               = errors.New("the client quit")
	errBackendGone        = errors.New("the backend closed the connection during a command")
	errBackendIdle        = errors.New("the backend closed the connection")
	errDrained            = errors.New("Tare is shutting down") //nolint:staticcheck // a name
	errKilled             = errors.New("an operator killed the session")
	errIdle               = errors.New("the client was idle")
	errRefused            = errors.New("a long statement was refused")
	errProtocol           = errors.New("the client broke the protocol")
	errDenied             = errors.New("the backend refused the login")
	errPauseBegun         = errors.New("a pause has begun") // of fillClient, for awaitCommand: the session does not end
	errNotMoved           = errors.New("the session could not go to the other server")
)

// A clientError is an error that is sent to the client in an ERR packet.
type clientError struct {
	errno mysqlwire.Errno
	msg   string
	state string // SQLSTATE of a server's error; "": that of errno

	detail error // for the log only; nil if msg is complete
	lost   bool  // the backend was lost during a login
}

func (e *clientError) Error() string {
	s := fmt.Sprintf("%d (%s): %s", e.errno, e.sqlState(), e.msg)
	if e.detail != nil {
		s += " (" + e.detail.Error() + ")"
	}
	return s
}

// ofServer returns an error that a server has sent to the gateway.
func ofServer(e *mysqlwire.Err) *clientError {
	c := &clientError{errno: e.Number, msg: string(e.Message), state: e.Number.State()}
	if e.HasState {
		c.state = string(e.State[:])
	}
	return c
}

func (e *clientError) sqlState() string {
	if e.state != "" {
		return e.state
	}
	return e.errno.State()
}

var errClone = &clientError{errno: mysqlwire.ErrnoUnknownCommand, msg: "Tare does not relay COM_CLONE: name the server itself in CLONE INSTANCE FROM"}

// maxErrorText is the maximum length of the message in an ERR packet, in bytes; MySQL's clients truncate
// longer ones.
const maxErrorText = 512

// sendError writes an ERR packet to the client. Before the greeting, ERR packets have no SQLSTATE.
func (x *relayer) sendError(seq uint8, e *clientError, withState bool) error {
	p := mysqlwire.NewErr(e.errno, []byte(e.msg[:min(len(e.msg), maxErrorText)]))
	p.HasState = withState
	copy(p.State[:], e.sqlState())
	x.errBuf = mysqlwire.OpenPacket(x.errBuf[:0])
	x.errBuf = mysqlwire.ClosePacket(p.AppendTo(x.errBuf), 0, seq)
	n, err := x.client.Write(x.errBuf)
	x.rec.BytesOut += uint64(n)
	if err != nil {
		return fmt.Errorf("%w: write an error: %w", errClientDisconnected, err)
	}
	return nil
}

// violation sends an error to a client that broke the protocol and ends its session.
func (x *relayer) violation(seq uint8, errno mysqlwire.Errno, msg string) error {
	e := &clientError{errno: errno, msg: msg}
	_ = x.sendError(seq, e, true)
	x.drainClient()
	return fmt.Errorf("%w: %w", errProtocol, e)
}
