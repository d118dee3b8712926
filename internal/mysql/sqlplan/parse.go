package sqlplan

import (
	"errors"
	"slices"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/mysql/sqldigest"
)

// parserVersion is the MySQL version whose grammar the parser follows.
const parserVersion = "8.4.0"

// maxDepth is the deepest nesting of parentheses that is parsed: the tree is walked by recursion.
const maxDepth = 256

// maxRetries is the number of placeholders that may turn out to be in positions for only a number or only a
// string before parsing is abandoned.
const maxRetries = 32

// maxRetryBytes bounds the total text parsed in the retries of one statement.
const maxRetryBytes = 1 << 20

// parse parses the statement and collects its tables; a.parsed reports whether that succeeded completely. The
// parser receives the normalized text, spelled out: it contains no literal of the client, so the parser's
// reading of literals cannot matter.
//
// A placeholder is first spelled as a parameter, which the grammar accepts wherever an expression is allowed.
// Where it accepts only a number (VARCHAR(?)), only a string (COMMENT ?) or several values (SUBSTRING(...)),
// the parser stops at the placeholder or just after it, and the placeholder gets the next form.
func (a *analysis) parse(p *sqlparser.Parser) {
	if !a.parsable() {
		return
	}
	at := a.returning()
	text := a.tokens
	text.toks = text.toks[:at]
	n, _ := slices.BinarySearch(text.literals, int32(at))
	text.literals = text.literals[:n]
	forms := make([]literalForm, n)
	s := spelling{&text, a.typ}
	s.guessForms(forms)
	var buf []byte
	ends := make([]int, 0, at)
	spent := 0
	for range maxRetries {
		buf, ends = s.spell(buf[:0], ends[:0], forms)
		stmt, pos, ok := safeParse(p, string(buf))
		if ok {
			if a.collect(stmt); at < len(a.toks) && a.parsed && !a.readsReturned(at) {
				a.parsed = false
				a.tables.list, a.tables.index = nil, nil
			}
			return
		}
		if spent += len(buf); spent > maxRetryBytes || !s.nextForm(forms, ends, pos) {
			return
		}
	}
}

// nextForm changes the placeholder at which the parser stopped to its next form. The parser's position is
// past the token that it rejected.
func (s *spelling) nextForm(forms []literalForm, ends []int, pos int) bool {
	at, _ := slices.BinarySearch(ends, pos-1)
	for _, i := range [...]int{at, at - 1, at - 2} {
		if lit, ok := slices.BinarySearch(s.literals, int32(i)); ok {
			if forms[lit]++; forms[lit] < formTwo || forms[lit] < formsEnd && s.isEllipsis(i) {
				return true
			}
			forms[lit]--
		}
	}
	return false
}

// safeParse returns the statement, or the position where the parser stopped.
func safeParse(p *sqlparser.Parser, text string) (stmt sqlparser.Statement, pos int, ok bool) {
	defer func() {
		if recover() != nil { // a bug of the parser on unusual input: keep the lexer's result
			stmt, pos, ok = nil, -1, false
		}
	}()
	stmt, err := p.ParseStrictDDL(text)
	if err != nil {
		var at sqlparser.PositionedErr
		if errors.As(err, &at) {
			return nil, at.Pos, false
		}
		return nil, -1, false
	}
	return stmt, 0, true
}

// collect adopts the tables of a statement if the tree fits the type that the lexer determined. Functions
// that are not built in count as effects.
func (a *analysis) collect(stmt sqlparser.Statement) {
	defer func() {
		if recover() != nil {
			a.parsed = false
			a.tables.list, a.tables.index = nil, nil
		}
	}()
	if treeType(stmt) == a.typ && a.tables.collect(stmt) {
		a.parsed = true
		if ddl, ok := stmt.(sqlparser.DDLStatement); ok {
			a.references(ddl.GetTable())
		}
		return
	}
	a.tables.list, a.tables.index = nil, nil
}

// A literalForm is the spelling of a placeholder for the parser.
type literalForm uint8

const (
	formParam  literalForm = iota // ?
	formNumber                    // 1
	formString                    // 's'
	formTwo                       // from here on only for collapsed lists
	formThree
	formsEnd
)

var formText = [formsEnd]string{"?", "1", "'s'", "?, ?", "?, ?, ?"}

// treeType returns the type of a parsed statement.
func treeType(stmt sqlparser.Statement) Type {
	switch n := stmt.(type) {
	case *sqlparser.Select, *sqlparser.Union, *sqlparser.ValuesStatement:
		return TypeSelect
	case *sqlparser.Insert:
		if n.Action == sqlparser.ReplaceAct {
			return TypeReplace
		}
		return TypeInsert
	case *sqlparser.Update:
		return TypeUpdate
	case *sqlparser.Delete:
		return TypeDelete
	case *sqlparser.CreateProcedure:
		return TypeUnknown // the lexer classifies its body
	case sqlparser.DDLStatement, sqlparser.DBDDLStatement:
		return TypeDDL
	case *sqlparser.Set:
		return TypeSet
	case *sqlparser.Begin:
		return TypeBegin
	case *sqlparser.Commit:
		return TypeCommit
	case *sqlparser.Rollback:
		return TypeRollback
	case *sqlparser.Savepoint, *sqlparser.SRollback, *sqlparser.Release:
		return TypeSavepoint
	case *sqlparser.Use:
		return TypeUse
	case *sqlparser.Show:
		return TypeShow
	case *sqlparser.ExplainStmt, *sqlparser.ExplainTab:
		return TypeExplain
	case *sqlparser.CallProc:
		return TypeCall
	case *sqlparser.DeallocateStmt:
		return TypeDeallocate
	case *sqlparser.LockTables:
		return TypeLock
	case *sqlparser.UnlockTables:
		return TypeUnlock
	case *sqlparser.Kill:
		return TypeKill
	case *sqlparser.Flush:
		return TypeFlush
	case *sqlparser.Analyze:
		return TypeAnalyze
	}
	return TypeUnknown
}

// returning returns the index of the word RETURNING whose list ends a statement of MariaDB, or the number of tokens if there is none. The
// parser's grammar lacks it.
func (a *analysis) returning() int {
	if a.tables.server.Kind != sqldigest.ServerMariaDB || a.typ != TypeInsert && a.typ != TypeReplace && a.typ != TypeDelete {
		return len(a.toks)
	}
	depth := 0
	for i := range a.toks {
		switch {
		case a.isOp(i, "("):
			depth++
		case a.isOp(i, ")"):
			depth--
		case depth == 0 && a.is(i, "returning") && !a.isOp(i-1, "."):
			return i
		}
	}
	return len(a.toks)
}

// readsReturned adds the accesses of the list after RETURNING at i: reads of the changed table, and calls of functions. It reports false
// for a list with a subquery.
func (a *analysis) readsReturned(i int) bool {
	if a.hasQuery(i, len(a.toks)) {
		return false
	}
	for i++; i+1 < len(a.toks); i++ {
		if name := a.name(i); name != "" && a.isOp(i+1, "(") && (a.isOp(i-1, ".") || !precedesList(a.word(i)) && !builtinOn(name, a.tables.server)) {
			a.tables.unknownCall = true
		}
	}
	for i := range a.tables.list {
		if t := &a.tables.list[i]; t.access&AccessWrite != 0 {
			t.access |= AccessRead
		}
	}
	return true
}

// precedesList reports whether parentheses after a word in an expression are not those of a call.
func precedesList(word string) bool {
	switch word {
	case "and", "or", "xor", "not", "in", "between", "case", "when", "then", "else", "like", "rlike", "regexp", "is", "div", "mod":
		return true
	}
	return false
}
