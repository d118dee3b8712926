package binlog

import (
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A sqlParser determines the effect of a statement of the log on the followed tables. It knows the statements
// that are harmless to them, and the positions in a definition that name a table which the statement changes.
// Any other statement is statementUnknown.
type sqlParser struct {
	r      *logReader
	schema string // the default schema
	utf8   bool   // names are in UTF-8
	tokens []sqlToken
	pos    int
}

func (p *sqlParser) at(i int) sqlToken {
	if p.pos+i < len(p.tokens) {
		return p.tokens[p.pos+i]
	}
	return sqlToken{}
}

// done reports whether all tokens are read, except for a semicolon.
func (p *sqlParser) done() bool {
	return p.pos >= len(p.tokens) || p.pos == len(p.tokens)-1 && p.at(0).op(";")
}

// accept reads the keywords if they are next.
func (p *sqlParser) accept(keywords ...string) bool {
	for i, k := range keywords {
		if !p.at(i).is(k) {
			return false
		}
	}
	p.pos += len(keywords)
	return true
}

// acceptAny reads one of the keywords if it is next.
func (p *sqlParser) acceptAny(keywords ...string) bool {
	for _, k := range keywords {
		if p.accept(k) {
			return true
		}
	}
	return false
}

func (p *sqlParser) acceptOp(text string) bool {
	if p.at(0).op(text) {
		p.pos++
		return true
	}
	return false
}

var (
	harmless   = statement{kind: statementOther, table: -1}
	unknownSQL = statement{kind: statementUnknown, table: -1}
	rowsBySQL  = statement{kind: statementRows, table: -1}
)

// schemaChangeOf returns a statement that changes a followed table; a statement without one is harmless.
func schemaChangeOf(table int, kind SchemaChangeKind) statement {
	if table < 0 {
		return harmless
	}
	return statement{kind: statementSchema, table: table, change: kind}
}

// name reads a table's name and returns the index of the followed table, or -1. ok is false if there is no
// name.
func (p *sqlParser) name() (table int, ok bool) {
	schema := p.schema
	utf8 := true // the default schema is in the server's character set
	if !p.acceptOp(".") && p.at(1).op(".") {
		if !p.at(0).isName() {
			return -1, false
		}
		schema, utf8 = p.at(0).text, p.utf8
		p.pos += 2
	}
	if !p.at(0).isName() {
		return -1, false
	}
	name := p.at(0).text
	p.pos++
	for t := range p.r.tables {
		f := &p.r.tables[t]
		if sameName(schema, f.schema, utf8) && sameName(name, f.name, p.utf8) {
			return t, true
		}
	}
	return -1, true
}

// followedSchema returns a followed table of the schema that is named next, or -1.
func (p *sqlParser) followedSchema() (table int, ok bool) {
	if !p.at(0).isName() {
		return -1, false
	}
	name := p.at(0).text
	p.pos++
	return p.tableIn(name), true
}

func (p *sqlParser) tableIn(schema string) int {
	for t := range p.r.tables {
		if sameName(schema, p.r.tables[t].schema, p.utf8) {
			return t
		}
	}
	return -1
}

// sameName reports whether a name in a statement may be that of a table or schema. On case-sensitive servers,
// names that differ only in case stop the reader unnecessarily. A name with letters outside of ASCII in an
// unknown character set may be any such name.
func sameName(written, followed string, utf8 bool) bool {
	const oldEncoding = "#mysql50#"
	if len(written) > len(oldEncoding) && strings.EqualFold(written[:len(oldEncoding)], oldEncoding) {
		written = written[len(oldEncoding):]
	}
	if !utf8 && !isASCII(written) {
		return !isASCII(followed)
	}
	return strings.EqualFold(written, followed)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// statement parses a whole statement.
func (p *sqlParser) statement() statement {
	if p.done() {
		return harmless // only a comment
	}
	first := p.at(0)
	if first.kind != sqldigest.KindKeyword && first.kind != sqldigest.KindIdent {
		return unknownSQL
	}
	p.pos++
	switch strings.ToUpper(first.text) {
	case "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE":
		return p.transaction(strings.ToUpper(first.text))
	case "XA":
		return p.xa()
	case "CREATE":
		return p.create()
	case "ALTER":
		return p.alter()
	case "DROP":
		return p.drop()
	case "RENAME":
		return p.rename()
	case "TRUNCATE":
		p.accept("TABLE")
		table, ok := p.name()
		if !ok {
			return unknownSQL
		}
		return schemaChangeOf(table, ChangeTruncate)
	case "SET":
		return p.set()
	case "GRANT", "REVOKE", "FLUSH", "INSTALL", "UNINSTALL":
		return harmless
	case "ANALYZE", "OPTIMIZE", "CHECK", "CHECKSUM", "REPAIR", "CACHE":
		return p.maintain(strings.ToUpper(first.text))
	case "LOAD":
		if p.accept("INDEX", "INTO", "CACHE") {
			return harmless
		}
		return rowsBySQL
	case "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "CALL", "SELECT", "DO", "VALUES", "TABLE", "EXECUTE", "HANDLER":
		return rowsBySQL
	}
	return unknownSQL
}

func (p *sqlParser) transaction(verb string) statement {
	s := statement{table: -1}
	switch verb {
	case "BEGIN":
		s.kind = statementBegin
		p.accept("WORK")
	case "START":
		if !p.accept("TRANSACTION") {
			return unknownSQL
		}
		return statement{kind: statementBegin, table: -1}
	case "COMMIT":
		s.kind = statementCommit
		p.accept("WORK")
	case "SAVEPOINT":
		s.kind = statementSavepoint
		s.name = p.at(0).text
		p.pos++
	case "RELEASE":
		return harmless
	case "ROLLBACK":
		s.kind = statementRollback
		p.accept("WORK")
		if p.accept("TO") {
			p.accept("SAVEPOINT")
			s.kind, s.name = statementRollbackTo, p.at(0).text
			p.pos++
		}
	}
	if !p.done() {
		return unknownSQL
	}
	return s
}

// xa parses a statement of an XA transaction. name is its identifier, as xidText formats it.
func (p *sqlParser) xa() statement {
	s := statement{table: -1}
	switch {
	case p.acceptAny("START", "BEGIN"):
		s.kind = statementXAStart
	case p.accept("END"):
		s.kind = statementXAEnd
	case p.accept("COMMIT"):
		s.kind = statementXACommit
	case p.accept("ROLLBACK"):
		s.kind = statementXARollback
	default:
		return unknownSQL
	}
	var ok bool
	if s.name, ok = p.xid(); !ok {
		return unknownSQL
	}
	if s.kind == statementXACommit && p.accept("ONE", "PHASE") {
		s.kind = statementCommit
	}
	if !p.done() {
		return unknownSQL
	}
	return s
}

// xid reads the identifier of an XA transaction.
func (p *sqlParser) xid() (string, bool) {
	parts := [3]string{"", "", "1"}
	for i := range parts {
		if i > 0 && !p.acceptOp(",") {
			break
		}
		t := p.at(0)
		var ok bool
		if i == 2 {
			parts[i], ok = t.text, t.kind == sqldigest.KindNumber
		} else {
			parts[i], ok = hexText(t)
		}
		if !ok {
			return "", false
		}
		p.pos++
	}
	return strings.Join(parts[:], ","), true
}

// set parses SET. Settings of a statement do not matter, unless they change how the text is read.
func (p *sqlParser) set() statement {
	switch {
	case p.accept("PASSWORD"), p.accept("ROLE"), p.accept("DEFAULT", "ROLE"):
		return harmless
	case !p.accept("STATEMENT"):
		return unknownSQL
	}
	for depth := 0; p.pos < len(p.tokens); p.pos++ {
		switch t := p.at(0); {
		case t.op("("):
			depth++
		case t.op(")"):
			depth--
		case t.is("SQL_MODE"), t.is("CHARACTER_SET_CLIENT"), t.is("COLLATION_CONNECTION"):
			return unknownSQL
		case depth == 0 && t.is("FOR"):
			p.pos++
			return p.statement()
		}
	}
	return unknownSQL
}

// maintain parses ANALYZE TABLE and similar statements. Only ANALYZE executes the statement that follows.
func (p *sqlParser) maintain(verb string) statement {
	if verb == "CACHE" {
		return harmless
	}
	p.acceptAny("LOCAL", "NO_WRITE_TO_BINLOG")
	if !p.acceptAny("TABLE", "TABLES", "VIEW") {
		if verb == "ANALYZE" {
			return rowsBySQL
		}
		return unknownSQL
	}
	if verb != "REPAIR" {
		return harmless
	}
	return p.tableList()
}

// tableList reads a list of names and the clause after it; the first followed table counts.
func (p *sqlParser) tableList() statement {
	for {
		table, ok := p.name()
		switch {
		case !ok:
			return unknownSQL
		case table >= 0:
			return schemaChangeOf(table, ChangeOther)
		case !p.acceptOp(","):
			return harmless
		}
	}
}

// ifExists reads IF EXISTS or IF NOT EXISTS.
func (p *sqlParser) ifExists() bool {
	return p.accept("IF", "EXISTS") || p.accept("IF", "NOT", "EXISTS")
}

func (p *sqlParser) drop() statement {
	temporary := p.accept("TEMPORARY")
	switch {
	case p.acceptAny("TABLE", "TABLES"):
		p.ifExists()
		if temporary {
			return harmless
		}
		return p.tableList()
	case temporary:
		return p.harmlessObject()
	case p.accept("INDEX"):
		return p.onTable()
	case p.acceptAny("DATABASE", "SCHEMA"):
		p.ifExists()
		table, ok := p.followedSchema()
		if !ok {
			return unknownSQL
		}
		return schemaChangeOf(table, ChangeOther)
	}
	return p.harmlessObject()
}

// onTable reads an index definition up to its table. Indexes are created and dropped without a change of
// rows.
func (p *sqlParser) onTable() statement {
	for ; p.pos < len(p.tokens); p.pos++ {
		if p.accept("ON") {
			table, ok := p.name()
			if !ok {
				return unknownSQL
			}
			return schemaChangeOf(table, ChangeIndex)
		}
	}
	return unknownSQL
}

// harmlessObjects are the kinds of objects without followed rows.
var harmlessObjects = [...][]string{
	{"VIEW"},
	{"TRIGGER"},
	{"PROCEDURE"},
	{"FUNCTION"},
	{"EVENT"},
	{"USER"},
	{"ROLE"},
	{"SERVER"},
	{"TABLESPACE"},
	{"UNDO", "TABLESPACE"},
	{"LOGFILE", "GROUP"},
	{"RESOURCE", "GROUP"},
	{"SPATIAL", "REFERENCE", "SYSTEM"},
	{"PACKAGE"},
	{"LIBRARY"},
	{"INSTANCE"},
	{"SEQUENCE"},
	{"JSON", "DUALITY", "VIEW"},
	{"JSON", "RELATIONAL", "DUALITY", "VIEW"},
}

// harmlessObject reads the options before the kind of an object, such as its definer, and the kind.
func (p *sqlParser) harmlessObject() statement {
	for range 40 {
		for _, o := range harmlessObjects {
			if p.accept(o...) {
				return harmless
			}
		}
		t, before := p.at(0), p.at(-1)
		if !preamble(t) && !(t.isName() && (before.op("=") || before.op("@"))) {
			return unknownSQL
		}
		p.pos++
	}
	return unknownSQL
}

// preamble reports whether a token is part of a definer or of a view's options.
func preamble(t sqlToken) bool {
	switch t.kind {
	case sqldigest.KindHost, sqldigest.KindString, sqldigest.KindVariable:
		return true
	case sqldigest.KindOperator:
		return t.text == "=" || t.text == "(" || t.text == ")" || t.text == "@"
	}
	for _, w := range [...]string{"DEFINER", "ALGORITHM", "SQL", "SECURITY", "INVOKER", "AGGREGATE", "CURRENT_USER", "CURRENT_ROLE"} {
		if t.is(w) {
			return true
		}
	}
	return false
}

// rename parses RENAME TABLE a TO b, …: both names count.
func (p *sqlParser) rename() statement {
	if p.accept("USER") {
		return harmless
	}
	if !p.acceptAny("TABLE", "TABLES") {
		return unknownSQL
	}
	p.ifExists()
	for {
		from, ok := p.name()
		if !ok {
			return unknownSQL
		}
		p.lockWait()
		if !p.accept("TO") {
			return unknownSQL
		}
		to, ok := p.name()
		switch {
		case !ok:
			return unknownSQL
		case from >= 0 || to >= 0:
			return schemaChangeOf(max(from, to), ChangeOther)
		case p.done():
			return harmless
		case !p.acceptOp(","):
			return unknownSQL
		}
	}
}

// lockWait reads the lock wait timeout of MariaDB's syntax.
func (p *sqlParser) lockWait() {
	if p.accept("WAIT") {
		p.pos++
	}
	p.accept("NOWAIT")
}
