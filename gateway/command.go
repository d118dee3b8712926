package gateway

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A message is the current command, as far as it is in the client's buffer.
type message struct {
	cmd   mysqlwire.Command
	whole bool      // the whole message is buffered
	size  int       // bytes in the client's buffer that belong to it, headers included
	body  []byte    // buffered payload of its first packet, the command byte first
	seq   uint8     // sequence number of its last packet
	start time.Time // when it was buffered whole or, if it is longer than the buffer, when its first part was
	bytes uint64    // received from the client, headers included; 0 if the message is not buffered whole

	cursor  mysqlwire.CursorUse // of an execution
	columns uint16              // of the executed statement, as the client knows it; 0: not compared
}

// awaitCommand waits for the next command and reads it, up to the statement memory. forward passes on the
// rest of longer commands in pieces.
func (s *session) awaitCommand() error {
	if len(s.client.Buffered()) < mysqlwire.HeaderLen {
		s.weigh()
		s.query.weigh(s.srv)
		s.idle(s.transaction.continues(s.modes.status))
		if s.occurred()&causeDrain != 0 { // a transaction that kept the session has ended
			if err := s.interruptedIdle(); err != nil {
				return err
			}
		}
		if err := s.waitClient(mysqlwire.HeaderLen); err != nil {
			return err
		}
	}
	h := mysqlwire.ParseHeader(s.client.Buffered())
	s.msg = message{}
	if h.Seq != 0 {
		return s.violation(0, mysqlwire.ErrnoPacketsOutOfOrder, fmt.Sprintf(
			"Got packets out of order: a command starts with sequence number 0, not %d", h.Seq))
	}
	s.msg.whole = h.Len < mysqlwire.MaxPayload && h.Len <= s.srv.opts.StatementMemory
	room := relayBuffer
	if s.msg.whole {
		room = mysqlwire.HeaderLen + h.Len
	}
	for err := s.bufferCommand(room); err != nil; err = s.bufferCommand(room) {
		if !errors.Is(err, errPauseBegun) {
			return err
		}
		if err := s.joinPause(); err != nil {
			return err
		}
	}
	s.msg.start = time.Now()
	s.msg.cmd = mysqlwire.ComSleep // servers take a command of no bytes for it
	if h.Len > 0 {
		s.msg.cmd = mysqlwire.Command(s.msg.body[0])
	}
	if s.msg.whole {
		s.msg.bytes = uint64(s.msg.size) // for longer commands, counted while they are forwarded
	}
	return nil
}

// waitClient waits for n bytes between commands. Hang-ups, time-outs and the server's shutdown end the
// session here.
func (s *session) waitClient(n int) error {
	for len(s.client.Buffered()) < n {
		s.awaitBytes(clientSide)
		err := s.client.Fill()
		if err == nil {
			continue
		}
		if isTimeout(err) {
			if err := s.interruptedIdle(); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, io.EOF) && len(s.client.Buffered()) == 0 {
			s.relayEnd()
			return errClientDisconnected
		}
		return fmt.Errorf("%w: within a command: %w", errClientDisconnected, err)
	}
	return nil
}

// command serves the current command.
func (s *session) command() error {
	s.counters.command(s.msg.cmd)
	if s.pooled {
		if done, err := s.startShared(); done || err != nil {
			return err
		}
	}
	switch s.msg.cmd {
	case mysqlwire.ComStmtSendLongData, mysqlwire.ComStmtReset, mysqlwire.ComStmtClose:
		return s.statementCommand()
	case mysqlwire.ComQuit:
		_ = s.forward(nil)
		return errQuit
	case mysqlwire.ComChangeUser:
		return s.changeUser()
	}
	if err := s.ensureModes(); err != nil {
		return err
	}
	switch s.msg.cmd {
	case mysqlwire.ComQuery, mysqlwire.ComStmtPrepare:
		return s.text()
	case mysqlwire.ComStmtExecute, mysqlwire.ComStmtBulkExecute, mysqlwire.ComStmtFetch:
		return s.execution()
	}
	s.beginBare()
	if e := s.judge(); e != nil {
		return s.refuse(e)
	}
	switch s.msg.cmd {
	case mysqlwire.ComInitDB:
		return s.initDB()
	case mysqlwire.ComResetConnection:
		return s.resetConnection()
	case mysqlwire.ComProcessKill:
		return s.processKill()
	case mysqlwire.ComSetOption:
		return s.setOption()
	case mysqlwire.ComBinlogDump, mysqlwire.ComBinlogDumpGTID, mysqlwire.ComSubscribeGroup:
		return s.pipe()
	case mysqlwire.ComClone: // starts the clone protocol; afterwards the server reads commands again
		return s.sendError(s.msg.seq+1, errClone, true)
	default:
		return s.exchange()
	}
}

// initDB changes the default schema.
func (s *session) initDB() error {
	name := append([]byte(nil), s.msg.body[1:]...)
	if s.lease.unsure && !s.modes.maria {
		if err := s.reveal(); err != nil {
			return err
		}
		s.lease.touched = true // the COM_PING has removed the error's diagnostics, which a COM_INIT_DB keeps
	}
	if err := s.exchange(); err != nil {
		return err
	}
	if s.resp.Errno == 0 {
		s.modes.useSchema(name)
	}
	return nil
}

func (s *session) resetConnection() error {
	if err := s.exchange(); err != nil {
		return err
	}
	if s.resp.Errno == 0 {
		s.statements.clear()
		s.transaction.rollBack()
		s.modes.reset(s.resp.Status)
		s.transaction.reset()
		s.spoil()
		s.carried.reset()
		if s.pooled {
			return s.resetShared()
		}
	}
	return nil
}

// changeUser relays another login on the same connection.
func (s *session) changeUser() error {
	if !s.msg.whole {
		return s.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: a login longer than the statement memory")
	}
	var u mysqlwire.ChangeUser
	if err := u.Decode(s.msg.body, s.caps); err != nil {
		return s.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: "+err.Error())
	}
	s.client.Seq, s.backend.Seq = s.msg.seq+1, s.msg.seq+1
	l := login{session: s}
	l.deadline = time.Now().Add(s.srv.opts.HandshakeTimeout)
	if err := l.checkClearResponse(u.AuthPlugin, u.AuthResponse, s.backend.IsTLS()); err != nil {
		return err
	}
	if !s.srv.users.transfer(s.modes.user, userName(u.User)) {
		return s.violation(1, mysqlwire.ErrnoTooManyUserConnections, s.tooManyConnections(u.User).msg)
	}
	user, schema := s.modes.user, s.modes.schema
	s.modes.logIn(userName(u.User), schemaName(u.Database))
	plugin := append([]byte(nil), u.AuthPlugin...)
	if err := s.sendChangeUser(&u); err != nil {
		return err
	}
	s.consume()
	if err := s.setDeadlines(l.deadline, causeDrain|causeIdle|causeMove); err != nil {
		return err
	}
	// The challenge is the most recent one, unless the backend switches the method.
	a := authentication{login: &l, plugin: string(plugin), method: string(plugin), changesUser: true}
	err := a.run()
	switch {
	case errors.Is(err, errDenied):
		// A backend may keep the connection, as MariaDB does, with its previous user; the prepared statements
		// are dropped either way. A backend that does not keep it hangs up.
		s.srv.users.undoTransfer(s.modes.user, user)
		s.modes.logIn(user, schema)
	case err != nil:
		return err
	default:
		s.charset = uint8(u.Charset)
		s.transaction.reset()
		s.carried.clear()
		s.showUser()
	}
	s.transaction.rollBack()
	s.modes.forget() // only the backend knows which user's modes apply now
	s.statements.clear()
	s.modes.rescope()
	return s.clearDeadlines(0)
}

// sendChangeUser forwards the login. The client responds to the challenge of the server that it logged in to
// first: if the session has moved, the gateway requests the new server's challenge by naming a method that no
// account has.
func (s *session) sendChangeUser(u *mysqlwire.ChangeUser) error {
	again, caps := *u, s.caps|mysqlwire.CapSecureConnection
	switch {
	case s.moved && !s.caps.Has(mysqlwire.CapPluginAuth):
		return s.violation(1, mysqlwire.ErrnoHandshake, fmt.Sprintf(
			"Tare switched this session to %s: a client without CLIENT_PLUGIN_AUTH has to reconnect to change its user", s.to.Addr))
	case s.moved:
		again.AuthPlugin, again.AuthResponse = []byte(unknownMethod), nil
	case s.modes.maria || !s.caps.Has(mysqlwire.CapPluginAuth) && s.offered.Has(mysqlwire.CapPluginAuth): // see addAuthMethod
		var err error
		if again, caps, err = s.readableChange(again); err != nil {
			return err
		}
	default:
		return s.forward(nil)
	}
	s.backend.Seq = 0
	if err := s.backend.WriteMessage(again.AppendTo(nil, caps)); err != nil {
		return s.writeFailed(err)
	}
	return nil
}

// interruptedIdle handles a wake-up of the wait for a command. It returns nil if the session continues.
func (s *session) interruptedIdle() error {
	causes := s.occurred()
	switch {
	case causes == 0 && s.lease.kept == keptByDiagnostics:
		if err := s.expire(); err != nil {
			return err
		}
	case causes&causeBackendGone != 0 && s.continuesWithout():
		s.discardShared()
	case causes&causeBackendGone != 0:
		s.relayRemaining()
		return fmt.Errorf("%w: between commands", errBackendIdle)
	case causes&causeKilled != 0:
		_ = s.sendError(0, s.killedError(), true)
		return errKilled
	case causes&causeDrainLimit != 0:
		return s.notifyShutdown("a transaction was still open after the drain timeout (option drain-timeout)")
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
