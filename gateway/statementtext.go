package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// usedSchema returns the unquoted schema of the last USE in sql.
func usedSchema(sql []byte, m sqldigest.Mode) (name []byte, ok bool) {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	start := true // of a statement
	for {
		t := l.NextSignificant()
		if t.Kind == sqldigest.KindEOF {
			return name, ok
		}
		word := sql[t.Start:t.End]
		if start && bytes.EqualFold(word, []byte("USE")) {
			t = l.NextSignificant()
			switch t.Kind {
			case sqldigest.KindQuotedIdent:
				name, ok = unquote(sql[t.Start:t.End]), true
			case sqldigest.KindIdent, sqldigest.KindKeyword:
				name, ok = sql[t.Start:t.End:t.End], true
			}
		}
		start = t.Kind == sqldigest.KindOperator && len(word) == 1 && word[0] == ';'
	}
}

// unquote removes the quotes of an identifier.
func unquote(s []byte) []byte {
	q := s[:1]
	s = bytes.TrimSuffix(s[1:], q)
	return bytes.ReplaceAll(s, append(bytes.Clone(q), q...), q)
}

// preparedName returns the unquoted name in a PREPARE, EXECUTE or DEALLOCATE PREPARE, as a view of sql if
// possible. EXECUTE IMMEDIATE has none. It allocates only for a name that contains a quote.
func preparedName(sql []byte, m sqldigest.Mode) []byte {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	verb := false
	for {
		t := l.NextSignificant()
		word := sql[t.Start:t.End:t.End]
		switch {
		case t.Kind == sqldigest.KindEOF:
			return nil
		case isAny(word, "PREPARE", "EXECUTE", "DEALLOCATE", "DROP"): // some consist of two words
			verb = true
		case !verb: // SET STATEMENT … FOR
		case t.Kind == sqldigest.KindQuotedIdent:
			if len(word) > 1 && bytes.IndexByte(word[1:], word[0]) == len(word)-2 {
				return word[1 : len(word)-1 : len(word)-1]
			}
			return unquote(word)
		case isAny(word, "IMMEDIATE"):
			return nil
		default:
			return word
		}
	}
}

// isAny reports whether word is one of a few words, which are in upper case.
func isAny(word []byte, words ...string) bool {
	for _, w := range words {
		if len(word) == len(w) && bytes.EqualFold(word, []byte(w)) {
			return true
		}
	}
	return false
}

// charsetOf returns the character set that a statement sets for the connection, if it is a SET NAMES or SET
// CHARACTER SET of one name. It returns 0 for every other statement, whose effect only the server knows:
// assignments, expressions, DEFAULT, several statements.
func charsetOf(sql []byte, m sqldigest.Mode) sqldigest.Charset {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	var words [5][]byte // SET NAMES x COLLATE y; SET CHARACTER SET x
	n := 0
	for {
		t := l.NextSignificant()
		word := sql[t.Start:t.End]
		switch t.Kind {
		case sqldigest.KindEOF:
			if l.Unsure() {
				return 0
			}
			return namedCharset(words[:n])
		case sqldigest.KindString, sqldigest.KindQuotedIdent:
			word = bytes.Trim(word, "'\"`")
		case sqldigest.KindIdent, sqldigest.KindKeyword:
		default:
			return 0
		}
		if n == len(words) {
			return 0
		}
		words[n] = word
		n++
	}
}

func namedCharset(words [][]byte) sqldigest.Charset {
	switch {
	case len(words) < 3 || !isAny(words[0], "SET"):
		return 0
	case isAny(words[1], "NAMES") && (len(words) == 3 || len(words) == 5 && isAny(words[3], "COLLATE")):
		return sqldigest.CharsetNamed(words[2])
	case isAny(words[1], "CHARSET") && len(words) == 3:
		return sqldigest.CharsetNamed(words[2])
	case isAny(words[1], "CHARACTER", "CHAR") && len(words) == 4 && isAny(words[2], "SET"):
		return sqldigest.CharsetNamed(words[3])
	}
	return 0
}

// longText serves a statement that is longer than the statement memory: it is digested while it is forwarded,
// and its last piece is sent after the rules allowed it.
func (x *executor) longText() error {
	sql, err := sqlOf(x.msg.body, x.caps)
	if err != nil { // query attributes may be longer than the buffer
		if err := x.bufferCommand(x.srv.opts.StatementMemory); err != nil {
			return err
		}
		sql, err = sqlOf(x.msg.body, x.caps)
	}
	if err != nil {
		return x.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: "+err.Error())
	}
	if x.pooled {
		if err := x.bringInsertID(); err != nil {
			return err
		}
	}
	x.digester.Reset(x.modes.mode)
	if x.msg.cmd == mysqlwire.ComQuery && x.executesSeveral() && x.srv.opts.Planner.HasRules() {
		x.parts = newParts(&x.modes, x.task)
	}
	l := &longStatement{executor: x, skip: len(x.msg.body) - len(sql), keep: x.srv.opts.Log.OriginalText()}
	if err = x.forward(l); err == nil && !l.refused {
		x.sent = time.Now()
		x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
		if x.msg.cmd == mysqlwire.ComStmtPrepare && x.statements.moved {
			err = x.renumber(&x.statements)
		}
		if err == nil {
			err = x.relay()
		}
		if err == nil {
			x.afterStatement()
			x.afterShared()
		}
	}
	x.parts = nil
	x.record(err)
	return err
}

// executesSeveral reports whether the server executes several statements of a text one after the other. TiDB parses
// all of them first.
func (x *executor) executesSeveral() bool {
	return x.carried.takesSeveral(x.caps) && x.modes.mode.Server().Kind != sqldigest.ServerTiDB
}

// A longStatement is a statement that is forwarded in pieces. see is called for each piece after the first
// packet header; before is called once all pieces were seen and the last one has not been forwarded yet.
type longStatement struct {
	*executor
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
func (x *executor) refuseLong(t *longStatement, e *clientError, piece []byte, in int, sent bool) error {
	x.counters.refused.Add(1)
	x.fail(e)
	t.refused = true
	if !sent && (x.parts == nil || x.parts.start == 0 && !x.parts.blanked) {
		x.client.Discard(len(piece))
		x.rec.BytesIn += uint64(len(piece))
		return x.endRefused(x.dropped(), e)
	}
	switch {
	case x.parts != nil && x.parts.reopen(piece, in):
		x.parts.blank(piece, in, true)
	case x.msg.cmd == mysqlwire.ComQuery && t.semicolon && x.executesSeveral():
		_ = x.sendError(x.msg.seq+1, e, true)
		return fmt.Errorf("%w: %w", errRefused, e)
	default:
		first, second := payloads(piece, in)
		fill(first, second, unparsableEnd)
	}
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	if err := x.forwardClient(len(piece)); err != nil {
		return err
	}
	if x.parts != nil {
		return x.endParts(e)
	}
	if _, err := x.skipResponse(x.msg.cmd, x.msg.seq+1); err != nil {
		return err
	}
	return x.endRefused(x.dropped(), e)
}
