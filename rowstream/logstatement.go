package rowstream

import (
	"bytes"
	"strings"
)

// A statementKind is what a statement in the log means to who follows tables.
type statementKind uint8

const (
	statementOther      statementKind = iota // changes no row of a followed table
	statementBegin                           // of a transaction
	statementCommit                          // also of an XA transaction's second phase
	statementRollback                        // of the whole transaction
	statementSavepoint                       // name says which
	statementRollbackTo                      // name says which
	statementXA                              // XA START, XA END
	statementSchema                          // changes a followed table's definition, or empties it
	statementRows                            // changes rows that it does not list
)

// A sqlWord is a word, a name or a sign of a statement.
type sqlWord struct {
	text   string // a name without its quotes
	quoted bool
}

func (w sqlWord) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

// splitSQL cuts a statement into words, without its strings, numbers' signs and comments. The
// content of /*! … */ counts: servers execute it. It keeps at most maxSQLWords.
func splitSQL(sql []byte) (words []sqlWord) {
	for i := 0; i < len(sql) && len(words) < maxSQLWords; {
		c := sql[i]
		switch {
		case c == '\'' || c == '"' || c == '`':
			end, text := quotedSQL(sql, i)
			if c == '\'' {
				text = "''" // a string; "…" may be a name
			}
			words = append(words, sqlWord{text, true})
			i = end
		case c == '#' || c == '-' && bytes.HasPrefix(sql[i:], []byte("--")) && (i+2 == len(sql) || sql[i+2] <= ' '):
			n := bytes.IndexByte(sql[i:], '\n')
			if n < 0 {
				return words
			}
			i += n
		case c == '/' && bytes.HasPrefix(sql[i:], []byte("/*")):
			i = skipComment(sql, i)
		case c == '*' && bytes.HasPrefix(sql[i:], []byte("*/")):
			i += 2 // of /*! … */
		case isNameByte(c):
			from := i
			for i < len(sql) && isNameByte(sql[i]) {
				i++
			}
			words = append(words, sqlWord{text: string(sql[from:i])})
		case c <= ' ':
			i++
		default:
			words = append(words, sqlWord{text: string(c)})
			i++
		}
	}
	return words
}

// maxSQLWords bounds the words of a statement that are looked at: those of definitions come
// early.
const maxSQLWords = 10_000

func isNameByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

// quotedSQL is the text between the quotes that begin at sql[i], and where they end.
func quotedSQL(sql []byte, i int) (end int, text string) {
	quote := sql[i]
	var b []byte
	for i++; i < len(sql); i++ {
		switch {
		case sql[i] == '\\' && quote != '`' && i+1 < len(sql):
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return i + 1, string(b)
		}
		b = append(b, sql[i])
	}
	return i, string(b)
}

// skipComment is where the statement goes on: behind a comment, or within one that servers
// execute.
func skipComment(sql []byte, i int) int {
	rest := sql[i+2:]
	for _, mark := range [...]string{"!", "M!"} {
		if bytes.HasPrefix(rest, []byte(mark)) {
			i += 2 + len(mark)
			for i < len(sql) && sql[i] >= '0' && sql[i] <= '9' {
				i++
			}
			return i
		}
	}
	n := bytes.Index(rest, []byte("*/"))
	if n < 0 {
		return len(sql)
	}
	return i + 2 + n + 2
}

// A statement is what was found in a statement of the log.
type statement struct {
	kind  statementKind
	name  string // of a savepoint
	table int    // number of the followed table that it is about, or -1

	change SchemaChangeKind // of statementSchema
}

// look finds out what a statement does to the followed tables. The statement's schema is the
// one that was in use. What cannot be understood, and might be about one of them, is.
func (r *logReader) look(schema, sql []byte) statement {
	words := splitSQL(sql)
	at := func(i int) sqlWord {
		if i < len(words) {
			return words[i]
		}
		return sqlWord{}
	}
	s := statement{table: -1}
	switch first := at(0); {
	case first.is("BEGIN"), first.is("START") && at(1).is("TRANSACTION"):
		s.kind = statementBegin
	case first.is("COMMIT"):
		s.kind = statementCommit
	case first.is("SAVEPOINT"):
		s.kind, s.name = statementSavepoint, at(1).text
	case first.is("ROLLBACK"):
		s.kind = statementRollback
		if at(1).is("TO") {
			s.kind, s.name = statementRollbackTo, at(2).text
			if at(2).is("SAVEPOINT") && len(words) > 3 {
				s.name = at(3).text
			}
		}
	case first.is("XA"):
		s.kind = statementXA
		if at(1).is("COMMIT") || at(1).is("ROLLBACK") {
			s.kind = statementCommit // of rows that are not followed: see xaPrepare
		}
	case first.is("ALTER"), first.is("DROP"), first.is("RENAME"), first.is("TRUNCATE"), first.is("CREATE"):
		s.table = r.defined(string(schema), words)
		if s.table >= 0 {
			s.kind, s.change = statementSchema, changeKind(words)
		}
	case first.is("INSERT"), first.is("REPLACE"), first.is("UPDATE"), first.is("DELETE"), first.is("LOAD"), first.is("WITH"),
		first.is("CALL"), first.is("SELECT"), first.is("DO"), first.is("IMPORT"):
		if r.concerns(string(schema), words) {
			s.kind = statementRows
			s.table = r.mentioned(string(schema), words)
		}
	}
	return s
}

// changeKind is what a statement about a table's definition does to its rows. What is not surely
// known is ChangeOther.
func changeKind(words []sqlWord) SchemaChangeKind {
	first := words[0]
	if first.is("TRUNCATE") {
		return ChangeTruncate
	}
	for i, w := range words[1:min(len(words), 6)] {
		switch {
		case w.is("INDEX") && (first.is("CREATE") || first.is("DROP")):
			return ChangeIndex
		case w.is("TABLE") && first.is("ALTER"):
			return alterKind(words[i+2:])
		case w.is("TABLE"), w.is("TABLES"), w.is("DATABASE"), w.is("SCHEMA"):
			return ChangeOther
		}
	}
	return ChangeOther
}

// alterKind is changeKind for what follows ALTER TABLE. A table that gets another name, or has parts of its rows
// taken away or exchanged, is no matter of columns.
func alterKind(words []sqlWord) SchemaChangeKind {
	for i, w := range words {
		next := sqlWord{}
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case w.is("RENAME") && !next.is("COLUMN") && !next.is("INDEX") && !next.is("KEY"),
			w.is("PARTITION"), w.is("PARTITIONS"), w.is("PARTITIONING"), w.is("TABLESPACE"), w.is("SYSTEM"), w.is("PERIOD"), w.is("VERSIONING"):
			return ChangeOther
		}
	}
	return ChangeColumns
}

// defined is the followed table whose definition a statement changes, or -1.
func (r *logReader) defined(schema string, words []sqlWord) int {
	object := "" // what is created, altered or dropped
	for i, w := range words {
		if i == 0 {
			if w.is("TRUNCATE") {
				object = "TABLE"
				break
			}
			continue
		}
		if w.is("TEMPORARY") {
			return -1
		}
		for _, o := range [...]string{
			"TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE",
			"SERVER", "SEQUENCE", "TABLESPACE", "PACKAGE", "LOGFILE", "INSTANCE", "RESOURCE", "SPATIAL",
		} {
			if w.is(o) {
				object = o
			}
		}
		if object != "" {
			break
		}
	}
	switch object {
	case "TABLE", "TABLES", "INDEX":
	case "DATABASE", "SCHEMA":
		if !words[0].is("DROP") {
			return -1
		}
		for _, w := range words[2:] {
			for i := range r.tables {
				if strings.EqualFold(w.text, r.tables[i].schema) {
					return i
				}
			}
		}
		return -1
	case "SPATIAL", "":
		// CREATE SPATIAL INDEX, or nothing known: whatever it mentions.
	default:
		return -1 // changes no table's rows or columns
	}
	switch {
	case words[0].is("CREATE") && object == "TABLE":
		return r.created(schema, words)
	case words[0].is("ALTER") && object == "TABLE":
		return r.altered(schema, words)
	}
	return r.mentioned(schema, words)
}

// altered is the followed table that an ALTER TABLE is about, or -1: the one it names first, a
// new name, or one whose rows are exchanged with a partition's.
func (r *logReader) altered(schema string, words []sqlWord) int {
	for i, w := range words {
		if !w.is("TABLE") && !w.is("RENAME") {
			continue
		}
		for i++; i < len(words) && (words[i].is("IF") || words[i].is("EXISTS") || words[i].is("TO") || words[i].is("AS")); i++ {
		}
		if t := r.named(schema, words[i:]); t >= 0 {
			return t
		}
	}
	return -1
}

// created is the followed table that a CREATE TABLE replaces, or -1: one that exists is left as
// it is, unless the statement says OR REPLACE.
func (r *logReader) created(schema string, words []sqlWord) int {
	replaces := len(words) > 2 && words[1].is("OR") && words[2].is("REPLACE")
	if !replaces {
		return -1
	}
	for i, w := range words {
		if w.is("TABLE") {
			return r.named(schema, words[i+1:]) // what else the statement mentions it only looks at
		}
	}
	return -1
}

// named is the followed table whose name the words begin with, or -1.
func (r *logReader) named(schema string, words []sqlWord) int {
	if len(words) > 2 && words[1].text == "." && !words[1].quoted {
		return r.mentioned(schema, words[:3])
	}
	return r.mentioned(schema, words[:min(len(words), 1)])
}

// mentioned is a followed table that the words name, or -1: by its name behind its schema, or
// alone with its schema in use.
func (r *logReader) mentioned(schema string, words []sqlWord) int {
	for i, w := range words {
		for t := range r.tables {
			f := &r.tables[t]
			if !strings.EqualFold(w.text, f.name) {
				continue
			}
			in := schema
			if i >= 2 && words[i-1].text == "." && !words[i-1].quoted {
				in = words[i-2].text
			}
			if strings.EqualFold(in, f.schema) {
				return t
			}
		}
	}
	return -1
}

// concerns reports whether a statement that changes rows without listing them may change
// those of a followed table: it mentions one, or it is at work in the schema of one, where a
// view, a trigger or a routine may lead to it.
func (r *logReader) concerns(schema string, words []sqlWord) bool {
	written := r.writtenSchema(schema, words)
	for i := range r.tables {
		if strings.EqualFold(written, r.tables[i].schema) {
			return true
		}
	}
	// An INSERT … SELECT into another schema only reads what else it mentions.
	return !words[0].is("INSERT") && !words[0].is("REPLACE") && r.mentioned(schema, words) >= 0
}

// writtenSchema is the schema of the table that a statement writes first, the one in use when it
// does not say.
func (r *logReader) writtenSchema(schema string, words []sqlWord) string {
	for i := 1; i+1 < len(words) && i < 12; i++ {
		if words[i+1].text == "." && !words[i+1].quoted {
			return words[i].text
		}
		if words[i].is("SET") || words[i].is("VALUES") || words[i].is("SELECT") || words[i].text == "(" && !words[i].quoted {
			break
		}
	}
	return schema
}

// queryEvent takes a statement.
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

// loadEvent takes a LOAD DATA that is logged as a statement, which has some numbers about its
// file between.
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
	if bytes.Equal(r.query.text, []byte("BEGIN")) { // each transaction's first, on MySQL
		r.open, r.single = true, false
		return nil
	}
	s := r.look(r.query.schema, r.query.text)
	table := ""
	if s.table >= 0 {
		table = r.tables[s.table].table.FullName()
	}
	switch s.kind {
	case statementBegin:
		r.open, r.single = true, false
	case statementCommit:
		r.commit(e)
	case statementRollback:
		return r.rollBack(e)
	case statementSavepoint:
		if r.rows >= r.skip {
			r.savepoints = append(r.savepoints, savepoint{s.name, r.rows, len(r.batch.Changes)})
		}
	case statementRollbackTo:
		if r.rows >= r.skip {
			to, ok := r.savepoint([]byte(s.name))
			switch {
			case !ok && !r.ours:
				return nil
			case !ok:
				return r.stop(StopUndone, "", "a transaction was rolled back in part, to a savepoint that is not in the log", "copy the tables anew", nil)
			}
			return r.undo(to)
		}
	case statementXA:
		r.open, r.single = true, false
	case statementSchema:
		return r.schemaChange(e, s, table)
	case statementRows:
		if r.scan != nil {
			break // who follows comes by it
		}
		return r.stop(StopStatement, table, "rows were changed by a statement that was logged instead of them",
			"SET GLOBAL binlog_format = ROW, end the sessions that have another, and copy the table anew", nil)
	case statementOther:
		if !r.open || r.single {
			r.close(e)
		}
	}
	return nil
}

// schemaChange takes a statement that changes a table's definition: it is noted, passed over or the end.
func (r *logReader) schemaChange(e *event, s statement, name string) error {
	f := &r.tables[s.table]
	text := string(r.query.text[:min(len(r.query.text), maxChangeSQL)])
	switch {
	case r.scan != nil:
		r.scan(SchemaChange{Table: s.table, At: r.position(), SQL: text, Kind: s.change, Rows: f.rows})
		f.rows = false
	case r.position().Compare(f.defined) >= 0 || f.defined.IsZero():
		err := r.stop(StopSchema, name, "its definition or existence was changed: "+shortSQL(r.query.text),
			"bring both sides to the same definition and go on behind it, or copy the table anew", nil)
		err.SQL, err.Change = text, s.change
		return err
	}
	clear(r.maps)
	r.close(e)
	return nil
}

// maxChangeSQL is how much of a statement about a definition is told.
const maxChangeSQL = 16 << 10

// shortSQL is the beginning of a statement about a definition.
func shortSQL(sql []byte) string {
	const most = 80
	if len(sql) <= most {
		return string(sql)
	}
	return strings.ToValidUTF8(string(sql[:most]), "") + "…"
}
