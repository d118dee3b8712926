package gateway

import (
	"encoding/binary"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// An Observer receives each statement when it finishes. The record and the slices in it are valid during the
// call only. Sessions call Observe concurrently; it must not block or allocate.
type Observer interface {
	Observe(r *querylog.Record)
}

// An executor executes the statements of a session: it identifies each by its digest and plan, has the rules judge it, passes
// it on, applies its effects to the session's state, and records it.
type executor struct {
	relayer
	writer      uint64 // number of the loop for the log, from 1; 0 without one
	statements  prepared
	transaction transaction
	carried     carried
}

// join makes the session a task.
func (x *executor) join(t *netloop.Task) {
	x.relayer.join(t)
	if loop, ok := t.Loop(); ok {
		x.writer = uint64(loop) + 1
	}
}

// text serves COM_QUERY and COM_STMT_PREPARE, the statements sent as text.
func (x *executor) text() error {
	if !x.wasPlanned() {
		x.beginRecord()
		x.modes.followRules()
		if !x.msg.whole {
			return x.longText()
		}
		sql, err := sqlOf(x.msg.body, x.caps)
		if err != nil {
			return x.malformedQuery()
		}
		x.planWhole(sql)
	}
	if x.msg.cmd == mysqlwire.ComStmtPrepare && x.statements.moved {
		return x.prepareElsewhere()
	}
	return x.statement()
}

// planWhole finds or creates the plan of a text that is buffered whole.
func (x *executor) planWhole(sql []byte) {
	x.rec.Text = sql
	x.planText(sql, x.digest(sql), true)
	switch x.plan.Type() {
	case sqlplan.TypePrepare, sqlplan.TypeExecute, sqlplan.TypeDeallocate:
		x.rec.StatementName = preparedName(sql, x.modes.mode)
	}
}

// malformedQuery serves a COM_QUERY whose query attributes cannot be decoded: the server receives one without any
// bytes in its place, and refuses it with its own error.
func (x *executor) malformedQuery() error {
	x.sent = time.Now()
	err := x.exchangeAs([]byte{byte(mysqlwire.ComQuery)})
	x.record(err)
	return err
}

// blockText is the length in bytes from which a text is read outside the loop.
const blockText = 32 << 10

// digestWork is the cost of digesting one byte, in bytes of a task's budget.
const digestWork = 4

// digest digests a statement that is buffered whole.
func (x *executor) digest(sql []byte) (d sqldigest.Digest) {
	if len(sql) < blockText {
		return x.digester.Digest(sql, x.modes.mode)
	}
	return x.digestLong(sql)
}

func (x *executor) digestLong(sql []byte) (d sqldigest.Digest) {
	x.task.Block(func() { d = x.digester.Digest(sql, x.modes.mode) })
	return d
}

// sqlOf returns the text in the body of a COM_QUERY or COM_STMT_PREPARE.
func sqlOf(body []byte, caps mysqlwire.Capability) ([]byte, error) {
	if mysqlwire.Command(body[0]) == mysqlwire.ComStmtPrepare {
		return body[1:], nil
	}
	return mysqlwire.Query(body, caps)
}

// planText finds or creates the statement's plan.
func (x *executor) planText(sql []byte, d sqldigest.Digest, complete bool) {
	x.rec.Digest = d
	x.rec.Normalized, x.rec.NormalizedCut = x.digester.Text(), x.digester.TextTruncated()
	x.rec.Tags = x.collectTags()
	x.divergent = x.digester.Divergent()
	x.unreadable = x.divergent
	x.findPlan(sql, complete, x.divergent)
}

// findPlan finds or creates the plan of the statement in the record.
func (x *executor) findPlan(sql []byte, complete, divergent bool) {
	x.planIn(sql, complete, divergent, x.modes.scope, x.modes.schema, x.modes.mode)
}

// findPrepared finds or creates the plan of a prepared statement: the server resolves its names in the schema
// and modes of its PREPARE.
func (x *executor) findPrepared(st *preparedStatement) {
	if st.schema == x.modes.schema && st.mode == x.modes.mode {
		x.findPlan(st.text, false, st.divergent)
		return
	}
	x.planIn(st.text, false, st.divergent, x.modes.scopeIn(st.schema, st.mode), st.schema, st.mode)
}

// planIn finds or creates the plan of the statement in the record under a scope, which corresponds to schema
// and mode.
func (x *executor) planIn(sql []byte, complete, divergent bool, scope sqlplan.Scope, schema string, mode sqldigest.Mode) {
	if divergent {
		scope = scope.Divergent()
	}
	x.plan = x.srv.opts.Planner.Get(x.rec.Digest, scope)
	x.rec.PlanCached = x.plan != nil
	if x.plan == nil {
		x.makePlan(&sqlplan.Statement{
			SQL: sql, Complete: complete, Judged: x.parts != nil, Text: x.rec.Normalized, Digest: x.rec.Digest,
			Scope: scope, Schema: []byte(schema), User: []byte(x.modes.user), Mode: mode,
		})
	}
	x.recordPlan()
}

// makePlan parses the statement outside the loop: parsing takes long and a deep stack.
func (x *executor) makePlan(st *sqlplan.Statement) {
	x.task.Block(func() { x.plan = x.srv.opts.Planner.Plan(*st) })
}

// refuseWithoutText refuses an execution whose text was not kept, because the current rules cannot be applied to it.
func (x *executor) refuseWithoutText() error {
	return x.refuseStatement(&clientError{
		errno: mysqlwire.ErrnoSpecificAccessDenied,
		msg:   "Tare keeps the text of no further prepared statement of this session, and rules are in force: close some and prepare it again",
	})
}

// recordPlan records the plan's type, the time that planning took and whether the cache missed.
func (x *executor) recordPlan() {
	if !x.rec.PlanCached {
		x.counters.planMisses.Add(1)
	}
	x.rec.StatementType = x.plan.Type().String()
	x.sent = time.Now()
	x.rec.Plan = x.sent.Sub(x.msg.start)
}

// statement forwards the planned statement, unless a rule refuses it, and relays its response.
func (x *executor) statement() error {
	verdict, _ := x.plan.Verdict()
	if verdict.Refuses() {
		x.judgeParts()
	}
	if verdict != sqlplan.VerdictPass {
		if e := x.textRefusal(); e != nil {
			return x.refuseStatement(e)
		}
	}
	return x.pass()
}

// pass forwards the planned statement and relays its response.
func (x *executor) pass() error {
	var err error
	if x.pooled {
		if e, err := x.beforeShared(); e != nil || err != nil {
			if err == nil {
				x.lease.touched = true // the connection has not executed the session's last statement
				return x.respondError(e)
			}
			x.record(err)
			return err
		}
	}
	if x.plan.Type() == sqlplan.TypeKill && (x.msg.cmd == mysqlwire.ComQuery || x.pooled && x.msg.cmd == mysqlwire.ComStmtExecute) {
		err = x.kill()
	} else {
		x.lease.pinged = x.maySendPing()
		x.lease.asks = x.lease.pinged
		err = x.exchange()
	}
	if err == nil {
		x.afterStatement()
		x.afterShared()
	}
	x.record(err)
	return err
}

// execution serves the commands that execute prepared statements or fetch their rows.
func (x *executor) execution() error {
	if x.wasPlanned() {
		return x.executeShared(x.lease.statement)
	}
	x.beginRecord()
	x.modes.followRules()
	st := x.statements.find(x.msg.body)
	x.msg.cursor = cursorUse(x.msg.body, st, x.modes.maria)
	if st == nil { // unknown to the backend too, or past the bound on kept statements
		x.rec.StatementID = statementID(x.msg.body)
		if x.statements.lost && x.srv.opts.Planner.HasRules() && !x.statements.noLast(x.msg.body) {
			return x.refuseWithoutText()
		}
		x.sent = time.Now()
		if x.statements.moved || x.statements.stale && x.statements.noLast(x.msg.body) {
			err := x.unknownStatement()
			x.record(err)
			return err
		}
		err := x.exchange()
		x.record(err)
		return err
	}
	x.identify(st)
	if x.pooled {
		return x.executeShared(st)
	}
	return x.executePrepared(st)
}

// identify records which statement is executed.
func (x *executor) identify(st *preparedStatement) {
	x.rec.Digest, x.rec.Normalized, x.rec.NormalizedCut = st.digest, st.text, st.cut
	x.rec.StatementID, x.unreadable = st.id, st.unreadable
	x.rec.Tags = x.listTags(st.tagText, st.tagEnds)
}

// executePrepared serves them for a statement of the client's.
func (x *executor) executePrepared(st *preparedStatement) error {
	if (st.moved || st.untyped) && !x.lease.sent {
		if e := x.translate(st); e != nil {
			return x.respondError(e)
		}
	}
	switch {
	case x.lease.planned && x.plan != nil:
	case len(st.text) > 0:
		x.findPrepared(st)
	default: // past the bound on kept texts
		if st.rules != x.modes.rules && x.srv.opts.Planner.HasRules() {
			return x.refuseWithoutText()
		}
		x.plan = st.plan
		x.recordPlan()
	}
	switch {
	case x.msg.cmd == mysqlwire.ComStmtFetch:
		err := x.exchange()
		st.fetched(err == nil && x.resp.Errno == 0 && !x.resp.Status.Has(mysqlwire.StatusLastRowSent))
		x.record(err)
		return err
	case x.msg.cmd == mysqlwire.ComStmtExecute && x.msg.whole:
		x.bind(st, x.caps)
	case x.msg.cmd == mysqlwire.ComStmtExecute:
		st.keepTypes(x.msg.body, x.caps)
	default:
		st.skipped()
	}
	x.transaction.sendsLong(false)
	if e := x.refusal(); e != nil {
		st.refuseExecution(&x.msg, x.caps)
		return x.refuseStatement(e)
	}
	err := x.pass()
	st.executed(x.resp.CursorOpen)
	return err
}

// afterStatement applies a statement's effects to the session.
func (x *executor) afterStatement() {
	if x.resp.Errno != 0 {
		if x.msg.cmd == mysqlwire.ComStmtPrepare {
			x.statements.forgetLast(x.resp.Errno)
		}
		// Statements before the failed one may have had effects.
		if x.changesModes() || x.plan.Effects().Any(readingEffects) {
			x.modes.forget()
		}
		x.trackFailed()
		return
	}
	if x.msg.cmd == mysqlwire.ComStmtPrepare {
		x.keepPrepared()
		return
	}
	effects := x.plan.Effects()
	if effects.Any(sqlplan.EffectUse | sqlplan.EffectSchema | statefulEffects) {
		x.follow(effects)
	}
}

// keepPrepared records the statement that was prepared.
func (x *executor) keepPrepared() {
	x.rec.StatementID = x.resp.StatementID
	view := preparedStatement{
		id: x.resp.StatementID, plan: x.plan, digest: x.rec.Digest, divergent: x.divergent,
		text: x.rec.Normalized, cut: x.rec.NormalizedCut, unreadable: x.unreadable, tagText: x.tagText, tagEnds: x.tagEnds,
	}
	view.schema, view.mode, view.rules = x.modes.schema, x.modes.mode, x.modes.rules
	view.readsLast = !x.msg.whole || x.mayReadLast(x.rec.Text)
	if x.tracks() {
		view.columns = x.resp.Columns()
		if x.msg.whole {
			view.sql = x.rec.Text
		}
	}
	if x.statements.moved {
		view.remote, view.moved = x.statements.remote, true
	}
	if x.pooled {
		view.serial = x.srv.serials.Add(1)
	}
	x.statements.add(x.resp.Params, view)
	if x.pooled {
		x.sharePrepared(x.statements.byID[view.id])
	}
}

// follow applies effects that change how later statements are read.
func (x *executor) follow(effects sqlplan.Effect) {
	sql := x.rec.Text
	if !x.msg.whole {
		sql = nil // the truncated text does not show its end
	}
	if effects.Has(sqlplan.EffectSchema) && !effects.Has(sqlplan.EffectTempTable) {
		x.srv.opts.Planner.Invalidate()
		if len(x.carried.pins) > 0 {
			x.carried.changesTables(x.query, x.modes.mode)
		}
	}
	if effects.Any(statefulEffects) {
		x.track(effects)
	}
	if effects.Has(sqlplan.EffectUnknown) && x.changesModes() {
		x.modes.forget()
	}
	if effects.Has(sqlplan.EffectCharset) {
		x.modes.setCharset(charsetOf(sql, x.modes.mode))
	}
	if effects.Has(sqlplan.EffectUse) {
		if name, ok := usedSchema(sql, x.modes.mode); ok && x.plan.Type() == sqlplan.TypeUse {
			x.modes.useSchema(name)
		} else {
			x.modes.forget() // a prepared statement, or one of several statements
		}
	}
	if effects.Has(sqlplan.EffectSQLMode) {
		if mode, known := x.plan.SessionMode(sql, x.modes.mode); known {
			x.modes.setSQLMode(mode)
		} else {
			x.modes.forget()
		}
	}
	if x.caps.Has(mysqlwire.CapSessionTrack) && x.resp.Status.Has(mysqlwire.StatusSessionChanged) {
		x.trackSchema()
	}
}

// readingEffects decide how the next statement is read. A failed statement may have had them in part: TiDB
// keeps the assignments of a SET that precede the failing one.
const readingEffects = sqlplan.EffectUse | sqlplan.EffectCharset | sqlplan.EffectSQLMode

// trackSchema takes the default schema from the server's session tracking, if present.
func (x *executor) trackSchema() {
	var ok mysqlwire.OK
	if x.resp.Last == nil || ok.Decode(x.resp.Last, x.caps) != nil {
		return
	}
	for it := ok.StateChanges(); it.Next(); {
		if c := it.Change(); c.Type == mysqlwire.StateSchema {
			x.modes.reportSchema(c.Value)
		}
	}
}

// beginRecord starts the record of the current statement.
func (x *executor) beginRecord() {
	x.query.begin()
	r := &x.rec
	r.ConnectionID, r.Writer, r.Client = uint64(x.connID), x.writer, x.remote
	r.User, r.Schema, r.Backend = x.modes.user, x.modes.schema, x.to.Addr
}

// record completes the record of the current statement and passes it to the log and the observers. err is the
// error that ended the session with the statement, if any.
func (x *executor) record(err error) {
	now := time.Now()
	r := &x.rec
	r.Total = now.Sub(r.Start)
	if !x.sent.IsZero() && !x.firstByte.IsZero() {
		r.FirstByte = x.firstByte.Sub(x.sent)
		r.Upstream = x.lastByte.Sub(x.sent)
	}
	r.RowsReturned, r.RowsAffected = x.resp.Rows, x.resp.Affected
	r.Warnings, r.Results = uint16(min(x.resp.Warnings, 0xFFFF)), x.resp.Results
	r.ErrorOwn = x.resp.Errno == 0
	switch {
	case x.resp.Errno != 0:
		r.ErrorNumber, r.Server = x.resp.Errno, x.modes.mode.Server().Kind
		x.recordError()
	case x.failed != nil:
		r.ErrorNumber, r.SQLState, r.ErrorText = uint16(x.failed.errno), x.failed.sqlState(), []byte(x.failed.msg)
		if x.failed.state != "" {
			r.ErrorOwn, r.Server = false, x.modes.mode.Server().Kind
		}
	case err != nil:
		r.ErrorNumber, r.SQLState = uint16(mysqlwire.ErrnoNetWrite), mysqlwire.ErrnoNetWrite.State()
		r.ErrorText = []byte(err.Error())
	}
	x.transaction.note(x.modes.status, r, now, x.srv.started, &x.srv.transactions)
	if x.unreadable {
		x.transaction.hide()
		// A text whose strings may end elsewhere can expose their contents.
		r.Text, r.Normalized, r.Digest, r.Tags, r.StatementName = nil, nil, [16]byte{}, nil, nil
	}
	x.counters.statement(x.plan, r)
	x.counters.live.record(now.Sub(x.srv.started), r.Total, r.ErrorNumber != 0)
	x.srv.opts.Log.Log(r)
	for _, o := range x.srv.opts.Observers {
		o.Observe(r)
	}
}

// statementCommand serves the commands on prepared statements that do not execute them.
func (x *executor) statementCommand() error {
	st := x.statements.find(x.msg.body)
	if x.pooled && st != nil {
		return x.sharedCommand(st)
	}
	switch x.msg.cmd {
	case mysqlwire.ComStmtSendLongData:
		x.statements.longData(x.msg.body)
		x.transaction.sendsLong(true)
	case mysqlwire.ComStmtReset:
		x.statements.reset(x.msg.body)
		x.transaction.sendsLong(false)
	case mysqlwire.ComStmtClose:
		x.statements.close(x.msg.body)
		x.transaction.sendsLong(false)
	}
	if x.statements.stale && x.statements.noLast(x.msg.body) {
		return x.unknownStatement()
	}
	if x.statements.moved {
		if st == nil {
			return x.unknownStatement()
		}
		binary.LittleEndian.PutUint32(x.msg.body[1:], st.remote)
	}
	if x.msg.cmd == mysqlwire.ComStmtReset {
		return x.exchange()
	}
	if err := x.forward(nil); err != nil {
		return err
	}
	return x.unsolicited()
}

// setOption changes a setting of the connection.
func (x *executor) setOption() error {
	var o mysqlwire.SetOption
	err := o.Decode(x.msg.body)
	if err2 := x.exchange(); err2 != nil {
		return err2
	}
	if x.resp.Errno == 0 && err == nil {
		x.carried.setOption(o.Option)
	}
	return nil
}

// readsLastStatement reports whether the command may read what the server keeps of the previous statement,
// which an internal query would replace.
func (x *executor) readsLastStatement() bool {
	switch x.msg.cmd {
	case mysqlwire.ComQuery, mysqlwire.ComStmtPrepare:
		return x.mayReadLast(x.msg.body)
	case mysqlwire.ComStmtExecute, mysqlwire.ComStmtBulkExecute:
		st := x.statements.find(x.msg.body)
		return st != nil && st.readsLast
	}
	return false
}

// mayReadLast searches a long text outside the loop.
func (x *executor) mayReadLast(text []byte) bool {
	if len(text) < blockText {
		return mayReadLast(text)
	}
	return x.longMayReadLast(text)
}

func (x *executor) longMayReadLast(text []byte) (may bool) {
	x.task.Block(func() { may = mayReadLast(text) })
	return may
}

// mayReadLast searches for words anywhere in the text, because the modes for reading it are not known.
func mayReadLast(text []byte) bool {
	for i, b := range text {
		var word string
		switch b | 0x20 {
		case 'r':
			word = "ROW_COUNT"
		case 'f':
			word = "FOUND_ROWS"
		case 'w':
			word = "WARNING"
		case 'e':
			word = "ERROR"
		case 'd':
			word = "DIAGNOSTICS"
		case 'o':
			word = "OPTIMIZER_TRACE"
		case 'p':
			word = "PROFIL"
		case 's':
			word = "STATUS"
		default:
			continue
		}
		if rest := text[i:]; len(rest) >= len(word) && isAny(rest[:len(word)], word) {
			return true
		}
	}
	return false
}

// trackFailed pins the session if a failed statement may have left state before it failed.
func (x *executor) trackFailed() {
	if !x.tracks() || x.resp.Errno == uint16(mysqlwire.ErrnoSyntax) && x.resp.Results == 1 {
		return
	}
	effects := x.plan.Effects()
	if x.resp.Results == 1 {
		effects &^= replayedEffects // a single statement set nothing
	}
	if effects.Any(statefulEffects) {
		x.track(effects)
	}
}

// tracks reports whether the session may go on with another connection.
func (x *executor) tracks() bool { return x.srv.opts.Standby != nil || x.pooled }

// track records the effects of the current statement on its session.
func (x *executor) track(effects sqlplan.Effect) {
	if x.tracks() && x.carried.track(x.query, x.modes.mode, effects) {
		x.transaction.startsNext()
	}
	if x.lease.shared != nil && x.mentions("PROFILING", "OPTIMIZER_TRACE") {
		x.lease.shared.Value.last = true // a reset removes neither SHOW PROFILES nor MySQL's traces, which have the texts of statements
	}
}
