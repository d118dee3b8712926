package binlog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A statementKind is the effect of a statement in the log on followed tables.
type statementKind uint8

const (
	statementOther      statementKind = iota // changes no row of a followed table
	statementBegin                           // of a transaction
	statementCommit                          // also of an XA transaction in one phase
	statementRollback                        // of the whole transaction
	statementSavepoint                       // name is the savepoint's
	statementRollbackTo                      // likewise
	statementXAStart                         // name is the transaction's identifier, as in all XA statements
	statementXAEnd                           //
	statementXACommit                        // of a prepared transaction
	statementXARollback                      // of a prepared transaction
	statementSchema                          // changes a followed table's definition, or empties it
	statementRows                            // may change rows that are not logged
	statementUnknown                         // not supported by the parser
)

// A statement is the effect of a statement in the log.
type statement struct {
	kind  statementKind
	name  string // of a savepoint or an XA transaction
	table int    // index of the followed table that it changes, or -1

	change SchemaChangeKind // of statementSchema
}

// classify parses a statement.
func (r *logReader) classify(q *query) statement {
	mode := sessionMode(q.variables)
	if mode.Unknown() {
		return unknownSQL
	}
	s := r.parse(q, mode, false)
	if s.kind != statementUnknown && !r.maria && bytes.Contains(q.text, mariaComment) {
		if t := r.parse(q, mode, true); t != s { // the server's version may be forged
			return unknownSQL
		}
	}
	return s
}

func (r *logReader) parse(q *query, mode sqldigest.Mode, skipMaria bool) statement {
	tokens, ok := tokenize(q.text, mode, skipMaria)
	if !ok {
		return unknownSQL
	}
	p := sqlParser{r: r, schema: string(q.schema), utf8: namesUTF8(mode), tokens: tokens}
	return p.statement()
}

// queryEvent processes a statement.
func (r *logReader) queryEvent(e *event) error {
	if err := r.query.decode(e.body); err != nil {
		return r.unknown("a statement", err)
	}
	if e.kind == eventQueryCompressed {
		text, err := r.inflate.inflate(r.query.text)
		if err != nil {
			return r.unknown("a compressed statement", err)
		}
		r.query.text = text
	}
	return r.statement(e)
}

// loadEvent processes a LOAD DATA that is logged as a statement, with numbers about its file in between.
func (r *logReader) loadEvent(e *event) error {
	const numbers, fixed = 4 + 4 + 4 + 1, 13
	if len(e.body) < fixed+numbers {
		return r.unknown("a LOAD DATA", errShortEvent)
	}
	body := append(append([]byte(nil), e.body[:fixed]...), e.body[fixed+numbers:]...)
	if err := r.query.decode(body); err != nil {
		return r.unknown("a LOAD DATA", err)
	}
	return r.statement(e)
}

func (r *logReader) statement(e *event) error {
	if bytes.Equal(r.query.text, []byte("BEGIN")) { // the first statement of each transaction, on MySQL
		r.open, r.single = true, false
		return nil
	}
	s := r.classify(&r.query)
	if r.pending.alter == alterStarts || r.pending.alter == alterRolledBack || s.kind >= statementSchema && r.ignored() {
		s = harmless
	}
	switch s.kind {
	case statementBegin:
		r.open, r.single = true, false
	case statementXAStart:
		r.open, r.single = true, false
		r.startXA()
	case statementXAEnd: // its XA_PREPARE follows
		r.open, r.single = true, false
	case statementXACommit, statementXARollback:
		return r.xaEnd(e, s)
	case statementCommit:
		r.commitXA(e, "", r.xas.open)
	case statementRollback:
		return r.rollBack(e)
	case statementSavepoint:
		if r.xas.open != nil || r.rows >= r.skip {
			r.savepoints = append(r.savepoints, savepoint{s.name, r.rows, len(r.out().Changes)})
		}
	case statementRollbackTo:
		return r.rollBackTo(s.name)
	case statementSchema:
		return r.schemaChange(e, s)
	case statementRows, statementUnknown:
		if r.scan != nil {
			break // following reads it too, and stops there
		}
		return r.refuse(s)
	case statementOther:
		if !r.open || r.single {
			r.close(e)
		}
	}
	return nil
}

// findSavepoint returns the latest savepoint with a name.
func findSavepoint(all []savepoint, name string) (savepoint, bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if bytes.EqualFold([]byte(all[i].name), []byte(name)) {
			return all[i], true
		}
	}
	return savepoint{}, false
}

// rollBackTo removes the rows of a transaction after a savepoint.
func (r *logReader) rollBackTo(name string) error {
	if r.xas.open == nil && r.rows < r.skip {
		return nil
	}
	to, ok := findSavepoint(r.savepoints, name)
	switch {
	case !ok && !r.ours:
		return nil
	case !ok:
		return r.stop(StopRolledBack, "", "a transaction was rolled back in part, to a savepoint that is not in the log", "copy the tables again with option restart", nil)
	}
	return r.undo(to)
}

// statementText is the current statement, of which some are skipped.
type statementText struct {
	query    query
	ignore   []sqldigest.Digest // of statements that are skipped
	digester sqldigest.Digester
}

// ignored reports whether the operator has declared the statement harmless.
func (t *statementText) ignored() bool {
	return len(t.ignore) > 0 && slices.Contains(t.ignore, t.digest())
}

// digest returns the digest of the statement.
func (t *statementText) digest() sqldigest.Digest {
	return t.digester.Digest(t.query.text, sessionMode(t.query.variables))
}

// redacted returns the beginning of the statement without its literals and comments, on one line.
func (t *statementText) redacted() string {
	text := t.query.text[:min(len(t.query.text), maxChangeSQL)]
	line := strings.Join(strings.Fields(string(sqldigest.AppendRedacted(nil, text, sessionMode(t.query.variables)))), " ")
	return strings.ToValidUTF8(line, "\uFFFD")
}

// refuse stops at a statement that may change followed rows without logging them.
func (r *logReader) refuse(s statement) error {
	text, table := r.redacted(), ""
	if s.table >= 0 {
		table = r.tables[s.table].table.FullName()
	}
	what, try := "a statement was logged that may change followed rows without listing them: ",
		"SET GLOBAL binlog_format = ROW, end the sessions that have another, and copy the table again with option restart"
	if s.kind == statementUnknown {
		what, try = "a statement was logged that is not known to leave followed tables alone: ",
			"compare the tables (option verify), and copy those that differ again with option restart"
	}
	return r.stopAt(r.stop(StopStatement, table, what+shortSQL(text), try, nil), text)
}

// stopAt completes the error for a statement: its text and digest, and how to continue after it.
func (r *logReader) stopAt(err *StopError, text string) *StopError {
	err.SQL, err.Digest = text, r.digest().String()
	err.Try += "; if it changes nothing in them, continue after it with option ignore-statement " + err.Digest
	return err
}

// schemaChange processes a statement that changes a table's definition: it is reported to the scan, skipped,
// or stops the reader.
func (r *logReader) schemaChange(e *event, s statement) error {
	f := &r.tables[s.table]
	text := r.redacted()
	switch {
	case r.before(f):
	case r.scan != nil:
		r.scan(SchemaChange{Table: s.table, At: r.position(), SQL: text, Digest: r.digest().String(), Kind: s.change, Rows: f.rows})
		f.rows = false
	case !f.defined.isAfter(r.uptoFile, r.uptoOffset, &r.pending):
		err := r.stop(StopSchema, f.table.FullName(), "its definition or existence was changed: "+shortSQL(text),
			"bring both sides to the same definition and resume behind it, or copy the table again with option restart", nil)
		err.Change = s.change
		return r.stopAt(err, text)
	}
	r.tableMaps.clear()
	r.close(e)
	return nil
}

// maxChangeSQL is the maximum number of bytes of a statement that are reported.
const maxChangeSQL = 16 << 10

// shortSQL returns the beginning of a statement.
func shortSQL(sql string) string {
	const most = 200
	if len(sql) <= most {
		return sql
	}
	return strings.ToValidUTF8(sql[:most], "") + "…"
}
