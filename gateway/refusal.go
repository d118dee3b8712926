package gateway

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A refused command leaves the session as an error of the server would, because the server fails in its place:
// it executes a SIGNAL with the number and text of the refusal, after commands that drop what a failure of the
// refused command drops: the last prepared statement (PREPARE), long data and the cursor (EXECUTE), the
// statement of that name (PREPARE … FROM). Of several statements in one text, those before the refused one are
// executed. The client receives the gateway's ERR packet in place of the server's.

// refuseStatement responds to the current command with a refusal, and records it.
func (x *executor) refuseStatement(e *clientError) error {
	err := x.refuse(e)
	x.parts = nil
	x.record(err)
	return err
}

// respondError responds to the current command with an error of the gateway, and records it.
func (x *executor) respondError(e *clientError) error {
	x.fail(e)
	err := x.discardRest()
	if err == nil {
		err = x.sendError(x.msg.seq+1, e, true)
	}
	x.record(err)
	return err
}

// refuse responds to the current command with a refusal.
func (x *executor) refuse(e *clientError) error {
	x.counters.refused.Add(1)
	x.fail(e)
	if x.parts != nil {
		if done, err := x.refuseParts(e); done {
			return err
		}
	}
	drop := x.dropped()
	if err := x.discardRest(); err != nil {
		return err
	}
	return x.endRefused(drop, e)
}

// endRefused has the server fail, and responds to the current command, which was read.
func (x *executor) endRefused(drop [][]byte, e *clientError) error {
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1) // the sequence number of an error
	x.sent = time.Time{}                         // the record has no times of the backend
	if err := x.failAtServer(drop, e); err != nil {
		return err
	}
	return x.sendError(x.msg.seq+1, e, true)
}

// unparsable is a text that no server can prepare.
const unparsable = ") Tare refused this statement"

// dropped returns commands that drop what the server drops when the current command fails.
func (x *executor) dropped() [][]byte {
	switch x.msg.cmd {
	case mysqlwire.ComStmtPrepare:
		return [][]byte{append([]byte{byte(mysqlwire.ComStmtPrepare)}, unparsable...)}
	case mysqlwire.ComStmtExecute, mysqlwire.ComStmtBulkExecute:
		const id = 4
		return [][]byte{append([]byte{byte(mysqlwire.ComStmtReset)}, x.msg.body[1:1+id]...)}
	case mysqlwire.ComQuery:
		switch {
		case x.parts != nil:
			return x.droppedName(nil, x.parts.digester.Text())
		case x.plan.Type() != sqlplan.TypePrepare:
		case x.msg.whole:
			return x.droppedName(nil, x.rec.Text)
		default:
			return x.droppedName(nil, x.rec.Normalized)
		}
	}
	return nil
}

// droppedName adds the command that drops the statement that the first statement of sql prepares by name. TiDB keeps it.
func (x *executor) droppedName(drop [][]byte, sql []byte) [][]byte {
	sql = bytes.TrimPrefix(sql, []byte{';'})
	var l sqldigest.Lexer
	l.Reset(sql, x.modes.mode)
	if t := l.NextSignificant(); !isAny(sql[t.Start:t.End], "PREPARE") || x.unreadable || x.modes.mode.Server().Kind == sqldigest.ServerTiDB {
		return drop
	}
	name := preparedName(sql, x.modes.mode)
	if name == nil {
		return drop
	}
	return append(drop, mysqlwire.AppendQuery(nil, appendQuoted([]byte("DEALLOCATE PREPARE "), name), x.caps))
}

// failAtServer has the server execute commands and fail with an error. It reads the responses.
func (x *executor) failAtServer(commands [][]byte, e *clientError) error {
	commands = append(commands, mysqlwire.AppendQuery(nil, x.appendFailure(nil, e), x.caps))
	var b []byte
	for _, c := range commands {
		b, _ = mysqlwire.AppendPacket(b, c, 0)
	}
	if _, err := x.backend.Write(b); err != nil {
		return x.writeFailed(err)
	}
	for _, c := range commands {
		errno, err := x.skipResponse(mysqlwire.Command(c[0]), 1)
		if err != nil {
			return err
		}
		if c[0] == byte(mysqlwire.ComStmtPrepare) {
			x.statements.forgetLast(errno)
		}
	}
	return nil
}

// maxSignalText is the maximum length of MESSAGE_TEXT on MySQL; MariaDB permits more.
const maxSignalText = 128

// appendFailure appends a statement that fails with e. TiDB has no SIGNAL: there, the error is that of an unknown column
// whose name is the text.
func (x *executor) appendFailure(dst []byte, e *clientError) []byte {
	if x.modes.mode.Server().Kind != sqldigest.ServerTiDB {
		return e.appendSignal(dst)
	}
	name := []byte(e.signalText())
	for i, c := range name {
		if c < ' ' || c > '~' {
			name[i] = '?'
		}
	}
	return appendQuoted(append(dst, "DO "...), name)
}

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

// parts judges the statements of a text, which semicolons separate, one by one. A refused one is overwritten, with all
// that follows, by a text that the server cannot parse: the server executes the statements before it, and then fails.
// A semicolon in the body of stored code separates too: its parts are judged as statements, and a definition of which
// one is overwritten has no end.
type parts struct {
	modes    *modes
	task     *netloop.Task
	digester sqldigest.Digester
	after    sqlplan.After // of the statements before the current one
	refused  *sqlplan.Plan
	start    int    // offset in the text of the current statement, later of the part to overwrite
	seen     int    // bytes of the text
	blanked  bool   // the server will not execute the refused statement
	inside   bool   // what replaces it begins within it
	mark     string // start of the text that replaces it, in characters of every character set

	whole    int // offset of the last statement that was not empty
	complete int // offset of the semicolon after it

	effects sqlplan.Effect // of the statements before the current one
	results uint32         // of the statements before the current one, at least
	counted bool           // further statements have a result
}

func newParts(m *modes, task *netloop.Task) *parts {
	j := &parts{modes: m, task: task, counted: true}
	j.digester.Reset(m.mode)
	return j
}

// judgeParts has the rules judge the statements of a refused text that is buffered whole, if the server would execute
// them one after the other.
func (x *executor) judgeParts() {
	sql := x.rec.Text
	if x.msg.cmd != mysqlwire.ComQuery || bytes.IndexByte(sql, ';') < 0 || !x.executesSeveral() {
		return
	}
	x.parts = newParts(&x.modes, x.task)
	for piece := range slices.Chunk(sql, blockText) {
		x.parts.see(piece)
	}
	if x.parts.refused == nil {
		x.parts.judge()
	}
}

// textRefusal returns the refusal of the current text: that of its first refused statement if the rules have judged
// them one by one.
func (x *executor) textRefusal() *clientError {
	whole := x.plan
	if x.parts != nil && x.parts.refused != nil {
		x.plan = x.parts.refused
	}
	e := x.refusal()
	x.plan = whole
	return e
}

// see judges the statements that end in a piece of the text.
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
			j.results = math.MaxUint32 // it is an error
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
	scope := j.modes.scope.After(j.after)
	if j.digester.Divergent() {
		scope = scope.Divergent()
	}
	plan := j.modes.planner.Get(digest, scope)
	if plan == nil {
		plan = j.makePart(sqlplan.Statement{SQL: text, After: j.after, Text: text, Digest: digest, Scope: scope, Schema: []byte(j.modes.schema), User: []byte(j.modes.user), Mode: j.modes.mode})
	}
	if v, _ := plan.Verdict(); v.Refuses() {
		j.refused = plan
		return
	}
	j.after |= plan.After()
	e := plan.Effects()
	if plan.Type() == sqlplan.TypeCall {
		e &^= sqlplan.EffectUnknown // see changesModes
	}
	j.effects |= e
	// A part of stored code has no result.
	if j.counted = j.counted && plan.Type() != sqlplan.TypeUnknown && j.after&sqlplan.AfterRoutine == 0; j.counted {
		j.results++
	}
}

// makePart parses a statement outside the loop.
func (j *parts) makePart(st sqlplan.Statement) (plan *sqlplan.Plan) {
	j.task.Block(func() { plan = j.modes.planner.Plan(st) })
	return plan
}

// failed reports whether the error that ended the response is that of the overwritten statement. The message of a
// syntax error contains the text from the token at which it is: from the mark, unless that is within a token, or from
// before the semicolon. An error within a token is that of the overwritten statement if those before it have results.
func (j *parts) failed(r *mysqlwire.Response) bool {
	switch text := bytes.ReplaceAll(r.Last, []byte{0}, nil); { // it may be in UTF-16 or UTF-32
	case r.Errno != uint16(mysqlwire.ErrnoSyntax):
		return false
	case j.inside:
		return r.Results-1 >= j.results
	default:
		return bytes.Contains(text, []byte(j.mark)) && !bytes.Contains(text, []byte(";"+j.mark))
	}
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
	if !j.blanked {
		const common = 4
		j.mark = text[:min(common, len(first)+len(second))]
		j.inside = len(first)+len(second) < n
	}
	j.blanked, j.start = true, j.seen
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

// refuseParts refuses the current text, which is buffered whole: the server receives it with the refused statement
// overwritten. It reports false if that is the first one, of which the server needs to receive nothing.
func (x *executor) refuseParts(e *clientError) (done bool, err error) {
	text := bytes.Clone(x.client.Buffered()[:x.msg.size]) // the record has views of the original
	if x.parts.reopen(text, len(x.msg.body)); x.parts.start == 0 {
		return false, nil
	}
	x.parts.blank(text, len(x.msg.body), true)
	if _, err := x.backend.Write(text); err != nil {
		return true, x.writeFailed(err)
	}
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	return true, x.endParts(e)
}

// endParts relays the response to the statements before the refused one, and the refusal in place of the error after
// them.
func (x *executor) endParts(e *clientError) error {
	x.sent = time.Now()
	if err := x.relay(); err != nil {
		return err
	}
	if x.failed == nil { // a statement before it failed
		x.afterStatement()
		return nil
	}
	x.followParts(x.parts.effects)
	x.resp.Errno = 0
	if x.resp.Results--; x.resp.Results == 0 {
		x.sent = time.Time{}
	}
	seq := x.resp.NextSeq() - 1
	if err := x.failAtServer(x.dropped(), e); err != nil {
		return err
	}
	return x.sendError(seq, e, true)
}

// followParts applies the effects of the statements before the refused one.
func (x *executor) followParts(effects sqlplan.Effect) {
	if effects.Has(sqlplan.EffectSchema) {
		x.srv.opts.Planner.Invalidate()
	}
	if effects.Any(statefulEffects) {
		x.track(effects)
	}
	if effects.Any(readingEffects | sqlplan.EffectUnknown) {
		x.modes.forget()
	}
}

// judge returns the refusal of a command without text. The rules treat such a command as the equivalent
// statement; a command without an equivalent may have any effect.
func (x *executor) judge() *clientError {
	if !x.srv.opts.Planner.HasRules() {
		return nil
	}
	var sql []byte
	hidden := false
	switch x.msg.cmd {
	case mysqlwire.ComPing, mysqlwire.ComQuit, mysqlwire.ComSetOption, mysqlwire.ComResetConnection, mysqlwire.ComTime,
		mysqlwire.ComSleep, mysqlwire.ComConnect:
		return nil
	case mysqlwire.ComInitDB:
		sql = appendQuoted([]byte("USE "), x.msg.body[1:])
	case mysqlwire.ComFieldList:
		table := x.msg.body[1:]
		for i, c := range table {
			if c == 0 {
				table = table[:i]
				break
			}
		}
		sql = appendQuoted([]byte("SHOW COLUMNS FROM "), table)
	case mysqlwire.ComCreateDB:
		sql = appendQuoted([]byte("CREATE DATABASE "), x.msg.body[1:])
	case mysqlwire.ComDropDB:
		sql = appendQuoted([]byte("DROP DATABASE "), x.msg.body[1:])
	case mysqlwire.ComRefresh:
		sql = []byte("FLUSH TABLES") // or logs, status, privileges
	case mysqlwire.ComProcessKill:
		sql = []byte("KILL 1")
	case mysqlwire.ComStatistics:
		sql = []byte("SHOW STATUS")
	case mysqlwire.ComProcessInfo:
		sql = []byte("SHOW PROCESSLIST")
	case mysqlwire.ComShutdown, mysqlwire.ComDebug:
		sql = []byte("SHUTDOWN")
	default:
		sql, hidden = []byte("SHOW BINLOG EVENTS"), true
	}
	x.modes.followRules()
	mode := x.modes.mode
	if !x.msg.whole {
		hidden = true
	}
	if hidden {
		mode |= sqldigest.UnknownCharset
	}
	var d sqldigest.Digester
	digest := d.Digest(sql, mode)
	scope := x.modes.scopeIn(x.modes.schema, mode)
	if d.Divergent() {
		scope = scope.Divergent()
	}
	x.plan = x.srv.opts.Planner.Plan(sqlplan.Statement{
		SQL: sql, Complete: true, Text: d.Text(), Digest: digest, Scope: scope, Schema: []byte(x.modes.schema), User: []byte(x.modes.user), Mode: mode,
	})
	return x.refusal()
}

// appendQuoted appends the name in backticks.
func appendQuoted(dst, name []byte) []byte {
	dst = append(dst, '`')
	for _, c := range name {
		if c == '`' {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, '`')
}
