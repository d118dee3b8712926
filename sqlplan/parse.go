package sqlplan

import (
	"errors"
	"slices"

	"vitess.io/vitess/go/vt/sqlparser"
)

// parserVersion is the MySQL version whose grammar the parser follows.
const parserVersion = "8.4.0"

// maxDepth is how deep parentheses may nest for the parser: its tree is walked by recursion.
const maxDepth = 256

// maxRetries is how many placeholders may turn out to stand where the grammar takes only a
// number or only a string before the parser gives up.
const maxRetries = 32

// maxRetryBytes bounds the text parsed in all retries of one statement together.
const maxRetryBytes = 1 << 20

// parse parses the statement and collects its tables; a.parsed says whether all is known. What
// the parser sees is the normalized text, spelled out: it holds no literal that the client
// chose, so how the parser reads literals can change nothing.
//
// A placeholder is first given as a parameter, which the grammar takes wherever an expression
// may stand. Where it takes only a number (VARCHAR(?)), only a string (COMMENT ?) or several
// values (SUBSTRING(...)), the parser stops at the placeholder or just behind it, which is
// then given as the next of the forms.
func (a *analysis) parse(p *sqlparser.Parser) {
	if !a.parsable() {
		return
	}
	forms := make([]literalForm, len(a.literals))
	a.guessForms(forms)
	var buf []byte
	ends := make([]int, 0, len(a.toks))
	spent := 0
	for range maxRetries {
		buf, ends = a.spell(buf[:0], ends[:0], forms)
		stmt, pos, ok := safeParse(p, string(buf))
		if ok {
			a.collect(stmt)
			return
		}
		if spent += len(buf); spent > maxRetryBytes || !a.nextForm(forms, ends, pos) {
			return
		}
	}
}

// nextForm turns the placeholder where the parser stopped to its next form. The parser's
// position is past the token that it could not take.
func (a *analysis) nextForm(forms []literalForm, ends []int, pos int) bool {
	at, _ := slices.BinarySearch(ends, pos-1)
	for _, i := range [...]int{at, at - 1, at - 2} {
		if lit, ok := slices.BinarySearch(a.literals, int32(i)); ok {
			if forms[lit]++; forms[lit] < formTwo || forms[lit] < formsEnd && a.isEllipsis(i) {
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
		if recover() != nil { // the parser's own bug on odd input: the lexer's word stands
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

// collect takes over the tables of a statement, if the tree is one for the type that the lexer
// saw. Functions that are not built in count as effects.
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

// A literalForm is how a placeholder is spelled for the parser.
type literalForm uint8

const (
	formParam  literalForm = iota // ?
	formNumber                    // 1
	formString                    // 's'
	formTwo                       // from here on for collapsed lists only
	formThree
	formsEnd
)

var formText = [formsEnd]string{"?", "1", "'s'", "?, ?", "?, ?, ?"}

// treeType returns the type that a parsed statement has, in this package's terms.
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
		return TypeUnknown // its body is left to the lexer
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
