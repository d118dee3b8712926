package explain

import (
	"errors"
	"regexp"
	"strings"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Reasons why a statement is not explained.
var (
	errType      = errors.New("only SELECT, UPDATE, DELETE, INSERT … SELECT and REPLACE … SELECT are explained")
	errUnparsed  = errors.New("its text was not understood whole, so it may have effects that EXPLAIN has too")
	errEffects   = errors.New("EXPLAIN could evaluate what it calls or locks: functions that are not built in, locks, files or variables")
	errWaits     = errors.New("it calls a function that waits or repeats work, which EXPLAIN could evaluate")
	errNoTable   = errors.New("it names no table")
	errLong      = errors.New("its text is too long")
	errCollapsed = errors.New("it was prepared before it was observed, and its normalized text does not show all of it")
	errNoValues  = errors.New("its bind values were sent apart from the execution, or are too long")
	errMode      = errors.New("its session reads statements in another sql_mode or character set")
)

// allowed are the effects that do not occur under EXPLAIN.
const allowed = sqlplan.EffectInsertID | sqlplan.EffectFoundRows | sqlplan.EffectRowInsert | sqlplan.EffectRowUpdate | sqlplan.EffectRowDelete

// waiting matches calls of built-in functions that can run long independently of the rows read.
var waiting = regexp.MustCompile("(?i)\\b(sleep|benchmark|load_file|get_lock|is_free_lock|release_lock|release_all_locks|master_pos_wait|source_pos_wait|" +
	"master_gtid_wait|wait_for_executed_gtid_set|wait_until_sql_thread_after_gtids|name_const|extractvalue|updatexml)\\b`?\\s*\\(")

// A subject is a statement that may be explained.
type subject struct {
	tables []string // schema.table
	selects,
	writes bool
}

// subjectOf checks a normalized text. Its error is the reason why the statement is not explained.
func subjectOf(planner *sqlplan.Planner, text, schema string) (subject, error) {
	plan := planner.Plan(sqlplan.Statement{
		SQL: []byte(text), Complete: true, Text: []byte(text), Digest: sqldigest.OfText([]byte(text)),
		Scope: planner.ScopeOf([]byte(schema), nil, 0), Schema: []byte(schema),
	})
	s := subject{}
	switch plan.Type() {
	case sqlplan.TypeSelect:
		s.selects = true
	case sqlplan.TypeUpdate, sqlplan.TypeDelete:
		s.writes = true
	case sqlplan.TypeInsert, sqlplan.TypeReplace:
		if !strings.Contains(text, "SELECT ") {
			return s, errType
		}
		s.writes = true
	default:
		return s, errType
	}
	switch {
	case !plan.Parsed():
		return s, errUnparsed
	case plan.Effects()&^allowed != 0:
		return s, errEffects
	case waiting.MatchString(text):
		return s, errWaits
	}
	for t := range plan.Tables() {
		s.tables = append(s.tables, t.String())
	}
	if len(s.tables) == 0 {
		return s, errNoTable
	}
	return s, nil
}

// placeholders counts the literals and parameters of a normalized text; ok is false if some of them are
// collapsed.
func placeholders(text string) (n int, ok bool) {
	quoted := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '`':
			quoted = !quoted
		case quoted:
		case c == '?':
			n++
		case c == '.' && strings.HasPrefix(text[i:], "..."):
			return 0, false
		}
	}
	return n, true
}
