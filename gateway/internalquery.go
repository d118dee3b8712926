package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const modesQuery = "SELECT @@session.character_set_client, @@session.sql_mode, CAST(CONVERT(DATABASE() USING utf8mb4) AS BINARY) LIMIT 1"

// ensureModes queries the backend for the default schema and the modes that decide how text is read, if they are
// not known: after a login, where the server's settings apply, and after a statement whose text does not
// determine the new modes, such as SET character_set_client = @saved in mysqldump's dumps. Rules and
// redaction depend on them.
func (s *session) ensureModes() error {
	if !s.modes.unknown {
		return nil
	}
	if s.readsLastStatement() {
		return nil
	}
	s.lease.rows = false // of the gateway's query
	return s.queryModes()
}

// queryModes queries the backend for them.
func (s *session) queryModes() error {
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // sequence number for an error
	if s.modes.isUserUnknown() {
		if err := s.resolveLate(); err != nil {
			return err
		}
	}
	if err := s.internalQuery(modesQuery); err != nil {
		return s.writeFailed(err)
	}
	row, _, err := s.readInternalRow(s.fillBackend)
	switch {
	case err != nil:
		return s.internalFailed(err)
	case row == nil: // for example an account whose password has expired
		s.modes.forget()
	default:
		s.modes.report(row[0], row[1], row[2])
	}
	return nil
}

// internalFailed returns the end of a session that could not read the response to an internal query.
func (x *relayer) internalFailed(err error) error {
	if broken, ok := errors.AsType[*protocolError](err); ok {
		return x.backendBroken(broken.err)
	}
	return err
}

// resolveLate resolves the user of a session after its login.
func (s *session) resolveLate() error {
	tooMany, err := s.resolveUser(s.fillBackend)
	switch {
	case err != nil:
		return s.internalFailed(err)
	case tooMany != nil:
		return s.violation(s.msg.seq+1, tooMany.errno, tooMany.msg)
	}
	return nil
}

// A protocolError is a protocol violation in the response to an internal query.
type protocolError struct{ err error }

func (e *protocolError) Error() string { return e.err.Error() }

// internalQuery sends an internal query to the backend between commands. The response is one row of three columns and
// fits the buffer.
func (x *relayer) internalQuery(sql string) error {
	q := mysqlwire.AppendQuery(mysqlwire.OpenPacket(nil), []byte(sql), x.caps)
	_, err := x.backend.Write(mysqlwire.ClosePacket(q, 0, 0))
	return err
}

// readInternalRow reads the response to internalQuery; fill reads more of it. The row is a view of the buffer, valid until the
// next read; it is nil if the server responded with something else.
func (x *relayer) readInternalRow(fill func() error) (row mysqlwire.TextRow, status mysqlwire.Status, err error) {
	x.internal = true
	defer func() { x.internal = false }()
	var r mysqlwire.Response
	for {
		r.Begin(mysqlwire.ComQuery, x.caps, 1)
		_, ev, err := r.Scan(x.backend.Buffered())
		if err != nil {
			return nil, 0, &protocolError{err}
		}
		if ev == mysqlwire.EventDone {
			break
		}
		if err := fill(); err != nil {
			return nil, 0, err
		}
	}
	if r.Rows == 1 {
		if row, err = threeColumns(x.backend.Buffered(), x.caps); err != nil {
			return nil, 0, &protocolError{err}
		}
	}
	x.backend.Discard(len(x.backend.Buffered()))
	return row, r.Status, nil
}

// threeColumns returns the single row of three columns in a response.
func threeColumns(b []byte, caps mysqlwire.Capability) (row mysqlwire.TextRow, err error) {
	var h mysqlwire.ResultHeader
	p, b, err := cutPacket(b)
	if err == nil {
		err = h.Decode(p, caps)
	}
	skip := 3 // definitions
	if h.NoDefinitions {
		skip = 0
	}
	if !caps.Has(mysqlwire.CapDeprecateEOF) {
		skip++
	}
	for range skip + 1 {
		if err == nil {
			p, b, err = cutPacket(b)
		}
	}
	if err == nil {
		err = row.Decode(p, 3)
	}
	if err != nil {
		return nil, fmt.Errorf("response to the gateway's query: %w", err)
	}
	return row, nil
}

// cutPacket returns the payload of the first packet in b and the bytes after it.
func cutPacket(b []byte) (payload, rest []byte, err error) {
	if len(b) < mysqlwire.HeaderLen || len(b)-mysqlwire.HeaderLen < mysqlwire.ParseHeader(b).Len {
		return nil, nil, mysqlwire.ErrShortPacket
	}
	end := mysqlwire.HeaderLen + mysqlwire.ParseHeader(b).Len
	return b[mysqlwire.HeaderLen:end], b[end:], nil
}

const userQuery = "SELECT CAST(CONVERT(USER() USING utf8mb4) AS BINARY), NULL, NULL LIMIT 1"

// resolveUser queries the name of a user that is unknown, and counts the connection under it. It returns an error for
// the client if the user has too many connections. The name remains unknown if the account may execute no query, as
// with an expired password.
func (s *session) resolveUser(fill func() error) (*clientError, error) {
	if err := s.internalQuery(userQuery); err != nil {
		return nil, err
	}
	row, _, err := s.readInternalRow(fill)
	if err != nil || row == nil {
		return nil, err
	}
	name := row[0]
	if i := bytes.LastIndexByte(name, '@'); i >= 0 {
		name = name[:i]
	}
	if !isReported(name) {
		return nil, nil
	}
	if s.entered && !s.srv.users.transfer(s.modes.user, string(name)) {
		return s.tooManyConnections(name), nil
	}
	s.modes.setUser(name)
	return nil, nil
}

func (s *session) tooManyConnections(user []byte) *clientError {
	return &clientError{errno: mysqlwire.ErrnoTooManyUserConnections, msg: fmt.Sprintf(
		"User '%s' already has more than %d active connections through Tare (option max-user-connections)",
		user, s.srv.opts.MaxUserConnections)}
}

// queryState queries the session's current backend.
func (x *relayer) queryState() (sessionState, error) {
	err := x.internalQuery(stateQuery(x.modes.maria))
	var row mysqlwire.TextRow
	var status mysqlwire.Status
	if err == nil {
		row, status, err = x.readInternalRow(x.backend.Fill)
	}
	if err != nil {
		return sessionState{}, fmt.Errorf("ask backend %s for the session's state: %w", x.to.Addr, err)
	}
	if row == nil {
		return sessionState{}, errors.New("the backend gave no row about the session's state")
	}
	st := newState(row, status)
	if st.inTrans {
		return st, &pin{Reason: "a transaction is open that its statements did not show"}
	}
	return st, nil
}

// takeInsertID reads LAST_INSERT_ID() of the session, and sets that of the connection to 0: an INSERT with an id of the client's choice
// has the id in its response, but does not set LAST_INSERT_ID().
func (x *relayer) takeInsertID() error {
	l := &x.lease
	c := l.shared.Value
	x.resp.Begin(mysqlwire.ComQuery, x.caps, 1)
	if err := x.internalQuery("SELECT @@session.last_insert_id, LAST_INSERT_ID(0), '' LIMIT 1"); err != nil {
		return fmt.Errorf("%w: %w", errBackendIdle, err)
	}
	row, _, err := x.readInternalRow(x.fillBackend)
	if err != nil || row == nil {
		return fmt.Errorf("%w: read LAST_INSERT_ID(): %w", errBackendIdle, err)
	}
	if id := parseUint(row[0]); id != 0 || !c.unlike {
		l.insertID = id
	}
	c.inserted, c.unlike, c.insertID = false, false, 0
	return nil
}

// bringInsertID sets LAST_INSERT_ID() of the connection.
func (x *executor) bringInsertID() error {
	c := x.lease.shared.Value
	if c.insertID == x.lease.insertID {
		return nil
	}
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	sql := strconv.AppendUint([]byte("SET last_insert_id = "), x.lease.insertID, 10)
	q := mysqlwire.AppendQuery(mysqlwire.OpenPacket(nil), sql, x.caps)
	if _, err := x.backend.Write(mysqlwire.ClosePacket(q, 0, 0)); err != nil {
		return x.writeFailed(err)
	}
	x.internal = true
	defer func() { x.internal = false }()
	failed, err := x.skipInternal()
	switch {
	case err != nil:
		return err
	case failed != nil:
		return x.backendBroken(fmt.Errorf("last_insert_id was not set: error %d: %s", failed.Number, failed.Message))
	}
	c.insertID = x.lease.insertID
	return nil
}

// fillInternal is fillBackend for the response to a command of the gateway's on a shared connection. The keeper interrupts it after
// option connect-timeout without a byte.
func (x *relayer) fillInternal() error {
	l := x.lease.pool.lender
	x.lease.awaits, x.lease.silent = time.Now(), false
	l.awaited = append(l.awaited, x)
	defer func() {
		i := slices.Index(l.awaited, x)
		l.awaited = slices.Delete(l.awaited, i, i+1)
	}()
	for {
		x.awaitBytes(backendSide)
		err := x.backend.Fill()
		switch {
		case err == nil:
			x.received()
			return nil
		case !isTimeout(err):
			return x.backendGone(err)
		case x.lease.silent:
			return x.backendGone(fmt.Errorf("no response to a command of the gateway's within %v (option connect-timeout)", x.srv.opts.ConnectTimeout))
		}
		if err := x.interruptedRelay(); err != nil {
			return err
		}
	}
}

// endSilent wakes sessions that have waited too long for a response to a command of the gateway's.
func (l *lender) endSilent(now time.Time) {
	for _, x := range l.awaited {
		if now.Sub(x.lease.awaits) >= l.srv.opts.ConnectTimeout {
			x.lease.silent = true
			_ = x.backend.SetReadDeadline(past)
		}
	}
}

// inserts reports whether the current statement is one that inserts rows, and no more.
func (x *executor) inserts() bool {
	t := x.plan.Type()
	return t == sqlplan.TypeInsert || t == sqlplan.TypeReplace || t == sqlplan.TypeLoad || t == sqlplan.TypeDDL
}

// setsInsertID reports whether the current statement may change LAST_INSERT_ID(), as CREATE TABLE … SELECT does.
func (x *executor) setsInsertID() bool {
	return x.plan.Effects().Has(sqlplan.EffectInsertID) || x.plan.Type() == sqlplan.TypeDDL
}

// blursChanges reports whether the server would report a change of an earlier statement's, about which it has said nothing, with the
// response to the current one as if it was that one's.
func (x *executor) blursChanges() bool {
	if !x.lease.unsure || x.modes.maria || x.msg.cmd == mysqlwire.ComStmtPrepare {
		return false
	}
	t, effects := x.plan.Type(), x.plan.Effects()
	return (t == sqlplan.TypeSet || t == sqlplan.TypeUse || t == sqlplan.TypeDDL && x.carried.pin.Load() != nil || effects.Any(statefulEffects)) &&
		!(effects.Has(sqlplan.EffectLastResult) && x.readsPrevious(true)) // such a SET pins
}

// reveal pins the session if MySQL reports a change with the response to a COM_PING.
func (x *executor) reveal() error {
	x.lease.unsure = false
	changed, err := x.pingChanged()
	if changed {
		x.carried.pinFor(x.lease.digest, changedReason)
	}
	return err
}

// pingChanged reports whether the server reports a change with the response to a COM_PING.
func (x *executor) pingChanged() (changed bool, err error) {
	x.lease.scratch = append(x.lease.scratch[:0], ping[:]...)
	if _, err := x.backend.Write(x.lease.scratch); err != nil {
		return false, fmt.Errorf("%w: %w", errBackendIdle, err)
	}
	return x.readPing()
}

func (x *executor) readPing() (changed bool, err error) {
	x.resp.Begin(mysqlwire.ComPing, x.caps, 1)
	x.internal = true
	defer func() { x.internal = false }()
	for {
		p, rest, err := cutPacket(x.backend.Buffered())
		if err == nil && len(p) > 0 {
			var ok mysqlwire.OK
			if err := ok.Decode(p, x.caps|mysqlwire.CapSessionTrack); err != nil {
				return false, fmt.Errorf("%w: response to a ping: %w", errBackendIdle, err)
			}
			x.backend.Discard(len(x.backend.Buffered()) - len(rest))
			for it := ok.StateChanges(); it.Next(); {
				changed = changed || it.Change().Type == mysqlwire.StateChanged
			}
			return changed, nil
		}
		if err := x.fillBackend(); err != nil {
			return false, fmt.Errorf("%w: %w", errBackendIdle, err)
		}
	}
}

func parseUint(b []byte) (n uint64) {
	for _, c := range b {
		n = n*10 + uint64(c-'0')
	}
	return n
}
