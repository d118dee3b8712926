package gateway

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
)

// FuzzParts has rules judge texts of several statements. A text that is refused whole is refused in
// pieces too, at the same statement or an earlier one. The statements before the refused one pass without it, and the refused one is refused without them.
func FuzzParts(f *testing.F) {
	for _, text := range []string{
		"delete from hidden.secret; select 1", "select 1; delete from hidden.secret; select 2", "select ';'; delete from hidden.secret -- ;\n; select 1",
		"set @a = 'it''s \\'; -- ;'; delete from hidden.secret", "/* ; */ select 1 ; ; delete from hidden.secret", "use hidden; delete from secret",
		"create procedure p() begin select 1; delete from hidden.secret; end", "delete /*! from hidden.secret; */ select", "begin not atomic delete from hidden.secret; end",
		"select \"a;\"; delete from `hidden`.`secret;`; delete from hidden.secret", "select 1; delete from app.\xc3; delete from hidden.secret",
	} {
		for _, piece := range []uint8{1, 7, 255} {
			f.Add([]byte(text), uint8(0), piece)
			f.Add([]byte(text), uint8(3), piece)
		}
	}
	planner, err := sqlplan.New(sqlplan.Options{Rules: []sqlplan.Rule{{Name: "hidden", Action: sqlplan.ActionBlock, Tables: []string{"hidden.*"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, mode, piece uint8) {
		text = text[:min(len(text), 4096)]
		m := sqldigest.Mode(mode & 31)
		judge := func(text []byte, piece int) *parts {
			session := &modes{planner: planner, mode: m, schema: "app", user: "u"}
			session.rescope()
			j := newParts(session, nil)
			for n := 0; n < len(text); n += piece {
				j.see(text[n:min(n+piece, len(text))])
			}
			if j.refused == nil {
				j.judge()
			}
			return j
		}
		whole := judge(text, len(text)+1)
		cut := judge(text, 1+int(piece))
		switch { // a hint in two pieces is not known to be plain
		case cut.refused != nil && cut.start <= whole.start:
		case whole.refused != nil || cut.refused != nil:
			t.Fatalf("%q: in pieces of %d refused %v at %d; whole %v at %d", text, 1+int(piece), cut.refused != nil, cut.start, whole.refused != nil, whole.start)
		case whole.effects != cut.effects || whole.results != cut.results || whole.after != cut.after:
			t.Fatalf("%q: in pieces of %d effects %v, results %d; whole %v, %d", text, 1+int(piece), cut.effects, cut.results, whole.effects, whole.results)
		}
		if whole.start < 0 || whole.start > len(text) || whole.start > 0 && text[whole.start-1] != ';' {
			t.Fatalf("%q: a statement starts at %d", text, whole.start)
		}
		if whole.refused == nil || bytes.Contains(text, []byte("/*")) { // parts of a comment are read in another way alone
			return
		}
		if before := judge(text[:whole.start], len(text)+1); before.refused != nil {
			t.Errorf("%q: its part before %d is refused at %d alone", text, whole.start, before.start)
		}
		if alone := judge(text[whole.start:], len(text)+1); whole.after == 0 && (alone.refused == nil || alone.start != 0) {
			t.Errorf("%q: its part from %d is refused at %d alone", text, whole.start, alone.start)
		}
	})
}
