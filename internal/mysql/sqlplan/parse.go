package sqlplan

import (
	"errors"
	"slices"

	"vitess.io/vitess/go/vt/sqlparser"
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
	forms := make([]literalForm, len(a.literals))
	s := spelling{&a.tokens, a.typ}
	s.guessForms(forms)
	var buf []byte
	ends := make([]int, 0, len(a.toks))
	spent := 0
	for range maxRetries {
		buf, ends = s.spell(buf[:0], ends[:0], forms)
		stmt, pos, ok := safeParse(p, string(buf))
		if ok {
			a.collect(stmt)
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
