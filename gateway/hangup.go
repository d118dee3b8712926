package gateway

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Causes for waking a session's waiting read. Other goroutines set the bits; the session reads them when a
// read ends by its deadline.
const (
	causeClientGone  uint32 = 1 << iota // the client hung up
	causeBackendGone                    // the backend hung up
	causeIdle                           // no command within the idle timeout
	causeDrain                          // Tare shuts down: end between commands outside transactions
	causeDrainLimit                     // Tare shuts down: end now
	causeMove                           // sessions move to the other side
	causeKilled                         // an operator killed the session

	causeEnd = causeDrainLimit | causeKilled // end now
)

// side identifies one of the two connections of a session.
type side uint8

const (
	clientSide side = iota
	backendSide
)

// past is a deadline that wakes a waiting read.
var past = time.Unix(1, 0) //nolint:gochecknoglobals // a constant that the language cannot express

// hungUp handles a peer that closed its connection. The session's loop calls it. The session may be waiting
// for the other side; hungUp wakes it.
func (s *session) hungUp(c *netloop.Conn) {
	if c == s.client.Socket() {
		s.interrupt(causeClientGone)
	} else {
		s.interrupt(causeBackendGone)
	}
}

// interrupt sets the cause and wakes the read that it concerns.
func (s *session) interrupt(cause uint32) {
	s.causes.Or(cause)
	s.wake(cause)
	if poke := s.poke.Load(); poke != nil {
		select {
		case *poke <- struct{}{}:
		default: // another wake-up is pending
		}
	}
}

func (s *session) wake(cause uint32) {
	if cause&(causeBackendGone|causeIdle|causeDrain|causeMove|causeEnd) != 0 {
		_ = s.client.SetReadDeadline(past)
	}
	if b := s.peer.Load(); b != nil && cause&(causeClientGone|causeEnd) != 0 {
		_ = b.SetReadDeadline(past)
		_ = b.SetWriteDeadline(time.Now().Add(lastWrite))
	}
	switch {
	case cause&causeEnd != 0:
		_ = s.client.SetWriteDeadline(time.Now().Add(lastWrite))
	case cause&causeBackendGone != 0: // bytes it sent before may still be in flight
		_ = s.client.SetWriteDeadline(time.Now().Add(slowReader))
	}
}

// Time limits of writes to a peer that is no longer waited for: to one that is about to be disconnected, and
// to a client that reads the rest of a long result slowly (MySQL's net_write_timeout).
const (
	lastWrite  = time.Second
	slowReader = time.Minute
)

// setDeadlines bounds reads and writes on both sides, and wakes them again for pending causes that are not in
// handled, so that a concurrent interruption is not lost.
func (s *session) setDeadlines(t time.Time, handled uint32) error {
	err := s.client.SetDeadline(t)
	if s.backend != nil {
		err = errors.Join(err, s.backend.SetDeadline(t))
	}
	s.wake(s.causes.Load() &^ handled)
	return err
}

// clearDeadlines removes the deadlines.
func (s *session) clearDeadlines(handled uint32) error {
	return s.setDeadlines(time.Time{}, handled)
}

// interruptedIdle handles a wake-up of the wait for a command. It returns nil if the session continues.
func (s *session) interruptedIdle() error {
	causes := s.causes.Load()
	switch {
	case causes&causeBackendGone != 0:
		s.relayRemaining()
		return fmt.Errorf("%w: between commands", errBackendIdle)
	case causes&causeKilled != 0:
		_ = s.sendError(0, s.killedError(), true)
		return errKilled
	case causes&causeDrainLimit != 0:
		return s.notifyShutdown("a transaction was still open after --drain-timeout")
	case causes&causeDrain != 0:
		if s.modes.status.Has(mysqlwire.StatusInTrans) {
			return s.clearDeadlines(causeDrain | causeMove)
		}
		return s.notifyShutdown("Tare is shutting down")
	case causes&causeMove != 0:
		return s.joinPause()
	case causes&causeIdle != 0:
		if !s.overdue() {
			break
		}
		if s.modes.status.Has(mysqlwire.StatusInTrans) {
			return s.endIdle(0, "no command within an open transaction")
		}
		return s.endIdle(0, "no command")
	}
	s.causes.And(^causeIdle)
	return s.clearDeadlines(causeClientGone)
}

// overdue reports whether the client has sent nothing for the idle timeout.
func (s *session) overdue() bool {
	return time.Since(s.srv.started)-time.Duration(s.idleSince.Load()) > s.srv.opts.IdleTimeout
}

// endIdle sends an idle client the reason why its session ends.
func (s *session) endIdle(seq uint8, what string) error {
	_ = s.sendError(seq, &clientError{errno: s.idleErrno(), msg: fmt.Sprintf(
		"The client was disconnected by Tare because of inactivity: %s for %v (--idle-timeout)", what, s.srv.opts.IdleTimeout)}, true)
	return fmt.Errorf("%w: %s for %v", errIdle, what, s.srv.opts.IdleTimeout)
}

// idleErrno returns the error number that clients of the backend's product expect for an idle time-out.
func (s *session) idleErrno() mysqlwire.Errno {
	if s.modes.maria {
		return mysqlwire.ErrnoNetReadInterrupted
	}
	return mysqlwire.ErrnoClientIdle
}

// interruptedBusy handles a wake-up of the wait for the rest of a command.
func (s *session) interruptedBusy() error {
	switch causes := s.causes.Load(); {
	case causes&causeBackendGone != 0:
		s.relayRemaining()
		return fmt.Errorf("%w: while the client was sending a command", errBackendIdle)
	case causes&causeKilled != 0:
		_ = s.sendError(1, s.killedError(), true)
		return errKilled
	case causes&causeDrainLimit != 0:
		return s.notifyShutdown("a command did not arrive within --drain-timeout")
	case causes&causeIdle != 0 && s.overdue():
		return s.endIdle(1, "the rest of a command did not arrive")
	case causes&causeMove != 0 && s.phase.Load() != phaseBusy: // no part of the command was forwarded
		return s.joinPause()
	}
	s.causes.And(^causeIdle)
	return s.clearDeadlines(causeDrain | causeMove)
}

// interruptedRelay handles a wake-up of the wait for the backend's response.
func (s *session) interruptedRelay() error {
	switch causes := s.causes.Load(); {
	case causes&causeClientGone != 0:
		return s.clientHungUp()
	case causes&causeKilled != 0:
		s.killStatement()
		s.endWith(s.killedError())
		return errKilled
	case causes&causeDrainLimit != 0:
		s.killStatement()
		s.endWith(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: fmt.Sprintf(
			"Tare is shutting down: the statement did not finish within %v (--drain-timeout)", s.srv.opts.DrainTimeout)})
		return errDrained
	}
	return s.clearDeadlines(causeDrain | causeIdle | causeMove)
}

// clientHungUp handles a client that hangs up while its statement runs. If the connection is closed, the session ends. A
// client that has closed its sending side may read on, and the server executes what it sent before: so does the gateway. The
// two differ only when bytes are sent to a closed connection, by a response or by TCP's keepalive, after which clientHungUp
// is called again.
func (s *session) clientHungUp() error {
	s.causes.And(^causeClientGone)
	if onLoop(s.client).Closed() {
		s.killStatement()
		return fmt.Errorf("%w: while its statement was running", errClientDisconnected)
	}
	s.halfClosed = true
	return s.clearDeadlines(causeDrain | causeIdle | causeMove)
}

// passEnd closes the sending side of the backend connection if the client has closed its own and all of its commands were
// forwarded: a server that waits, as for a lock of GET_LOCK, checks it.
func (s *session) passEnd() {
	for s.client.Room() > 0 { // the client's last bytes have arrived
		err := s.client.Fill()
		if isTimeout(err) {
			return
		}
		if err != nil {
			break
		}
	}
	if s.client.Room() == 0 || len(s.client.Buffered()) > s.msg.size {
		return // more commands follow
	}
	s.halfClosed = false
	s.endBackend()
}

// endBackend closes the sending side of the backend connection as the client has closed its own. With TLS a notice comes
// before the end if the client sent one: MySQL responds to it, and MariaDB takes it for bytes of a client that is there.
func (s *session) endBackend() {
	if s.ended {
		return
	}
	s.ended = true
	if conn, ok := s.backend.NetConn().(*tls.Conn); ok && s.notifiedEnd() {
		_ = conn.CloseWrite()
	}
	_ = onLoop(s.backend).CloseWrite()
}

// relayEnd closes the sending side of the backend connection after the client has closed its own, and relays the server's
// last bytes: MySQL sends an error.
func (s *session) relayEnd() {
	if s.task == nil || onLoop(s.client).Closed() {
		return
	}
	s.endBackend()
	s.relayRemaining()
}

// notifyShutdown notifies an idle client that Tare shuts down.
func (s *session) notifyShutdown(why string) error {
	_ = s.sendError(0, &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: " + why}, true)
	return errDrained
}

// relayRemaining relays the bytes that the backend sent before it hung up, such as the error naming the reason.
func (s *session) relayRemaining() {
	_ = s.backend.SetReadDeadline(time.Now().Add(time.Second))
	_ = s.client.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		if b := s.backend.Buffered(); len(b) > 0 {
			if _, err := s.client.Write(b); err != nil {
				return
			}
			s.backend.Discard(len(b))
		}
		if s.backend.Fill() != nil {
			return
		}
	}
}

// buffered returns a reader of c's buffered bytes followed by its connection.
func buffered(c *mysqlconn.Conn) io.Reader {
	b := bytes.Clone(c.Buffered())
	c.Discard(len(b))
	return io.MultiReader(bytes.NewReader(b), c.NetConn())
}
