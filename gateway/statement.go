package gateway

import (
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/mysql/sqlplan"
	"github.com/taredb/tare/querylog"
)

// An Observer receives each statement when it finishes. The record and the slices in it are valid during the
// call only. Sessions call Observe concurrently; it must not block or allocate.
type Observer interface {
	Observe(r *querylog.Record)
}

// text serves COM_QUERY and COM_STMT_PREPARE, the statements sent as text.
func (s *session) text() error {
	if err := s.ensureModes(); err != nil {
		return err
	}
	s.beginRecord()
	s.modes.followRules()
	if !s.msg.whole {
		return s.longText()
	}
	sql, err := s.sqlOf(s.msg.body)
	if err != nil {
		return s.malformedQuery()
	}
	s.rec.Text = sql
	s.planText(sql, s.digest(sql), true)
	switch s.plan.Type() {
	case sqlplan.TypePrepare, sqlplan.TypeExecute, sqlplan.TypeDeallocate:
		s.rec.StatementName = preparedName(sql, s.modes.mode)
	}
	if s.msg.cmd == mysqlwire.ComStmtPrepare && s.statements.moved {
		return s.prepareElsewhere()
	}
	return s.statement()
}

// malformedQuery serves a COM_QUERY whose query attributes cannot be decoded: the server receives one without any
// bytes in its place, and refuses it with its own error.
func (s *session) malformedQuery() error {
	s.sent = time.Now()
	err := s.exchangeAs([]byte{byte(mysqlwire.ComQuery)})
	s.record(err)
	return err
}

// blockText is the length in bytes from which a text is read outside the loop.
const blockText = 32 << 10

// digestWork is the cost of digesting one byte, in bytes of a task's budget.
const digestWork = 4

// digest digests a statement that is buffered whole.
func (s *session) digest(sql []byte) (d sqldigest.Digest) {
	if len(sql) < blockText {
		return s.digester.Digest(sql, s.modes.mode)
	}
	return s.digestLong(sql)
}

func (s *session) digestLong(sql []byte) (d sqldigest.Digest) {
	s.task.Block(func() { d = s.digester.Digest(sql, s.modes.mode) })
	return d
}

// sqlOf returns the text in a COM_QUERY or COM_STMT_PREPARE.
func (s *session) sqlOf(body []byte) ([]byte, error) {
	if s.msg.cmd == mysqlwire.ComStmtPrepare {
		return body[1:], nil
	}
	return mysqlwire.Query(body, s.caps)
}

// planText finds or creates the statement's plan.
func (s *session) planText(sql []byte, d sqldigest.Digest, complete bool) {
	s.rec.Digest = d
	s.rec.Normalized, s.rec.NormalizedCut = s.digester.Text(), s.digester.TextTruncated()
	s.rec.Tags = s.collectTags()
	s.divergent = s.digester.Divergent()
	s.unreadable = s.divergent
	s.findPlan(sql, complete, s.divergent)
}

// findPlan finds or creates the plan of the statement in the record.
func (s *session) findPlan(sql []byte, complete, divergent bool) {
	s.planIn(sql, complete, divergent, s.modes.scope, s.modes.schema, s.modes.mode)
}

// findPrepared finds or creates the plan of a prepared statement: the server resolves its names in the schema
// and modes of its PREPARE.
func (s *session) findPrepared(st *preparedStatement) {
	if st.schema == s.modes.schema && st.mode == s.modes.mode {
		s.findPlan(st.text, false, st.divergent)
		return
	}
	s.planIn(st.text, false, st.divergent, s.modes.scopeIn(st.schema, st.mode), st.schema, st.mode)
}

// planIn finds or creates the plan of the statement in the record under a scope, which corresponds to schema
// and mode.
func (s *session) planIn(sql []byte, complete, divergent bool, scope sqlplan.Scope, schema string, mode sqldigest.Mode) {
	if divergent {
		scope = scope.Divergent()
	}
	s.plan = s.srv.opts.Planner.Get(s.rec.Digest, scope)
	s.rec.PlanCached = s.plan != nil
	if s.plan == nil {
		s.makePlan(&sqlplan.Statement{
			SQL: sql, Complete: complete, Judged: s.parts != nil, Text: s.rec.Normalized, Digest: s.rec.Digest,
			Scope: scope, Schema: []byte(schema), User: []byte(s.modes.user), Mode: mode,
		})
	}
	s.recordPlan()
}

// makePlan parses the statement outside the loop: parsing takes long and a deep stack.
func (s *session) makePlan(st *sqlplan.Statement) {
	s.task.Block(func() { s.plan = s.srv.opts.Planner.Plan(*st) })
}

// refuseWithoutText refuses an execution whose text was not kept, because the current rules cannot be applied to it.
func (s *session) refuseWithoutText() error {
	return s.refuseStatement(&clientError{
		errno: mysqlwire.ErrnoSpecificAccessDenied,
		msg:   "Tare keeps the text of no further prepared statement of this session, and rules are in force: close some and prepare it again",
	})
}

// recordPlan records the plan's type, the time that planning took and whether the cache missed.
func (s *session) recordPlan() {
	if !s.rec.PlanCached {
		s.counters.planMisses.Add(1)
	}
	s.rec.StatementType = s.plan.Type().String()
	s.sent = time.Now()
	s.rec.Plan = s.sent.Sub(s.msg.start)
}

// statement forwards the planned statement, unless a rule refuses it, and relays its response.
func (s *session) statement() error {
	verdict, _ := s.plan.Verdict()
	if verdict.Refuses() {
		s.judgeParts()
	}
	if verdict != sqlplan.VerdictPass {
		if e := s.textRefusal(); e != nil {
			return s.refuseStatement(e)
		}
	}
	return s.pass()
}

// pass forwards the planned statement and relays its response.
func (s *session) pass() error {
	var err error
	if s.plan.Type() == sqlplan.TypeKill && s.msg.cmd == mysqlwire.ComQuery {
		err = s.kill()
	} else {
		err = s.exchange()
	}
	if err == nil {
		s.afterStatement()
	}
	s.record(err)
	return err
}

// execution serves the commands that execute prepared statements or fetch their rows.
func (s *session) execution() error {
	if err := s.ensureModes(); err != nil {
		return err
	}
	s.beginRecord()
	s.modes.followRules()
	st := s.statements.find(s.msg.body)
	s.msg.cursor = cursorUse(s.msg.body, st, s.modes.maria)
	if st == nil { // unknown to the backend too, or past the bound on kept statements
		s.rec.StatementID = statementID(s.msg.body)
		if s.statements.lost && s.srv.opts.Planner.HasRules() && !s.statements.noLast(s.msg.body) {
			return s.refuseWithoutText()
		}
		s.sent = time.Now()
		if s.statements.moved || s.statements.stale && s.statements.noLast(s.msg.body) {
			err := s.unknownStatement()
			s.record(err)
			return err
		}
		err := s.exchange()
		s.record(err)
		return err
	}
	s.rec.Digest, s.rec.Normalized, s.rec.NormalizedCut = st.digest, st.text, st.cut
	s.rec.StatementID, s.unreadable = st.id, st.unreadable
	if st.moved || st.untyped {
		if e := s.translate(st); e != nil {
			return s.respondError(e)
		}
	}
	s.rec.Tags = s.listTags(st.tagText, st.tagEnds)
	if len(st.text) > 0 {
		s.findPrepared(st)
	} else { // past the bound on kept texts
		if st.rules != s.modes.rules && s.srv.opts.Planner.HasRules() {
			return s.refuseWithoutText()
		}
		s.plan = st.plan
		s.recordPlan()
	}
	switch {
	case s.msg.cmd == mysqlwire.ComStmtFetch:
		err := s.exchange()
		st.cursor = err == nil && s.resp.Errno == 0 && !s.resp.Status.Has(mysqlwire.StatusLastRowSent)
		s.record(err)
		return err
	case s.msg.cmd == mysqlwire.ComStmtExecute && s.msg.whole:
		s.bind(st)
	case s.msg.cmd == mysqlwire.ComStmtExecute:
		s.keepTypes(st)
	default:
		st.unread = true
	}
	s.longOpen = false
	if e := s.refusal(); e != nil {
		st.refuseExecution(&s.msg, s.caps)
		return s.refuseStatement(e)
	}
	err := s.pass()
	st.cursor = s.resp.CursorOpen
	st.cursored = st.cursored || st.cursor
	return err
}

// bind decodes the values of an execution as views of the message. Undecodable values are left to the backend
// to refuse.
func (s *session) bind(st *preparedStatement) {
	var e mysqlwire.StmtExecute
	if e.Decode(s.msg.body) != nil {
		return
	}
	st.params.Values, st.params.Names = s.values, s.names // reuse the session's slices
	if st.params.Decode(&e, s.caps) == nil {
		s.rec.Binds, s.rec.BindNames = st.params.Values, st.params.Names
	} else {
		st.unread = true
	}
	s.values, s.names = st.params.Values[:0], st.params.Names[:0]
	st.params.Values, st.params.Names = nil, nil
	if cap(s.values) > maxKeptValues {
		s.values, s.names = nil, nil
	}
}

// keepTypes keeps the parameter types of an execution that is longer than the statement memory, for later ones that do
// not repeat them. They are at its start.
func (s *session) keepTypes(st *preparedStatement) {
	var e mysqlwire.StmtExecute
	if e.Decode(s.msg.body) != nil || st.params.DecodeTypes(&e, s.caps) != nil {
		st.unread = true
	}
}

// maxKeptValues bounds the room for values that a session keeps between statements.
const maxKeptValues = 256

// afterStatement applies a statement's effects to the session.
func (s *session) afterStatement() {
	if s.resp.Errno != 0 {
		if s.msg.cmd == mysqlwire.ComStmtPrepare {
			s.statements.forgetLast(s.resp.Errno)
		}
		// Statements before the failed one may have had effects.
		if s.changesModes() || s.plan.Effects().Any(readingEffects) {
			s.modes.forget()
		}
		s.trackFailed()
		return
	}
	if s.msg.cmd == mysqlwire.ComStmtPrepare {
		s.keepPrepared()
		return
	}
	effects := s.plan.Effects()
	if effects.Any(sqlplan.EffectUse | sqlplan.EffectSchema | statefulEffects) {
		s.follow(effects)
	}
}

// keepPrepared records the statement that was prepared.
func (s *session) keepPrepared() {
	s.rec.StatementID = s.resp.StatementID
	view := preparedStatement{
		id: s.resp.StatementID, plan: s.plan, digest: s.rec.Digest, divergent: s.divergent,
		text: s.rec.Normalized, cut: s.rec.NormalizedCut, unreadable: s.unreadable, tagText: s.tagText, tagEnds: s.tagEnds,
	}
	view.schema, view.mode, view.rules = s.modes.schema, s.modes.mode, s.modes.rules
	view.readsLast = !s.msg.whole || s.mayReadLast(s.rec.Text)
	if s.srv.opts.Standby != nil {
		view.columns = s.resp.Columns()
		if s.msg.whole {
			view.sql = s.rec.Text
		}
	}
	if s.statements.moved {
		view.remote, view.moved = s.statements.remote, true
	}
	s.statements.add(s.resp.Params, view)
}

// follow applies effects that change how later statements are read.
func (s *session) follow(effects sqlplan.Effect) {
	sql := s.rec.Text
	if !s.msg.whole {
		sql = nil // the truncated text does not show its end
	}
	if effects.Has(sqlplan.EffectSchema) && !effects.Has(sqlplan.EffectTempTable) {
		s.srv.opts.Planner.Invalidate()
	}
	if effects.Any(statefulEffects) {
		s.track(effects)
	}
	if effects.Has(sqlplan.EffectUnknown) && s.changesModes() {
		s.modes.forget()
	}
	if effects.Has(sqlplan.EffectCharset) {
		s.modes.setCharset(charsetOf(sql, s.modes.mode))
	}
	if effects.Has(sqlplan.EffectUse) {
		if name, ok := usedSchema(sql, s.modes.mode); ok && s.plan.Type() == sqlplan.TypeUse {
			s.modes.useSchema(name)
		} else {
			s.modes.forget() // a prepared statement, or one of several statements
		}
	}
	if effects.Has(sqlplan.EffectSQLMode) {
		if mode, known := s.plan.SessionMode(sql, s.modes.mode); known {
			s.modes.setSQLMode(mode)
		} else {
			s.modes.forget()
		}
	}
	if s.caps.Has(mysqlwire.CapSessionTrack) && s.resp.Status.Has(mysqlwire.StatusSessionChanged) {
		s.trackSchema()
	}
}

// readingEffects decide how the next statement is read. A failed statement may have had them in part: TiDB
// keeps the assignments of a SET that precede the failing one.
const readingEffects = sqlplan.EffectUse | sqlplan.EffectCharset | sqlplan.EffectSQLMode

// trackSchema takes the default schema from the server's session tracking, if present.
func (s *session) trackSchema() {
	var ok mysqlwire.OK
	if s.resp.Last == nil || ok.Decode(s.resp.Last, s.caps) != nil {
		return
	}
	for it := ok.StateChanges(); it.Next(); {
		if c := it.Change(); c.Type == mysqlwire.StateSchema {
			s.modes.reportSchema(c.Value)
		}
	}
}

// beginRecord resets the record for the current statement.
func (s *session) beginRecord() {
	r := &s.rec
	*r = querylog.Record{} // a literal with the fields would be built on the stack and copied
	r.Start, r.Command, r.BytesIn = s.msg.start, s.msg.cmd, s.msg.bytes
	r.ConnectionID, r.Writer, r.Client = uint64(s.connID), s.writer, s.remote
	r.User, r.Schema, r.Backend = s.modes.user, s.modes.schema, s.to.Addr
	s.plan, s.failed, s.sent, s.firstByte = nil, nil, time.Time{}, time.Time{}
	s.unreadable, s.parts = false, nil
	s.resp = mysqlwire.Response{}
}

// record completes the record of the current statement and passes it to the log and the observers. err is the
// error that ended the session with the statement, if any.
func (s *session) record(err error) {
	now := time.Now()
	r := &s.rec
	r.Total = now.Sub(r.Start)
	if !s.sent.IsZero() && !s.firstByte.IsZero() {
		r.FirstByte = s.firstByte.Sub(s.sent)
		r.Upstream = s.lastByte.Sub(s.sent)
	}
	r.RowsReturned, r.RowsAffected = s.resp.Rows, s.resp.Affected
	r.Warnings, r.Results = uint16(min(s.resp.Warnings, 0xFFFF)), s.resp.Results
	r.ErrorOwn = s.resp.Errno == 0
	switch {
	case s.resp.Errno != 0:
		r.ErrorNumber, r.Server = s.resp.Errno, s.modes.mode.Server().Kind
		s.recordError()
	case s.failed != nil:
		r.ErrorNumber, r.SQLState, r.ErrorText = uint16(s.failed.errno), s.failed.errno.State(), []byte(s.failed.msg)
	case err != nil:
		r.ErrorNumber, r.SQLState = uint16(mysqlwire.ErrnoNetWrite), mysqlwire.ErrnoNetWrite.State()
		r.ErrorText = []byte(err.Error())
	}
	s.noteTransaction(now)
	if s.unreadable {
		s.open.last = sqldigest.Digest{}
		// A text whose strings may end elsewhere can expose their contents.
		r.Text, r.Normalized, r.Digest, r.Tags, r.StatementName = nil, nil, [16]byte{}, nil, nil
	}
	s.counters.statement(s.plan, r)
	s.counters.live.record(now.Sub(s.srv.started), r.Total, r.ErrorNumber != 0)
	s.srv.opts.Log.Log(r)
	for _, o := range s.srv.opts.Observers {
		o.Observe(r)
	}
}

// noteTransaction numbers the statement's transaction, from the statement that started it to the one that
// ended it.
func (s *session) noteTransaction(now time.Time) {
	open := s.modes.status.Has(mysqlwire.StatusInTrans)
	if open && s.transaction == 0 {
		s.transaction = s.srv.transactions.Add(1)
		s.open.since = s.rec.Start.Sub(s.srv.started)
		s.nextOnly = false
	}
	if open {
		s.open.waits, s.open.last = now.Sub(s.srv.started), s.rec.Digest
	}
	s.rec.TransactionID = s.transaction
	if !open {
		s.transaction = 0
	}
}
