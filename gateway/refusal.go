package gateway

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

// A refused command leaves the session as an error of the server would, because the server fails in its place:
// it executes a SIGNAL with the number and text of the refusal, after commands that drop what a failure of the
// refused command drops: the last prepared statement (PREPARE), long data and the cursor (EXECUTE), the
// statement of that name (PREPARE … FROM). Of several statements in one text, those before the refused one are
// executed. The client receives the gateway's ERR packet in place of the server's.

// refuseStatement responds to the current command with a refusal, and records it.
func (s *session) refuseStatement(e *clientError) error {
	err := s.refuse(e)
	s.record(err)
	return err
}

// respondError responds to the current command with an error of the gateway, and records it.
func (s *session) respondError(e *clientError) error {
	s.failed = e
	err := s.discardRest()
	if err == nil {
		err = s.sendError(s.msg.seq+1, e, true)
	}
	s.record(err)
	return err
}

// refuse responds to the current command with a refusal.
func (s *session) refuse(e *clientError) error {
	s.counters.refused.Add(1)
	s.failed = e
	drop := s.dropped()
	if err := s.discardRest(); err != nil {
		return err
	}
	return s.endRefused(drop, e)
}

// endRefused has the server fail, and responds to the current command, which was read.
func (s *session) endRefused(drop [][]byte, e *clientError) error {
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // the sequence number of an error
	seq := s.msg.seq + 1
	if sql := s.severalStatements(); sql != nil {
		allowed, plan := s.allowedPart(sql)
		drop = s.droppedName(drop, sql[len(allowed):])
		if plan != nil {
			ended, err := s.executeAllowed(allowed, len(s.msg.body)-len(sql), plan)
			if ended || err != nil {
				return err
			}
			seq = s.resp.NextSeq() - 1
		}
	}
	if s.resp.Results == 0 {
		s.sent = time.Time{} // the record has no times of the backend
	}
	if err := s.failAtServer(drop, e); err != nil {
		return err
	}
	return s.sendError(seq, e, true)
}

// unparsable is a text that no server can prepare.
const unparsable = ") Tare refused this statement"

// dropped returns commands that drop what the server drops when the current command fails.
func (s *session) dropped() [][]byte {
	switch s.msg.cmd {
	case mysqlwire.ComStmtPrepare:
		return [][]byte{append([]byte{byte(mysqlwire.ComStmtPrepare)}, unparsable...)}
	case mysqlwire.ComStmtExecute, mysqlwire.ComStmtBulkExecute:
		const id = 4
		return [][]byte{append([]byte{byte(mysqlwire.ComStmtReset)}, s.msg.body[1:1+id]...)}
	case mysqlwire.ComQuery:
		switch {
		case s.parts != nil:
			return s.droppedName(nil, s.parts.digester.Text())
		case s.plan.Type() != sqlplan.TypePrepare:
		case s.msg.whole:
			return s.droppedName(nil, s.rec.Text)
		default:
			return s.droppedName(nil, s.rec.Normalized)
		}
	}
	return nil
}

// droppedName adds the command that drops the statement that the first statement of sql prepares by name.
func (s *session) droppedName(drop [][]byte, sql []byte) [][]byte {
	sql = bytes.TrimPrefix(sql, []byte{';'})
	var l sqldigest.Lexer
	l.Reset(sql, s.mode)
	if t := l.NextSignificant(); !isAny(sql[t.Start:t.End], "PREPARE") || s.unreadable {
		return drop
	}
	name := preparedName(sql, s.mode)
	if name == nil {
		return drop
	}
	return append(drop, mysqlwire.AppendQuery(nil, appendQuoted([]byte("DEALLOCATE PREPARE "), name), s.caps))
}

// failAtServer has the server execute commands and fail with an error. It reads the responses.
func (s *session) failAtServer(commands [][]byte, e *clientError) error {
	commands = append(commands, mysqlwire.AppendQuery(nil, e.appendSignal(nil), s.caps))
	var b []byte
	for _, c := range commands {
		b, _ = mysqlwire.AppendPacket(b, c, 0)
	}
	if _, err := s.backend.Write(b); err != nil {
		return s.writeFailed(err)
	}
	for _, c := range commands {
		errno, err := s.skipResponse(mysqlwire.Command(c[0]), 1)
		if err != nil {
			return err
		}
		if c[0] == byte(mysqlwire.ComStmtPrepare) {
			s.statements.forgetLast(errno)
		}
	}
	return nil
}

// skipResponse reads the response to a command, whose first packet has sequence number seq, and discards it. It
// returns the number of the response's error.
func (s *session) skipResponse(cmd mysqlwire.Command, seq uint8) (errno uint16, err error) {
	var r mysqlwire.Response
	for r.Begin(cmd, s.caps, seq); ; {
		n, ev, err := r.Scan(s.backend.Buffered())
		s.backend.Discard(n)
		switch {
		case err != nil:
			return 0, s.backendBroken(err)
		case ev == mysqlwire.EventDone:
			return r.Errno, nil
		}
		if err := s.fillBackend(); err != nil {
			return 0, err
		}
	}
}

// maxSignalText is the maximum length of MESSAGE_TEXT on MySQL; MariaDB permits more.
const maxSignalText = 128

// appendSignal appends a statement that fails with e.
func (e *clientError) appendSignal(dst []byte) []byte {
	dst = fmt.Appendf(dst, "SIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = ", e.errno.State(), uint16(e.errno))
	text := e.signalText()
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' { // may end the string, or differ between character sets
			return append(hex.AppendEncode(append(dst, "_utf8mb4 x'"...), []byte(text)), '\'')
		}
	}
	return append(append(append(dst, '\''), text...), '\'')
}

// signalText returns the part of the message that a SIGNAL can have.
func (e *clientError) signalText() string {
	n := min(len(e.msg), maxSignalText)
	for n > 0 && n < len(e.msg) && !utf8.RuneStart(e.msg[n]) {
		n--
	}
	return e.msg[:n]
}

// discardRest reads the rest of a command that is not buffered whole, and discards it.
func (s *session) discardRest() error {
	if s.msg.whole {
		return nil
	}
	return s.stream(nil, true)
}

// severalStatements returns the text of the current command if the server would execute its statements one after
// the other. TiDB parses all of them first, and could not parse the SIGNAL.
func (s *session) severalStatements() []byte {
	sql := s.rec.Text
	switch {
	case s.msg.cmd != mysqlwire.ComQuery, !s.msg.whole, s.msg.body == nil, s.plan.Type() != sqlplan.TypeMulti, !s.executesSeveral(),
		s.unreadable, s.mode.Unknown(),
		bytes.Contains(sql, []byte("/*!")), bytes.Contains(sql, []byte("/*M!")), // a comment may contain a semicolon
		len(s.msg.body)+len(signalEnd) >= mysqlwire.MaxPayload:
		return nil
	}
	return sql
}

// takesSeveral reports whether the connection permits several statements in one text.
func (s *session) takesSeveral() bool {
	switch s.multi {
	case uint16(mysqlwire.OptionMultiStatementsOn) + 1:
		return true
	case uint16(mysqlwire.OptionMultiStatementsOff) + 1:
		return false
	}
	return s.caps.Has(mysqlwire.CapMultiStatements)
}

// allowedPart returns the longest part of the text that consists of whole statements, begins with the first, and
// is not refused, and its plan; nil if the first statement is refused.
func (s *session) allowedPart(sql []byte) (allowed []byte, plan *sqlplan.Plan) {
	ends := statementEnds(sql, s.mode)
	s.task.Block(func() {
		sort.Search(len(ends), func(i int) bool {
			p := s.planPart(sql[:ends[i]])
			verdict, _ := p.Verdict()
			if verdict.Refuses() {
				return true
			}
			allowed, plan = sql[:ends[i]], p // longer than those before
			return false
		})
	})
	return allowed, plan
}

// planPart plans a part of the current text, all of which is read in one way.
func (s *session) planPart(sql []byte) *sqlplan.Plan {
	var d sqldigest.Digester
	digest := d.Digest(sql, s.mode)
	scope := s.scope
	if d.Divergent() {
		scope = scope.Divergent()
	}
	return s.srv.opts.Planner.Plan(sqlplan.Statement{
		SQL: sql, Complete: true, Text: d.Text(), Digest: digest, Scope: scope, Schema: s.schema, User: s.user, Mode: s.mode,
	})
}

// statementEnds returns the offsets of the semicolons after the statements of a text, up to the first statement
// that may contain semicolons itself.
func statementEnds(sql []byte, m sqldigest.Mode) (ends []int) {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	start, begin := true, false
	for {
		t := l.NextSignificant()
		word := sql[t.Start:t.End]
		switch {
		case t.Kind == sqldigest.KindEOF:
			return ends
		case t.Kind == sqldigest.KindOperator && len(word) == 1 && word[0] == ';':
			ends, start, begin = append(ends, t.Start), true, false
		case begin: // BEGIN WORK, or a block
			return ends
		case start && isAny(word, "BEGIN"):
			start, begin = false, true
		case start && !isAny(word, "SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "VALUES", "TABLE", "(", "SET", "DO", "CALL", "SHOW",
			"USE", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "LOCK", "UNLOCK", "CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE",
			"ANALYZE", "OPTIMIZE", "CHECK", "CHECKSUM", "REPAIR", "GRANT", "REVOKE", "FLUSH", "KILL", "EXPLAIN", "DESCRIBE", "DESC",
			"PREPARE", "EXECUTE", "DEALLOCATE", "LOAD", "HANDLER", "XA", "SIGNAL", "RESIGNAL", "GET", "HELP"):
			return ends
		default:
			start = false
		}
	}
}

// signalEnd is appended to the allowed part of a text. Its error, which no server has, marks the end of that
// part's response.
const (
	signalEnd   = "; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 64999"
	errnoAtPart = 64999
)

// executeAllowed has the server execute the allowed part of the current COM_QUERY's text, which begins at an
// offset of its body. It relays the response up to the end of its last result, after which an error has to
// follow, and reports whether a statement failed before.
func (s *session) executeAllowed(allowed []byte, at int, plan *sqlplan.Plan) (ended bool, err error) {
	n := at + len(allowed)
	header := mysqlwire.Header{Len: n + len(signalEnd)}.AppendTo(nil)
	for _, b := range [...][]byte{header, s.msg.body[:n], []byte(signalEnd)} {
		if _, err := s.backend.Write(b); err != nil {
			return true, s.writeFailed(err)
		}
	}
	if err := s.relay(); err != nil {
		return true, err
	}
	if s.failed == nil {
		s.afterStatement()
		return true, nil
	}
	s.resp.Errno = 0
	s.resp.Results--
	whole, text := s.plan, s.rec.Text
	s.plan, s.rec.Text = plan, allowed
	s.afterStatement()
	s.plan, s.rec.Text = whole, text
	return false, nil
}

// atRefused reports whether the error that ended a refused text's response is in place of the refused statement.
func (s *session) atRefused() bool {
	if s.parts != nil {
		return s.parts.failed(&s.resp)
	}
	return s.resp.Errno == errnoAtPart
}

// withoutSignal returns the end of a refused text's response without the error in place of the refused statement.
// Another end is the result of the command.
func (s *session) withoutSignal(b []byte) []byte {
	if s.atRefused() {
		return b[:len(b)-mysqlwire.HeaderLen-len(s.resp.Last)]
	}
	s.failed = nil
	return b
}
