package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

// longText serves a statement that is longer than the statement memory: it is digested while it is forwarded,
// and its last piece is sent after the rules allowed it.
func (s *session) longText() error {
	sql, err := s.sqlOf(s.msg.body)
	if err != nil { // query attributes may be longer than the buffer
		if err := s.bufferCommand(s.srv.opts.StatementMemory); err != nil {
			return err
		}
		sql, err = s.sqlOf(s.msg.body)
	}
	if err != nil {
		return s.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: "+err.Error())
	}
	s.digester.Reset(s.mode)
	if s.msg.cmd == mysqlwire.ComQuery && s.executesSeveral() && s.srv.opts.Planner.HasRules() {
		s.parts = &parts{session: s, exact: true, counted: true}
		s.parts.digester.Reset(s.mode)
	}
	l := &longStatement{session: s, skip: len(s.msg.body) - len(sql), keep: s.srv.opts.Log.OriginalText()}
	if err = s.forward(l); err == nil && !l.refused {
		s.sent = time.Now()
		s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
		if s.msg.cmd == mysqlwire.ComStmtPrepare && s.statements.moved {
			err = s.renumber()
		}
		if err == nil {
			err = s.relay()
		}
		if err == nil {
			s.afterStatement()
		}
	}
	s.parts = nil
	s.record(err)
	return err
}

// executesSeveral reports whether the server executes several statements of a text one after the other. TiDB parses
// all of them first.
func (s *session) executesSeveral() bool {
	return s.takesSeveral() && s.mode.Server().Kind != sqldigest.ServerTiDB
}

// A longStatement is a statement that is forwarded in pieces. see is called for each piece after the first
// packet header; before is called once all pieces were seen and the last one has not been forwarded yet.
type longStatement struct {
	*session
	skip int // bytes before the text
	keep int // bytes of the text to keep for the log

	semicolon bool // in the text, which may be several statements
	refused   bool
}

func (l *longStatement) see(p []byte) {
	k := min(l.skip, len(p))
	l.skip -= k
	p = p[k:]
	_, _ = l.digester.Write(p)
	l.semicolon = l.semicolon || bytes.IndexByte(p, ';') >= 0
	l.task.Spend(digestWork * len(p))
	if room := l.keep - len(l.rec.Text); room > 0 {
		l.rec.Text = append(l.rec.Text, p[:min(room, len(p))]...)
	}
	l.rec.TextBytes += len(p)
	if l.parts != nil {
		l.parts.see(p)
	}
}

// before returns the refusal of the statement, or nil.
func (l *longStatement) before() *clientError {
	arrived := time.Now()
	digest := l.digester.Sum()
	if l.parts != nil && l.parts.refused == nil {
		l.parts.judge()
	}
	l.planText(l.digester.Text(), digest, false)
	l.rec.Plan = l.sent.Sub(arrived)
	if l.parts != nil && l.parts.refused != nil {
		return l.parts.refused
	}
	return l.refusal()
}

// parts judges the statements of a text, which semicolons separate, one by one. A refused one is overwritten, with all
// that follows, by a text that the server cannot parse: the server executes the statements before it, and then fails.
// A semicolon in the body of stored code separates too: its parts are judged as statements, and a definition of which
// one is overwritten has no end.
type parts struct {
	*session
	digester sqldigest.Digester
	after    sqlplan.After // of the statements before the current one
	refused  *clientError
	start    int  // offset in the text of the current statement, later of what is to be overwritten
	seen     int  // bytes of the text
	blanked  bool // the server will not execute the refused statement

	whole    int // offset of the last statement that was not empty
	complete int // offset of the semicolon after it

	effects sqlplan.Effect // of the statements before the current one
	results uint32         // of the statements before the current one, at least
	counted bool           // further statements have a result
	exact   bool           // the statements before have no more results
}

func (j *parts) see(p []byte) {
	j.seen += len(p)
	if j.refused != nil {
		return
	}
	j.task.Spend(digestWork * len(p))
	for {
		n, ended := j.digester.WriteStatement(p)
		if p = p[n:]; !ended {
			return
		}
		if j.judge(); j.refused != nil {
			return
		}
		start := j.start
		empty := len(j.digester.Text()) == 0
		j.start = j.seen - len(p) - j.digester.Next()
		if empty {
			j.exact = false // a text without a statement is an error
		} else {
			j.whole, j.complete = start, j.start-1
		}
	}
}

// judge applies the rules to the current statement.
func (j *parts) judge() {
	digest := j.digester.Sum()
	text := j.digester.Text()
	if len(text) == 0 {
		return
	}
	scope := j.scope.After(j.after)
	if j.digester.Divergent() {
		scope = scope.Divergent()
	}
	plan := j.srv.opts.Planner.Get(digest, scope)
	if plan == nil {
		plan = j.makePart(sqlplan.Statement{SQL: text, After: j.after, Text: text, Digest: digest, Scope: scope, Schema: j.schema, User: j.user, Mode: j.mode})
	}
	if v, _ := plan.Verdict(); v.Refuses() {
		j.plan = plan
		j.refused = j.refusal()
		return
	}
	j.after |= plan.After()
	j.count(plan)
	e := plan.Effects()
	if plan.Type() == sqlplan.TypeCall {
		e &^= sqlplan.EffectUnknown // see changesModes
	}
	j.effects |= e
}

// follow applies the effects of the statements before the refused one.
func (j *parts) follow() {
	if j.effects.Has(sqlplan.EffectSchema) {
		j.srv.opts.Planner.Invalidate()
	}
	if j.effects.Any(statefulEffects) {
		j.track(j.effects)
	}
	if j.effects.Any(readingEffects | sqlplan.EffectUnknown) {
		j.forgetModes()
	}
}

// makePart parses a statement outside the loop.
func (j *parts) makePart(st sqlplan.Statement) (plan *sqlplan.Plan) {
	j.task.Block(func() { plan = j.srv.opts.Planner.Plan(st) })
	return plan
}

// count counts the results of a statement.
func (j *parts) count(plan *sqlplan.Plan) {
	switch t := plan.Type(); {
	case t == sqlplan.TypeUnknown, j.after&sqlplan.AfterRoutine != 0: // it may be a part of a statement
		j.counted, j.exact = false, false
	case t == sqlplan.TypeCall, t == sqlplan.TypeExecute, t == sqlplan.TypeMulti:
		j.exact = false
	}
	if j.counted {
		j.results++
	}
}

// failed reports whether the error that ended the response is that of the overwritten statement. An error of a
// statement before it is taken for that if it is a syntax error within a statement that may have several results.
func (j *parts) failed(r *mysqlwire.Response) bool {
	return r.Results-1 >= j.results && (j.exact || r.Errno == uint16(mysqlwire.ErrnoSyntax))
}

// blank overwrites what the piece contains of the refused statement and of the text after it; in is the number of
// payload bytes of the last packet in the piece. Unless the text has ended, too few bytes are left for later.
func (j *parts) blank(piece []byte, in int, last bool) {
	first, second := payloads(piece, in)
	n := j.seen - j.start
	if n < len(second) {
		first, second = nil, second[len(second)-n:]
	} else {
		first = first[max(0, len(first)+len(second)-n):]
	}
	text := unparsableEnd
	if j.blanked {
		text = ""
	} else if !last && len(first)+len(second) < len(text) {
		return
	}
	fill(first, second, text)
	j.blanked, j.start = true, j.seen
}

// refusedParts overwrites a refused one of several statements in a piece that is not the last. It reports whether the
// server receives nothing of the text, since it has received nothing and the first statement is refused.
func (s *session) refusedParts(piece []byte, in int, sent bool) (discard bool) {
	j := s.parts
	if j == nil || j.refused == nil {
		return false
	}
	if !sent && j.start == 0 {
		return true
	}
	j.blank(piece, in, false)
	return false
}

// reopen makes the last statement the refused one if the text as a whole is refused, and reports whether the server
// has not received all of it.
func (j *parts) reopen(piece []byte, in int) bool {
	if j.refused != nil {
		return true
	}
	if j.results > 0 {
		j.results--
	}
	if len(j.digester.Text()) > 0 {
		return true
	}
	first, second := payloads(piece, in)
	j.start = j.whole
	return j.seen-j.complete <= len(first)+len(second)
}

// unparsableEnd makes a text that ends with it, and with spaces, one that servers cannot parse, wherever it begins: in
// a string or name in any quotes, after a backslash, in a comment or between tokens. It opens a string, a
// name or a comment that is not closed. At the start of a statement, its first byte suffices.
const unparsableEnd = ")\n'\"`/*"

// payloads returns the payload in a piece of a command, whose last packet has in payload bytes there: a packet that is
// not the last one is longer than pieces.
func payloads(piece []byte, in int) (first, second []byte) {
	last := max(0, len(piece)-in)
	return piece[:max(0, last-mysqlwire.HeaderLen)], piece[last:]
}

// fill overwrites two parts of a text with another one, and spaces.
func fill(first, second []byte, text string) {
	for _, payload := range [...][]byte{first, second} {
		k := copy(payload, text)
		text = text[k:]
		for i := k; i < len(payload); i++ {
			payload[i] = ' '
		}
	}
}

// refuseLong refuses a statement whose last piece is the end of the client's buffer, and whose last packet has in bytes
// there. If the server has received the pieces before, it receives the last one as a text that it cannot parse. The
// session ends without the last piece if the server would execute statements of which only the text as a whole is
// refused: it has received the last one with its semicolon, or rules were set meanwhile.
func (s *session) refuseLong(t *longStatement, e *clientError, piece []byte, in int, sent bool) error {
	s.counters.refused.Add(1)
	s.failed, t.refused = e, true
	if !sent && (s.parts == nil || s.parts.start == 0 && !s.parts.blanked) {
		s.client.Discard(len(piece))
		s.rec.BytesIn += uint64(len(piece))
		return s.endRefused(s.dropped(), e)
	}
	switch {
	case s.parts != nil && s.parts.reopen(piece, in):
		s.parts.blank(piece, in, true)
	case s.msg.cmd == mysqlwire.ComQuery && t.semicolon && s.executesSeveral():
		_ = s.sendError(s.msg.seq+1, e, true)
		return fmt.Errorf("%w: %w", errRefused, e)
	default:
		first, second := payloads(piece, in)
		fill(first, second, unparsableEnd)
	}
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
	if err := s.forwardClient(len(piece)); err != nil {
		return err
	}
	if s.parts != nil {
		return s.endParts(e)
	}
	if _, err := s.skipResponse(s.msg.cmd, s.msg.seq+1); err != nil {
		return err
	}
	return s.endRefused(s.dropped(), e)
}

// endParts relays the response to the statements before the refused one, and the refusal in place of the error after
// them.
func (s *session) endParts(e *clientError) error {
	s.sent = time.Now()
	if err := s.relay(); err != nil {
		return err
	}
	if s.failed == nil { // a statement before it failed
		s.afterStatement()
		return nil
	}
	s.parts.follow()
	s.resp.Errno = 0
	if s.resp.Results--; s.resp.Results == 0 {
		s.sent = time.Time{}
	}
	seq := s.resp.NextSeq() - 1
	if err := s.failAtServer(s.dropped(), e); err != nil {
		return err
	}
	return s.sendError(seq, e, true)
}
