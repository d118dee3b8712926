package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
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
	s.digester.Reset(s.modes.mode)
	if s.msg.cmd == mysqlwire.ComQuery && s.executesSeveral() && s.srv.opts.Planner.HasRules() {
		s.parts = newParts(&s.modes, s.task)
	}
	l := &longStatement{session: s, skip: len(s.msg.body) - len(sql), keep: s.srv.opts.Log.OriginalText()}
	if err = s.forward(l); err == nil && !l.refused {
		s.sent = time.Now()
		s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
		if s.msg.cmd == mysqlwire.ComStmtPrepare && s.statements.moved {
			err = s.renumber(&s.statements)
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
	return s.takesSeveral() && s.modes.mode.Server().Kind != sqldigest.ServerTiDB
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
	return l.textRefusal()
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
