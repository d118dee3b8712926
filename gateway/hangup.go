package gateway

import (
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// interruptedIdle handles a wake-up of the wait for a command. It returns nil if the session continues.
func (s *session) interruptedIdle() error {
	causes := s.occurred()
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
	s.acknowledge(causeIdle)
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
	switch causes := s.occurred(); {
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
	s.acknowledge(causeIdle)
	return s.clearDeadlines(causeDrain | causeMove)
}

// interruptedRelay handles a wake-up of the wait for the backend's response.
func (s *session) interruptedRelay() error {
	switch causes := s.occurred(); {
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
	if s.endsHalf() {
		s.killStatement()
		return fmt.Errorf("%w: while its statement was running", errClientDisconnected)
	}
	return s.clearDeadlines(causeDrain | causeIdle | causeMove)
}

// notifyShutdown notifies an idle client that Tare shuts down.
func (s *session) notifyShutdown(why string) error {
	_ = s.sendError(0, &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: " + why}, true)
	return errDrained
}
