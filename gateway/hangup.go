package gateway

import (
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// overdue reports whether the client has sent nothing for the idle timeout.
func (x *relayer) overdue() bool {
	return time.Since(x.srv.started)-time.Duration(x.idleSince.Load()) > x.srv.opts.IdleTimeout
}

// endIdle sends an idle client the reason why its session ends.
func (x *relayer) endIdle(seq uint8, what string) error {
	_ = x.sendError(seq, &clientError{errno: x.idleErrno(), msg: fmt.Sprintf(
		"The client was disconnected by Tare because of inactivity: %s for %v (option idle-timeout)", what, x.srv.opts.IdleTimeout)}, true)
	return fmt.Errorf("%w: %s for %v", errIdle, what, x.srv.opts.IdleTimeout)
}

// idleErrno returns the error number that clients of the backend's product expect for an idle time-out.
func (x *relayer) idleErrno() mysqlwire.Errno {
	if x.modes.maria {
		return mysqlwire.ErrnoNetReadInterrupted
	}
	return mysqlwire.ErrnoClientIdle
}

// interruptedBusy handles a wake-up of the wait for the rest of a command.
func (x *relayer) interruptedBusy() error {
	switch causes := x.occurred(); {
	case causes&causeBackendGone != 0:
		x.relayRemaining()
		return fmt.Errorf("%w: while the client was sending a command", errBackendIdle)
	case causes&causeKilled != 0:
		_ = x.sendError(1, x.killedError(), true)
		return errKilled
	case causes&causeDrainLimit != 0:
		return x.notifyShutdown("a command did not arrive within the drain timeout (option drain-timeout)")
	case causes&causeIdle != 0 && x.overdue():
		return x.endIdle(1, "the rest of a command did not arrive")
	case causes&causeMove != 0 && x.phase.Load() != phaseBusy: // no part of the command was forwarded
		return errPauseBegun
	}
	x.acknowledge(causeIdle)
	return x.clearDeadlines(causeDrain | causeMove)
}

// interruptedRelay handles a wake-up of the wait for the backend's response.
func (x *relayer) interruptedRelay() error {
	switch causes := x.occurred(); {
	case causes&causeClientGone != 0:
		return x.clientHungUp()
	case causes&causeKilled != 0:
		x.killStatement()
		x.endWith(x.killedError())
		return errKilled
	case causes&causeDrainLimit != 0:
		x.killStatement()
		x.endWith(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: fmt.Sprintf(
			"Tare is shutting down: the statement did not finish within %v (option drain-timeout)", x.srv.opts.DrainTimeout)})
		return errDrained
	}
	return x.clearDeadlines(causeDrain | causeIdle | causeMove)
}

// clientHungUp handles a client that hangs up while its statement runs. If the connection is closed, the session ends. A
// client that has closed its sending side may read on, and the server executes what it sent before: so does the gateway. The
// two differ only when bytes are sent to a closed connection, by a response or by TCP's keepalive, after which clientHungUp
// is called again.
func (x *relayer) clientHungUp() error {
	if x.endsHalf() {
		x.killStatement()
		return fmt.Errorf("%w: while its statement was running", errClientDisconnected)
	}
	return x.clearDeadlines(causeDrain | causeIdle | causeMove)
}

// notifyShutdown notifies an idle client that Tare shuts down.
func (x *relayer) notifyShutdown(why string) error {
	_ = x.sendError(0, &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: " + why}, true)
	return errDrained
}
