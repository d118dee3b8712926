package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A relayer passes a client's commands to the backend, and relays their responses. It does not read what they say, apart from
// the end of each response and the status in it.
type relayer struct {
	*query // the current command: fields that every statement uses; nil while the session waits for one on its loop
	link
	modes modes

	srv      *Server
	to       *target              // the server of backend
	counters *stripe              // of the loop
	caps     mysqlwire.Capability // with the client, and so with the backend
	connID   uint32               // the backend's id of the connection
	internal bool                 // the backend executes an internal query
	pooled   bool                 // the session shares connections with others
	lease    lease                // of a shared one
	errBuf   []byte

	// Fields that other goroutines read.
	phase     atomic.Uint32
	commands  atomic.Uint32 // received
	reading   atomic.Bool   // waits for the rest of a command
	idleSince atomic.Int64  // when the session started to wait for a command, in nanoseconds since the server's start
}

// Phases of a session.
const (
	phaseLogin uint32 = iota
	phaseIdle
	phaseBusy
	phaseOpen   // waits for a command that continues a unit of work: see transaction.continues
	phasePaused // waits for the gate to open
	phasePipe   // relays a stream uninspected
)

// open starts the relayer of a client that has connected.
func (x *relayer) open(srv *Server, nc net.Conn) {
	x.srv, x.query, x.counters = srv, newQuery(srv), srv.metrics.stripe()
	x.modes = modes{planner: srv.opts.Planner}
	x.link.open(nc, srv.buffers)
}

// join makes the session a task, with the memory and the counters of its loop.
func (x *relayer) join(t *netloop.Task) {
	x.link.join(t, x.srv.readers)
	if loop, ok := t.Loop(); ok {
		x.counters = &x.srv.metrics.stripes[loop]
	}
}

// aim records the server to connect to.
func (x *relayer) aim(to *target) { x.to = to }

// connected records the server's id of the connection, and its version.
func (x *relayer) connected(id uint32, version string) {
	x.connID = id
	x.modes.setServer(version)
}

// agree records the capabilities that the client and the gateway have in common.
func (x *relayer) agree(caps mysqlwire.Capability) { x.caps = caps }

// idle marks the session as waiting for a command, which continues a unit of work if one is open.
func (x *relayer) idle(open bool) {
	if x.srv.opts.IdleTimeout > 0 {
		x.idleSince.Store(int64(time.Since(x.srv.started)))
	}
	phase := phaseIdle
	if open {
		phase = phaseOpen
	}
	x.phase.Store(phase)
}

// busy marks the session as executing a command that has arrived.
func (x *relayer) busy() {
	x.commands.Add(1)
	x.phase.Store(phaseBusy)
}

// enter marks the session as being in a phase.
func (x *relayer) enter(phase uint32) { x.phase.Store(phase) }

// relay forwards the response that resp has started to the client, from buffer to buffer, while resp
// tracks it.
func (x *relayer) relay() error {
	if x.pooled {
		x.resp.Track = true
		x.lead()
	}
	for {
		b := x.backend.Buffered()
		n, ev, err := x.resp.Scan(b)
		out := b[:n]
		if ev == mysqlwire.EventChanged {
			if out, err = x.ownChanges(out); err != nil {
				return x.backendBroken(err)
			}
		}
		if ev == mysqlwire.EventDone && x.failed != nil {
			out = x.withoutSignal(out)
		}
		if n > 0 {
			if _, werr := x.client.Write(out); werr != nil {
				return x.clientGone(werr)
			}
			x.rec.BytesOut += uint64(len(out))
			x.backend.Discard(n)
		}
		if err != nil {
			return x.backendBroken(err)
		}
		switch ev {
		case mysqlwire.EventChanged:
			continue
		case mysqlwire.EventDone:
			if x.resp.SeenStatus {
				x.modes.setStatus(x.resp.Status)
			}
			return nil
		case mysqlwire.EventInfile:
			if err := x.infile(); err != nil {
				return err
			}
			continue
		}
		if len(b) == x.backend.Size() { // a long response
			x.borrowBackend()
		}
		if err := x.fillBackend(); err != nil {
			return err
		}
	}
}

// fillBackend reads more of the response.
func (x *relayer) fillBackend() error {
	if x.internal && x.pooled && !x.lease.executes {
		return x.fillInternal()
	}
	for {
		if x.halfClosed && !x.internal {
			x.passEnd(x.msg.size)
		}
		x.awaitBytes(backendSide)
		err := x.backend.Fill()
		switch {
		case err == nil:
			x.received()
			return nil
		case isTimeout(err):
			if err := x.interruptedRelay(); err != nil {
				return err
			}
		default:
			return x.backendGone(err)
		}
	}
}

// backendGone ends a session whose backend closed the connection within a command. The client's connection is
// closed without a packet, as the server would close it: after an error packet drivers and pools keep the
// connection for later statements. The reason is in the record and the log.
func (x *relayer) backendGone(err error) error {
	if x.ended {
		return fmt.Errorf("%w: while its statement was running", errClientDisconnected)
	}
	reason := err
	if errors.Is(err, io.EOF) {
		reason = errors.New("it closed the connection")
	}
	e := &clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
		"Tare lost backend %s during %s: %v", x.to.Addr, x.msg.cmd, reason)}
	x.fail(e)
	return fmt.Errorf("%w: %w", errBackendGone, e)
}

// backendBroken ends a session whose backend violates the protocol, as backendGone does.
func (x *relayer) backendBroken(err error) error {
	e := &clientError{errno: mysqlwire.ErrnoMalformedPacket, msg: fmt.Sprintf(
		"Tare got a malformed response from backend %s to %s: %v", x.to.Addr, x.msg.cmd, err)}
	x.fail(e)
	return fmt.Errorf("%w: %w", errBackendGone, e)
}

// endWith sends an error as the end of the response if the response is at a packet boundary; otherwise it can
// only close the connection.
func (x *relayer) endWith(e *clientError) {
	x.fail(e)
	if x.resp.AtBoundary() {
		_ = x.sendError(x.resp.NextSeq(), e, true)
	}
}

// clientGone handles a failed write to the client. It stops the backend's statement.
func (x *relayer) clientGone(err error) error {
	if !x.resp.Done() {
		x.killStatement()
	}
	return fmt.Errorf("%w: write a response: %w", errClientDisconnected, err)
}

// killStatement stops the backend's statement for a disconnected client if there is an account for KILL;
// otherwise the backend stops when it notices that its connection is closed.
func (x *relayer) killStatement() {
	if x.srv.opts.Kill == nil {
		return
	}
	x.task.Block(func() {
		if err := x.srv.opts.Kill(x.to.Addr, x.backendID()); err != nil {
			x.srv.opts.Diag.Warn("kill of the statement of a disconnected client failed",
				"backend", x.to.Addr, "connection", x.backendID(), "error", err)
			return
		}
		x.counters.kills.Add(1)
	})
}

// infile relays a LOCAL INFILE: the client's packets through the empty one.
func (x *relayer) infile() error {
	x.keepViews()
	x.consume()
	if x.client.Size() < relayBuffer {
		x.borrowClient(relayBuffer)
	}
	seq, left, long := x.resp.NextSeq(), 0, false
	for {
		b := x.client.Buffered()
		n := 0
		for done := false; !done; {
			k := min(left, len(b)-n)
			n, left = n+k, left-k
			if left > 0 || len(b)-n < mysqlwire.HeaderLen {
				break
			}
			h := mysqlwire.ParseHeader(b[n:])
			if h.Seq != seq {
				return x.violation(seq, mysqlwire.ErrnoPacketsOutOfOrder, fmt.Sprintf(
					"Got packets out of order: sequence number %d within LOCAL INFILE, want %d", h.Seq, seq))
			}
			seq++
			n += mysqlwire.HeaderLen
			left = h.Len
			done = left == 0 && !long // an empty packet after a full one ends that message, not the file
			long = h.Len == mysqlwire.MaxPayload
			if done {
				x.resp.ResumeInfile(seq)
				return x.forwardClient(n)
			}
		}
		if err := x.forwardClient(n); err != nil {
			return err
		}
		if err := x.fillClient(); err != nil {
			return err
		}
	}
}

// forwardClient writes the first n buffered client bytes to the backend and consumes them.
func (x *relayer) forwardClient(n int) error {
	if n == 0 {
		return nil
	}
	_, err := x.backend.Write(x.client.Buffered()[:n])
	x.client.Discard(n)
	x.rec.BytesIn += uint64(n)
	if err != nil {
		return x.writeFailed(err)
	}
	return nil
}

// ping is a COM_PING.
var ping = [...]byte{1, 0, 0, 0, byte(mysqlwire.ComPing)}

// unsolicited relays packets that the server sends after a command that has no response by the protocol. TiDB
// sends an error after COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE of an unknown statement, which would
// otherwise be taken for the response to the next command. A COM_PING after the command marks where such
// packets end. Of consecutive commands without a response, only the last one is followed by a COM_PING.
func (x *relayer) unsolicited() error {
	if x.modes.mode.Server().Kind != sqldigest.ServerTiDB || x.nextHasNoResponse() {
		return nil
	}
	x.resp.Begin(mysqlwire.ComPing, x.caps, 1)
	if _, err := x.backend.Write(ping[:]); err != nil {
		return x.writeFailed(err)
	}
	for {
		b := x.backend.Buffered()
		n, ev, err := x.resp.Scan(b)
		if n > 0 {
			if x.resp.Errno != 0 {
				if _, err := x.client.Write(b[:n]); err != nil {
					return x.clientGone(err)
				}
			}
			x.backend.Discard(n)
		}
		switch {
		case err != nil:
			return x.backendBroken(err)
		case ev != mysqlwire.EventDone:
			if err := x.fillBackend(); err != nil {
				return err
			}
		case x.resp.Errno == 0:
			return nil
		default:
			x.resp.Begin(mysqlwire.ComPing, x.caps, 1)
		}
	}
}

// nextHasNoResponse reports whether the next buffered command has no response either.
func (x *relayer) nextHasNoResponse() bool {
	b := x.client.Buffered()[x.msg.size:]
	if len(b) <= mysqlwire.HeaderLen {
		return false
	}
	cmd := mysqlwire.Command(b[mysqlwire.HeaderLen])
	return cmd == mysqlwire.ComStmtSendLongData || cmd == mysqlwire.ComStmtClose
}

// exchange forwards a command and relays its response.
func (x *relayer) exchange() error {
	if err := x.forward(nil); err != nil {
		return err
	}
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	x.resp.Cursor, x.resp.Prepared = x.msg.cursor, x.msg.columns
	return x.relay()
}

// exchangeAs is exchange for a command whose payload was changed.
func (x *relayer) exchangeAs(payload []byte) error {
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	x.backend.Seq = 0
	if err := x.backend.WriteMessage(payload); err != nil {
		return x.writeFailed(err)
	}
	return x.relay()
}

// skipResponse reads the response to a command, whose first packet has sequence number seq, and discards it. It
// returns the number of the response's error.
func (x *relayer) skipResponse(cmd mysqlwire.Command, seq uint8) (errno uint16, err error) {
	var r mysqlwire.Response
	for r.Begin(cmd, x.caps, seq); ; {
		n, ev, err := r.Scan(x.backend.Buffered())
		x.backend.Discard(n)
		switch {
		case err != nil:
			return 0, x.backendBroken(err)
		case ev == mysqlwire.EventDone:
			return r.Errno, nil
		}
		if err := x.fillBackend(); err != nil {
			return 0, err
		}
	}
}

// renumber replaces the server's number in the response to a PREPARE, which is read next, by one of p.
func (x *relayer) renumber(p *prepared) error {
	const idAt = mysqlwire.HeaderLen + 1
	for {
		b := x.backend.Buffered()
		if len(b) > mysqlwire.HeaderLen && b[mysqlwire.HeaderLen] != mysqlwire.MarkOK {
			return nil
		}
		if len(b) >= idAt+4 {
			binary.LittleEndian.PutUint32(b[idAt:], p.number(binary.LittleEndian.Uint32(b[idAt:])))
			return nil
		}
		if err := x.fillBackend(); err != nil {
			return err
		}
	}
}

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
