package gateway

import (
	"errors"
	"fmt"
	"io"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// relay forwards the response that s.resp has started to the client, from buffer to buffer, while s.resp
// tracks it.
func (s *session) relay() error {
	for {
		b := s.backend.Buffered()
		n, ev, err := s.resp.Scan(b)
		out := b[:n]
		if ev == mysqlwire.EventDone && s.failed != nil {
			out = s.withoutSignal(out)
		}
		if n > 0 {
			if _, werr := s.client.Write(out); werr != nil {
				return s.clientGone(werr)
			}
			s.rec.BytesOut += uint64(len(out))
			s.backend.Discard(n)
		}
		if err != nil {
			return s.backendBroken(err)
		}
		switch ev {
		case mysqlwire.EventDone:
			if s.resp.SeenStatus {
				s.modes.setStatus(s.resp.Status)
			}
			return nil
		case mysqlwire.EventInfile:
			if err := s.infile(); err != nil {
				return err
			}
			continue
		}
		if len(b) == s.backend.Size() { // a long response
			s.borrowBackend()
		}
		if err := s.fillBackend(); err != nil {
			return err
		}
	}
}

// fillBackend reads more of the response.
func (s *session) fillBackend() error {
	for {
		if s.halfClosed && !s.internal {
			s.passEnd(s.msg.size)
		}
		s.awaitBytes(backendSide)
		err := s.backend.Fill()
		switch {
		case err == nil:
			s.received()
			return nil
		case isTimeout(err):
			if err := s.interruptedRelay(); err != nil {
				return err
			}
		default:
			return s.backendGone(err)
		}
	}
}

// backendGone ends a session whose backend closed the connection within a command. The client's connection is
// closed without a packet, as the server would close it: after an error packet drivers and pools keep the
// connection for later statements. The reason is in the record and the log.
func (s *session) backendGone(err error) error {
	if s.ended {
		return fmt.Errorf("%w: while its statement was running", errClientDisconnected)
	}
	reason := err
	if errors.Is(err, io.EOF) {
		reason = errors.New("it closed the connection")
	}
	s.failed = &clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
		"Tare lost backend %s during %s: %v", s.to.Addr, s.msg.cmd, reason)}
	return fmt.Errorf("%w: %w", errBackendGone, s.failed)
}

// backendBroken ends a session whose backend violates the protocol, as backendGone does.
func (s *session) backendBroken(err error) error {
	s.failed = &clientError{errno: mysqlwire.ErrnoMalformedPacket, msg: fmt.Sprintf(
		"Tare got a malformed response from backend %s to %s: %v", s.to.Addr, s.msg.cmd, err)}
	return fmt.Errorf("%w: %w", errBackendGone, s.failed)
}

// endWith sends an error as the end of the response if the response is at a packet boundary; otherwise it can
// only close the connection.
func (s *session) endWith(e *clientError) {
	s.failed = e
	if s.resp.AtBoundary() {
		_ = s.sendError(s.resp.NextSeq(), e, true)
	}
}

// clientGone handles a failed write to the client. It stops the backend's statement.
func (s *session) clientGone(err error) error {
	if !s.resp.Done() {
		s.killStatement()
	}
	return fmt.Errorf("%w: write a response: %w", errClientDisconnected, err)
}

// killStatement stops the backend's statement for a disconnected client if there is an account for KILL;
// otherwise the backend stops when it notices that its connection is closed.
func (s *session) killStatement() {
	if s.srv.opts.Kill == nil {
		return
	}
	s.task.Block(func() {
		if err := s.srv.opts.Kill(s.to.Addr, s.connID); err != nil {
			s.srv.opts.Diag.Warn("kill of the statement of a disconnected client failed",
				"backend", s.to.Addr, "connection", s.connID, "error", err)
			return
		}
		s.counters.kills.Add(1)
	})
}

// infile relays a LOCAL INFILE: the client's packets through the empty one.
func (s *session) infile() error {
	s.keepViews()
	s.consume()
	if s.client.Size() < relayBuffer {
		s.borrowClient(relayBuffer)
	}
	seq, left, long := s.resp.NextSeq(), 0, false
	for {
		b := s.client.Buffered()
		n := 0
		for done := false; !done; {
			k := min(left, len(b)-n)
			n, left = n+k, left-k
			if left > 0 || len(b)-n < mysqlwire.HeaderLen {
				break
			}
			h := mysqlwire.ParseHeader(b[n:])
			if h.Seq != seq {
				return s.violation(seq, mysqlwire.ErrnoPacketsOutOfOrder, fmt.Sprintf(
					"Got packets out of order: sequence number %d within LOCAL INFILE, want %d", h.Seq, seq))
			}
			seq++
			n += mysqlwire.HeaderLen
			left = h.Len
			done = left == 0 && !long // an empty packet after a full one ends that message, not the file
			long = h.Len == mysqlwire.MaxPayload
			if done {
				s.resp.ResumeInfile(seq)
				return s.forwardClient(n)
			}
		}
		if err := s.forwardClient(n); err != nil {
			return err
		}
		if err := s.fillClient(); err != nil {
			return err
		}
	}
}

// forwardClient writes the first n buffered client bytes to the backend and consumes them.
func (s *session) forwardClient(n int) error {
	if n == 0 {
		return nil
	}
	_, err := s.backend.Write(s.client.Buffered()[:n])
	s.client.Discard(n)
	s.rec.BytesIn += uint64(n)
	if err != nil {
		return s.writeFailed(err)
	}
	return nil
}

// unsolicited relays packets that the server sends after a command that has no response by the protocol. TiDB
// sends an error after COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE of an unknown statement, which would
// otherwise be taken for the response to the next command. A COM_PING after the command marks where such
// packets end. Of consecutive commands without a response, only the last one is followed by a COM_PING.
func (s *session) unsolicited() error {
	if s.modes.mode.Server().Kind != sqldigest.ServerTiDB || s.nextHasNoResponse() {
		return nil
	}
	ping := [...]byte{1, 0, 0, 0, byte(mysqlwire.ComPing)}
	s.resp.Begin(mysqlwire.ComPing, s.caps, 1)
	if _, err := s.backend.Write(ping[:]); err != nil {
		return s.writeFailed(err)
	}
	for {
		b := s.backend.Buffered()
		n, ev, err := s.resp.Scan(b)
		if n > 0 {
			if s.resp.Errno != 0 {
				if _, err := s.client.Write(b[:n]); err != nil {
					return s.clientGone(err)
				}
			}
			s.backend.Discard(n)
		}
		switch {
		case err != nil:
			return s.backendBroken(err)
		case ev != mysqlwire.EventDone:
			if err := s.fillBackend(); err != nil {
				return err
			}
		case s.resp.Errno == 0:
			return nil
		default:
			s.resp.Begin(mysqlwire.ComPing, s.caps, 1)
		}
	}
}

// nextHasNoResponse reports whether the next buffered command has no response either.
func (s *session) nextHasNoResponse() bool {
	b := s.client.Buffered()[s.msg.size:]
	if len(b) <= mysqlwire.HeaderLen {
		return false
	}
	cmd := mysqlwire.Command(b[mysqlwire.HeaderLen])
	return cmd == mysqlwire.ComStmtSendLongData || cmd == mysqlwire.ComStmtClose
}
