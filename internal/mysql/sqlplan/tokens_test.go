package sqlplan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// scanned returns the tokens of a text.
func scanned(text string, m sqldigest.Mode) (ts tokens, unsure bool) {
	unsure = ts.scan([]byte(text), m)
	return ts, unsure
}

// TestTokens expects the names in texts, and what is known of their lists, hints and literals.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		text, want string
		mode       sqldigest.Mode
		unsure     bool
	}{
		{text: "SELECT ?, `A``b` FROM T -- c", want: "select a`b from t; depth 0, items 0, literals 1, hints []"},
		{text: `SELECT "x", 'y' FROM t`, want: "select from t; depth 0, items 0, literals 2, hints []"},
		{text: `SELECT "x", 'y' FROM t`, want: "select x from t; depth 0, items 0, literals 1, hints []", mode: sqldigest.ANSIQuotes},
		{text: "SELECT /*+ NO_ICP(t) */ f((1), 2, 3)", want: "select f; depth 2, items 3, literals 3, hints [ NO_ICP(t) ]"},
		{text: "SELECT @ a, @A FROM t", want: "select a a from t; depth 0, items 0, literals 0, hints []"},
		{text: "SELECT 1 /*!99999 + 1 */", want: "select; depth 0, items 0, literals 2, hints []", unsure: true},
	} {
		ts, unsure := scanned(c.text, c.mode)
		var names, hints []string
		for i := range ts.toks {
			if n := ts.name(i); n != "" {
				names = append(names, n)
			}
		}
		for _, h := range ts.hints {
			hints = append(hints, c.text[h[0]:h[1]])
		}
		got := fmt.Sprintf("%s; depth %d, items %d, literals %d, hints %s", strings.Join(names, " "), ts.depth, ts.listItems, len(ts.literals), hints)
		if got != c.want || unsure != c.unsure {
			t.Errorf("%s: %s, unsure %v; want %s, %v", c.text, got, unsure, c.want, c.unsure)
		}
	}
}

// TestAssignments expects the scope, name and value of each element of a SET.
func TestAssignments(t *testing.T) {
	ts, _ := scanned("SET @@GLOBAL.a = f(1, 2), SESSION `B` := 3, @u = 4, NAMES utf8mb4, PERSIST k.c = 5, TRANSACTION READ ONLY, d", 0)
	var got []string
	ts.assignments(1, len(ts.toks), func(a assignment) {
		value := ""
		if a.lo < a.hi {
			value = string(ts.text[ts.toks[a.lo].start:ts.toks[a.hi-1].end])
		}
		got = append(got, fmt.Sprintf("%d %d %s=%s", a.kind, a.scope, a.name, value))
	})
	want := []string{"0 1 a=f(1, 2)", "0 0 b=3", "1 0 =4", "2 0 names=utf8mb4", "0 1 c=5", "3 0 transaction=READ ONLY", "5 0 d="}
	if !slices.Equal(got, want) {
		t.Errorf("assignments\n%q, want\n%q", got, want)
	}
}

// TestSpelling spells texts for the parser: names in backticks, placeholders in the forms that are required.
func TestSpelling(t *testing.T) {
	for _, c := range []struct {
		text, want string
		typ        Type
		forms      []literalForm
	}{
		{text: `SELECT "a" . b , f (?) FROM t`, want: "SELECT `a`.b , f( ? ) FROM t", typ: TypeSelect, forms: []literalForm{formParam}},
		{text: "INSERT INTO t VALUES ( ? ), ...", want: "INSERT INTO t VALUES( ? ) , (1)", typ: TypeInsert, forms: []literalForm{formParam, formNumber}},
		{text: "SET @`x y` := ?", want: "SET @`x y` = ?", typ: TypeSet, forms: []literalForm{formParam}},
	} {
		ts, _ := scanned(c.text, sqldigest.ANSIQuotes)
		s := spelling{&ts, c.typ}
		got, ends := s.spell(nil, nil, c.forms)
		if string(got) != c.want || len(ends) != len(ts.toks) || ends[len(ends)-1] != len(got) {
			t.Errorf("%s is spelled as %s with ends %v, want %s", c.text, got, ends, c.want)
		}
	}
}
