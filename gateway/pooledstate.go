package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// startShared prepares a session that shares connections for a command: it has a connection afterwards. done: the command is over.
func (s *session) startShared() (done bool, err error) {
	l := &s.lease
	if l.kept == keptByDiagnostics {
		if err := s.clearDeadlines(causeDrain | causeIdle | causeMove); err != nil {
			return false, err
		}
	}
	l.changed, l.selected, s.carried.ended = false, nil, false
	l.planned, l.reads, l.sent, l.waiter.Alone, l.statement = false, false, false, true, nil
	s.plan, s.failed, s.resp = nil, nil, mysqlwire.Response{}
	switch s.msg.cmd {
	case mysqlwire.ComQuit:
		return false, errQuit
	case mysqlwire.ComChangeUser:
		return true, s.changeShared()
	}
	if l.shared != nil {
		return false, nil
	}
	var refused *clientError
	st := s.statements.find(s.msg.body)
	switch cmd := s.msg.cmd; {
	case cmd == mysqlwire.ComStmtClose:
		s.statements.close(s.msg.body)
	case cmd == mysqlwire.ComStmtSendLongData && st == nil:
	default:
		s.planFirst(st)
		if refused, err = s.borrow(); refused != nil && refused.errno == mysqlwire.ErrnoUnknownDatabase && err == nil {
			s.modes.reportSchema(nil) // another client has dropped it
			refused, err = s.borrow()
		}
		if refused == nil || err != nil {
			return false, err
		}
		if st != nil {
			before := st.holds()
			s.refuseShared(st)
			s.statements.count(before, st.holds())
		}
		if cmd == mysqlwire.ComStmtSendLongData { // has no response
			st.refused, refused = refused, nil
		}
	}
	if err := s.discardRest(); err != nil {
		return false, err
	}
	if refused != nil {
		s.fail(refused)
		err = s.sendError(s.msg.seq+1, refused, true)
	}
	return true, err
}

// resetShared follows a COM_RESET_CONNECTION of the client.
func (s *session) resetShared() error {
	c := s.lease.shared.Value
	c.stale, c.inserted, s.lease.insertID, s.lease.unread, s.lease.unsure, s.lease.touched = true, false, 0, false, false, true
	s.lease.pinned, s.lease.doubtful, s.lease.tracks = false, false, false
	s.modes.unknown = false // bring queries them
	s.statements.moved = true
	resp := s.resp
	again, refused, err := s.bring()
	s.resp = resp
	if again {
		s.lease.pool.Failed()
	}
	if refused != nil || again { // the next command gets another connection
		return nil
	}
	return err
}

// bring brings the session's connection into its state. again: the connection was of no use and is
// closed, and another one is required in its place.
func (s *session) bring() (again bool, refused *clientError, err error) {
	l := &s.lease
	c := l.shared.Value
	if c.matches(s) {
		s.modes.adopt(c.mode, c.status)
		return false, nil, nil
	}
	from, full := s.carried.sets.after(&c.sets)
	full = full || c.stale || c.wasReset != s.carried.wasReset
	if full && !c.login.resets && !s.carried.wasReset {
		s.closeShared()
		return true, nil, nil
	}
	l.scratch = l.scratch[:0]
	commands := 0
	add := func(cmd mysqlwire.Command, text []byte) {
		at := len(l.scratch)
		l.scratch = mysqlwire.OpenPacket(l.scratch)
		if cmd == mysqlwire.ComQuery {
			l.scratch = mysqlwire.AppendQuery(l.scratch, text, s.caps)
		} else {
			l.scratch = append(append(l.scratch, byte(cmd)), text...)
		}
		l.scratch = mysqlwire.ClosePacket(l.scratch, at, 0)
		commands++
	}
	if full {
		c.statements.Clear()
		from = 0
		add(mysqlwire.ComResetConnection, nil)
		add(mysqlwire.ComQuery, []byte(trackState()))
		if c.login.restore != "" && !s.carried.wasReset {
			add(mysqlwire.ComQuery, []byte(c.login.restore))
		}
	}
	initDB, ddl := -1, s.srv.schemaDDL.Load()
	if s.modes.schema != c.schema || c.schema != "" && c.ddl != ddl {
		if s.modes.schema == c.schema && s.modes.maria { // which ignores the selection of the same schema
			add(mysqlwire.ComInitDB, []byte("information_schema"))
		}
		initDB = commands
		add(mysqlwire.ComInitDB, []byte(s.modes.schema))
	}
	i := 0
	for sql := range s.carried.sets.all() {
		if i >= from {
			add(mysqlwire.ComQuery, sql)
		}
		i++
	}
	add(mysqlwire.ComQuery, []byte(modesQuery))
	c.stale = true // until the end
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
	if _, err := s.backend.Write(l.scratch); err != nil {
		s.closeShared()
		return true, nil, nil // nothing of the client's was sent
	}
	s.internal = true
	defer func() { s.internal = false }()
	var failed *clientError
	lost := func(err error) (again bool, _ error) {
		if !errors.Is(err, errBackendGone) {
			return false, err
		}
		s.failed = nil // nothing of the client's was sent: another connection serves it
		s.closeShared()
		return true, nil
	}
	for i := range commands - 1 {
		e, err := s.skipInternal()
		if err != nil {
			again, err = lost(err)
			return again, nil, err
		}
		if failed == nil && e != nil {
			if failed = ofServer(e); i != initDB { // of an earlier statement of the client's
				failed.msg = "Tare could not bring another connection into the state of this session: " + failed.msg
			}
		}
	}
	row, status, err := s.readInternalRow(s.fillBackend)
	switch {
	case err != nil:
		again, err = lost(s.internalFailed(err))
		return again, nil, err
	case failed != nil:
		s.discardShared()
		return false, failed, nil
	case row == nil:
		s.discardShared()
		return false, &clientError{errno: mysqlwire.ErrnoUnknown, msg: "Tare could not read the state of a connection to its backend"}, nil
	}
	s.modes.setStatus(status)
	s.modes.report(row[0], row[1], row[2])
	c.stale, c.wasReset, c.schema, c.ddl = false, s.carried.wasReset, s.modes.schema, ddl
	c.sets.copy(&s.carried.sets)
	if full {
		c.insertID, c.inserted = 0, false
	}
	l.pool.Changed.Add(1)
	return false, nil, nil
}

// skipInternal reads a response of OK or ERR to a command of the gateway's.
func (x *relayer) skipInternal() (failed *mysqlwire.Err, err error) {
	for {
		p, rest, err := cutPacket(x.backend.Buffered())
		if err == nil && len(p) > 0 {
			if p[0] == mysqlwire.MarkErr {
				failed = &mysqlwire.Err{}
				if failed.Decode(p) != nil {
					return nil, x.backendBroken(mysqlwire.ErrMalformedPacket)
				}
				failed.Message = bytes.Clone(failed.Message)
			}
			x.backend.Discard(len(x.backend.Buffered()) - len(rest))
			return failed, nil
		}
		if err := x.fillBackend(); err != nil {
			return nil, err
		}
	}
}

// settle decides after a command whether the session keeps its connection.
func (s *session) settle() (keptBy, error) {
	l := &s.lease
	if l.shared == nil {
		return keptNot, nil
	}
	if l.selected != nil {
		s.modes.reportSchema([]byte(*l.selected))
		l.selected = nil
	}
	// Servers keep the warnings of a statement until the next one that uses a table.
	l.unread = l.unread && !s.usesTable() || s.resp.Warnings > 0 || s.resp.Errno != 0 || s.failed != nil
	l.found = s.plan != nil && s.plan.Effects().Has(sqlplan.EffectFoundRows)
	if l.asked {
		if err := s.readAsked(); err != nil {
			return keptNot, err
		}
	}
	if l.unsure && l.changed && !s.modes.maria && s.msg.cmd != mysqlwire.ComQuery && s.msg.cmd != mysqlwire.ComStmtExecute { // with the response to a COM_PING, for example
		s.carried.pinFor(l.digest, changedReason)
	}
	if s.resp.SeenStatus {
		l.opened = false
	}
	l.opened = l.opened || s.resp.Errno != 0 && !s.modes.status.Has(mysqlwire.StatusAutocommit)
	l.saved = s.hasSavepoint()
	if registered := s.msg.cmd == mysqlwire.ComRegisterReplica && s.resp.Errno == 0; registered || isReadOnly(s.resp.Errno) {
		l.shared.Value.last = true
		if registered {
			s.carried.pinFor(sqldigest.Digest{}, "the client is registered as a replica")
		}
	}
	why := s.keeps()
	if why == keptByModes && s.modes.unknown && !l.unread && !l.found {
		if err := s.goAlone(); err != nil {
			return keptNot, err
		}
		if err := s.queryModes(); err != nil {
			return keptNot, err
		}
		l.touched = true
		why = s.keeps()
	}
	if why == keptByModes && s.modes.unknown {
		why = keptByDiagnostics
	}
	return why, nil
}

// isReadOnly reports whether a server refuses a statement because of its option read_only. After a failover, the backend's address may
// be another server's, of which a new connection would be.
func isReadOnly(errno uint16) bool { return errno == 1290 || errno == 1836 }

// expire returns the connection of a client that has not read its diagnostics in time.
func (s *session) expire() error {
	why := keptNot
	if s.modes.unknown {
		if err := s.goAlone(); err != nil {
			return err
		}
		if err := s.queryModes(); err != nil {
			return err
		}
		s.lease.touched, s.lease.rows = true, false
		if why = s.keeps(); why == keptByDiagnostics {
			why = keptNot
		}
	}
	return s.keep(why)
}

// hasSavepoint reports whether the session may have a savepoint though no transaction is open: with autocommit off, servers
// report none for it.
func (s *session) hasSavepoint() bool {
	switch {
	case s.modes.status.Has(mysqlwire.StatusAutocommit), s.msg.cmd == mysqlwire.ComResetConnection:
		return false
	case s.plan == nil, s.msg.cmd == mysqlwire.ComStmtPrepare:
	case s.plan.Effects().Has(sqlplan.EffectSavepoint):
		return true
	case s.plan.Effects().Any(sqlplan.EffectCommit | sqlplan.EffectRollback | sqlplan.EffectImplicitCommit):
		return false
	}
	return s.lease.saved
}

// usesTable reports whether the current command is a statement that names a table, and no more than one statement.
func (x *executor) usesTable() bool {
	if x.plan == nil || x.plan.Type() == sqlplan.TypeMulti {
		return false
	}
	switch x.plan.Type() {
	case sqlplan.TypeSelect, sqlplan.TypeInsert, sqlplan.TypeReplace, sqlplan.TypeUpdate, sqlplan.TypeDelete:
		for range x.plan.Tables() {
			return true
		}
	}
	return false
}

// keeps returns why the session keeps its connection after the current command.
func (s *session) keeps() keptBy {
	switch l := &s.lease; {
	case s.transaction.continues(s.modes.status) || l.opened || l.saved:
		return keptByTransaction
	case s.carried.pin.Load() != nil:
		return keptByPin
	case s.statements.keeps(s.modes.schema, s.carried.sets.reading):
		return keptByPrepared
	case s.carried.multi != 0:
		return keptByOption
	case s.modes.unknown || s.modes.schema != "" && !isPlain([]byte(s.modes.schema)):
		return keptByModes
	case l.unread || l.found:
		return keptByDiagnostics
	}
	return keptNot
}

// sharedPins are the effects that keep a session on its connection, besides those of effectPins.
var sharedPins = []struct {
	effect sqlplan.Effect
	reason string
}{
	{sqlplan.EffectConnectionID, "CONNECTION_ID() was read"},
	{sqlplan.EffectSequence, "the last value of a sequence"},
}

const (
	releaseReason = "COMMIT or ROLLBACK with RELEASE"
	otherReason   = "a statement about which Tare does not know what it leaves in the session"
	changedReason = "the server reported a change of the session that the statement does not show"
)

// afterShared pins a session that shares connections if the current statement left what cannot be moved.
func (x *executor) afterShared() {
	if !x.pooled {
		return
	}
	effects, l := x.plan.Effects(), &x.lease
	if x.hidesChanges() {
		l.unsure, l.digest = true, x.rec.Digest
		l.doubtful = l.doubtful || x.modes.maria && (x.usesTable() || x.plan.Type() == sqlplan.TypeMulti || x.plan.Type() == sqlplan.TypeLoad)
	}
	several := x.plan.After()&sqlplan.AfterRoutine != 0 && x.resp.Results > 1 // the text after a routine's body was not part of it
	if x.setsInsertID() && (x.resp.LastInsertID != 0 || x.resp.Errno != 0 || effects.Has(sqlplan.EffectLastResult) || !x.inserts() ||
		x.plan.Type() == sqlplan.TypeDDL && x.resp.Affected != 0 || x.resp.Rows != 0) || // of RETURNING
		effects.Any(sqlplan.EffectFunction|sqlplan.EffectUnknown) || several {
		c := l.shared.Value
		c.unlike = !c.inserted && c.insertID != l.insertID || c.inserted && c.unlike
		c.inserted = true
	}
	l.rows = l.rows || x.plan.Type() == sqlplan.TypeSelect && x.resp.Errno == 0 && x.msg.cmd != mysqlwire.ComStmtPrepare
	if x.msg.cmd == mysqlwire.ComStmtPrepare {
		return // nothing was executed
	}
	if (effects.Has(sqlplan.EffectSchema) || x.plan.Type() == sqlplan.TypeExecute) && x.mentions("DATABASE", "SCHEMA") {
		c := l.shared.Value
		if n := x.srv.schemaDDL.Add(1); c.ddl == n-1 {
			c.ddl = n
		}
	}
	l.tracks = l.tracks || effects.Has(sqlplan.EffectSessionVar) && x.mentions("TRACK_STATE_CHANGE")
	for _, p := range sharedPins {
		if effects.Has(p.effect) {
			x.carried.pinSession(x.query, p.reason)
		}
	}
	switch t := x.plan.Type(); {
	case several:
		x.carried.pinSession(x.query, otherReason)
	case effects.Any(sqlplan.EffectCommit|sqlplan.EffectRollback) && (!x.msg.whole || contains(x.rec.Text, "RELEASE") || contains(x.rec.Normalized, "RELEASE")):
		x.carried.pinSession(x.query, releaseReason)
	case t == sqlplan.TypeOther && !effects.Has(sqlplan.EffectLastResult) && effects.Any(sqlplan.EffectAdmin|sqlplan.EffectUnknown):
		x.carried.pinSession(x.query, otherReason)
	case l.changed && t != sqlplan.TypeSet && t != sqlplan.TypeUse && !effects.Any(statefulEffects) && !x.carried.ended &&
		(t != sqlplan.TypeDDL || x.carried.pin.Load() == nil): // it may concern a temporary table that pins
		x.carried.pinSession(x.query, changedReason)
	}
}

// hidesChanges reports whether the server may have changed the session for the current statement without having said so: it reports no
// changes with an error, and MySQL none with an EOF.
func (x *executor) hidesChanges() bool {
	if x.resp.Errno != 0 {
		return x.resp.Errno != uint16(mysqlwire.ErrnoSyntax) || x.resp.Results > 1
	}
	return x.resp.Last == nil && !x.modes.maria && x.plan.Type() != sqlplan.TypeShow
}

// confirm pins the session if the server has changed it for a statement with which it could not report that: a view whose function
// assigns a user variable, a trigger of a statement that failed. MySQL reports that with the next OK. MariaDB does not: there, the
// session has no user variables that Tare knows of.
func (s *session) confirm() (pinned bool, err error) {
	l := &s.lease
	l.unsure = false
	if s.modes.maria {
		s.resp.Begin(mysqlwire.ComQuery, s.caps, 1)
		err := s.internalQuery("SELECT COUNT(*), '', '' FROM information_schema.USER_VARIABLES LIMIT 1")
		if err != nil {
			return false, fmt.Errorf("%w: %w", errBackendIdle, err)
		}
		row, _, err := s.readInternalRow(s.fillBackend)
		if err != nil {
			return false, fmt.Errorf("%w: count the user variables: %w", errBackendIdle, err)
		}
		l.changed = row != nil && string(row[0]) != "0" // nil: the server has no such table
	} else if l.changed, err = s.pingChanged(); err != nil {
		return false, err
	}
	if !l.changed {
		return false, nil
	}
	s.carried.pinFor(l.digest, changedReason)
	return true, nil
}

// maxAsking is the length of commands that a COM_PING may follow in one write, for which they are copied.
const maxAsking = 4 << 10

// maySendPing reports whether a COM_PING may be sent with the current statement: it is a SELECT that does nothing else, after which
// confirm would send one, as far as is known before its response.
func (x *executor) maySendPing() bool {
	return x.pooled && !x.modes.maria && !x.caps.Has(mysqlwire.CapDeprecateEOF) && x.plan.Type() == sqlplan.TypeSelect && x.plan.Effects() == 0 &&
		(x.msg.cmd == mysqlwire.ComQuery || x.msg.cmd == mysqlwire.ComStmtExecute && x.msg.cursor == mysqlwire.CursorUnused) &&
		x.msg.whole && x.msg.size <= maxAsking && x.modes.status.Has(mysqlwire.StatusAutocommit) &&
		!x.transaction.continues(x.modes.status) && x.carried.pin.Load() == nil
}

// readAsked reads the response to a COM_PING that was sent with the current statement, as confirm does.
func (s *session) readAsked() error {
	l := &s.lease
	l.asked = false
	changed, err := s.readPing()
	if err == nil && changed {
		s.carried.pinFor(s.rec.Digest, changedReason)
	}
	l.unsure = false
	return err
}

// contains reports whether the text contains a word, in letters of any case.
func contains(text []byte, word string) bool {
	for i := range text {
		if rest := text[i:]; len(rest) >= len(word) && isAny(rest[:len(word)], word) {
			return true
		}
	}
	return false
}

// errPreviousLost refuses to read what the server keeps of a statement that ran on a connection that was returned.
var errPreviousLost = &clientError{errno: errnoNotSupported, msg: "Tare shares connections: ROW_COUNT(), FOUND_ROWS(), warnings, diagnostics and @@last_gtid of the previous statement " +
	"are on a connection that may serve another client now; execute both statements in one transaction, track last_gtid by session_track_system_variables, or turn off option pool"}

const errnoNotSupported = mysqlwire.Errno(1235)

// readsInsertID are effects of statements after which the session may read LAST_INSERT_ID() on the same connection.
const readsInsertID = sqlplan.EffectLastResult | sqlplan.EffectFunction | sqlplan.EffectUnknown | sqlplan.EffectBegin | sqlplan.EffectXA |
	sqlplan.EffectPrepare | sqlplan.EffectTempTable | sqlplan.EffectTableLocks | sqlplan.EffectHandler | sqlplan.EffectNamedLock |
	sqlplan.EffectUserVarWrite | sqlplan.EffectSequence | sqlplan.EffectConnectionID

// beforeShared prepares the connection for the current statement. It returns an error for the client if the statement reads what the
// connection does not have.
func (x *executor) beforeShared() (*clientError, error) {
	l, effects := &x.lease, x.plan.Effects()
	if effects.Any(sqlplan.EffectCharset|sqlplan.EffectSQLMode) && x.msg.cmd == mysqlwire.ComQuery &&
		!(effects.Has(sqlplan.EffectLastResult) && x.readsPrevious(true)) { // which a PREPARE would replace
		if err := x.attachAll(); err != nil {
			return nil, err
		}
	}
	if x.blursChanges() {
		if err := x.reveal(); err != nil {
			return nil, err
		}
	}
	c := l.shared.Value
	if l.pinged && effects.Has(sqlplan.EffectLastResult) && x.mentions("ROW_COUNT") {
		return errPreviousLost, nil
	}
	own := c.inserted && !c.unlike || !c.inserted && c.insertID == l.insertID
	if !l.rows && effects.Has(sqlplan.EffectLastResult) && (contains(x.rec.Text, "FOUND_ROWS") || contains(x.rec.Normalized, "FOUND_ROWS")) {
		return errPreviousLost, nil
	}
	if l.fresh && effects.Has(sqlplan.EffectLastResult) && x.readsPrevious(l.unread) {
		return errPreviousLost, nil
	}
	if own {
		return nil, nil
	}
	if !effects.Any(readsInsertID) && x.modes.status.Has(mysqlwire.StatusAutocommit) &&
		(c.inserted || c.insertID == 0 && x.inserts() || !x.setsInsertID()) { // which 0 shows to have set it
		return nil, nil
	}
	if !l.fresh && effects.Has(sqlplan.EffectLastResult) && x.readsPrevious(true) { // a SET before it would remove what it reads
		if others := readsInsertID &^ sqlplan.EffectLastResult; !effects.Any(others) && !x.mentions("INSERT_ID", "IDENTITY") {
			return nil, nil
		}
		return errPreviousLost, nil
	}
	if c.inserted {
		if err := x.takeInsertID(); err != nil {
			return nil, err
		}
	}
	return nil, x.bringInsertID()
}

// mentions reports whether the text of the current statement contains one of the words.
func (x *executor) mentions(words ...string) bool {
	text := x.rec.Text
	if len(text) == 0 {
		text = x.rec.Normalized
	}
	for _, word := range words {
		if contains(text, word) {
			return true
		}
	}
	return false
}

// readsPrevious reports whether the current statement may read what the server keeps of the statement before, other than
// LAST_INSERT_ID(); warnings: also its warnings.
func (x *executor) readsPrevious(warnings bool) bool {
	return x.mentions("ROW_COUNT", "FOUND_ROWS", "DIAGNOSTICS", "LASTVAL", "CURRVAL", "PREVIOUS", "LAST_GTID") || warnings && x.mentions("WARNING", "ERROR")
}

// ownChanges records the changes of the session in the OK or EOF packet at the end of b, and returns b without those that the client
// has not asked for.
func (x *relayer) ownChanges(b []byte) ([]byte, error) {
	caps := x.caps | mysqlwire.CapSessionTrack
	payload := x.resp.Last
	x.lease.scratch = append(x.lease.scratch[:0], b...)
	if payload[0] == mysqlwire.MarkEOF && len(payload) < 7 { // an EOF does not say what has changed: MariaDB only
		x.lease.changed = true
		status := x.lease.scratch[len(b)-2:]
		binary.LittleEndian.PutUint16(status, binary.LittleEndian.Uint16(status)&^uint16(mysqlwire.StatusSessionChanged))
		return x.lease.scratch, nil
	}
	var ok mysqlwire.OK
	if err := ok.Decode(payload, caps); err != nil {
		return nil, err
	}
	for it := ok.StateChanges(); it.Next(); {
		switch c := it.Change(); c.Type {
		case mysqlwire.StateChanged:
			x.lease.changed = true
		case mysqlwire.StateSchema:
			name := string(c.Value)
			x.lease.selected = &name
		}
	}
	start := len(b) - len(payload) - mysqlwire.HeaderLen
	seq := mysqlwire.ParseHeader(b[start:]).Seq
	if !x.lease.tracks {
		ok.State = withoutType(ok.State, mysqlwire.StateChanged)
	}
	if !x.caps.Has(mysqlwire.CapSessionTrack) || len(ok.State) == 0 {
		ok.State, ok.Status = nil, ok.Status&^mysqlwire.StatusSessionChanged
	}
	x.lease.scratch = mysqlwire.OpenPacket(x.lease.scratch[:start])
	x.lease.scratch = mysqlwire.ClosePacket(ok.AppendTo(x.lease.scratch, x.caps), start, seq)
	return x.lease.scratch, nil
}

// withoutType returns changes of the session without those of a type.
func withoutType(state []byte, t mysqlwire.StateChangeType) []byte {
	out := bytes.Clone(state)[:0]
	for len(state) > 1 {
		_, n := mysqlwire.LenencString(state[1:])
		if n == 0 {
			break
		}
		if state[0] != byte(t) {
			out = append(out, state[:1+n]...)
		}
		state = state[1+n:]
	}
	return out
}

// adopt records that the session has another connection in its state, where the server has a mode and a status.
func (m *modes) adopt(mode sqldigest.Mode, st mysqlwire.Status) {
	m.status, m.unknown = st, false
	m.set(mode)
}
