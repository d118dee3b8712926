package gateway_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// severalTexts are texts of several statements, of which the rules refuse one that the server refuses too. PAD is
// replaced by many bytes, MANY by many statements.
var severalTexts = []string{
	"delete from hidden.secret; insert into t (b) values (78); set @a = 'PAD'",
	"insert into t (b) values (77); delete from hidden.secret; insert into t (b) values (78); set @a = 'PAD'",
	"insert into t (b) values (77); set @a = 'PAD; it''s \\'; -- ;'; delete from hidden.secret; insert into t (b) values (78)",
	"insert into t (b) values (77); set @a = 'PAD'; delete from hidden.secret;",
	"insert into t (b) values (77); set @a = 'PAD';delete from hidden.secret",
	"insert into t (b) values (77); set @a = 'PAD';delete from hidden.secret ;\n\n /* ; */ -- ;\n",
	"insert into t (b) values (77); delete from hidden.secret where b = 'PAD;\\'; it''s;'; insert into t (b) values (78)",
	"insert into t (b) values (77); delete from hidden.secret where b = \"'PAD;\"; insert into t (b) values (78)",
	"insert into t (b) values (77); delete from hidden.secret where b = /* ; PAD ' */ 1; insert into t (b) values (78)",
	"insert into t (b) values (77); delete /* PAD */ from hidden.secret",
	"insert into t (b) values (77); delete from hidden.secret where b in (1 -- PAD;\n); insert into t (b) values (78)",
	"insert into t (b) values (77); /* PAD ; ' */ select 1; -- ; \" \n # ;\n delete from hidden.secret /* ; */; insert into t (b) values (78)",
	"insert /*! into */ t (b) values (77); set @a = 'PAD'; delete from /*! hidden.secret */; insert into t (b) values (78)",
	"MANY insert into t (b) values (77); delete from hidden.secret; insert into t (b) values (78)",
	"insert into t (b) values (77); MANY delete from hidden.secret; MANY insert into t (b) values (78)",
	"insert into t (b) values (77); delete from hidden.secret; MANY insert into t (b) values (78)",
	"select b from t; call two(); set @a = 'PAD'; select 2; delete from hidden.secret; call two()",
	"call two(); delete from hidden.secret where b = 'PAD'; call two()",
	"begin; insert into t (b) values (77); set @a = 'PAD'; delete from hidden.secret; commit",
	"insert into t (b) values (77); set @a = 'PAD'; ; delete from hidden.secret",
	"insert into t (b) values (77); insert into t (a) values (1); set @a = 'PAD'; delete from hidden.secret; insert into t (b) values (78)",
	"insert into t (b) values (77); set @a = 'PAD'; select 1 1; delete from hidden.secret; insert into t (b) values (78)",
	"insert into t (b) values (77); delimiter $$; set @a = 'PAD'; delete from hidden.secret $$ insert into t (b) values (78)",
	"insert into t (b) values (77); create procedure pp() begin select 'PAD'; select 2; if 1 then select 3; end if; end; delete from hidden.secret; insert into t (b) values (78)",
	"insert into t (b) values (77); create procedure pp() begin select 1; end; insert into t (b) values (79); delete from hidden.secret where b = 'PAD'; insert into t (b) values (78)",
	"set @a = 'PAD'; use other; delete from hidden.secret; insert into test.t (b) values (78)",
}

// bodyTexts are texts whose refused statement is a part of stored code, or may be: the server does not check the
// privileges of the code's statements before they are executed. Nothing of them is executed but what precedes the code:
// an INSERT of 77.
var bodyTexts = []string{
	"insert into t (b) values (77); create procedure pp() begin select 'PAD'; delete from hidden.secret; end; insert into t (b) values (78)",
	"insert into t (b) values (77); create procedure pp() begin delete from hidden.secret; end; set @a = 'PAD'; insert into t (b) values (78)",
	"insert into t (b) values (77); create procedure pp() begin select 1; delete from hidden.secret where b = 'PAD'; end",
	"insert into t (b) values (77); begin not atomic insert into t (b) values (79); set @a = 'PAD'; delete from hidden.secret; end; insert into t (b) values (78)",
	"create procedure pp() begin select 'PAD'; delete from hidden.secret; end",
	"create procedure pp() delete from hidden.secret where b = 'PAD'; insert into t (b) values (78)",
	"create procedure pp() begin delete from hidden.secret where b = 'PAD'; end; insert into t (b) values (78)",
	"create definer = current_user procedure pp(in x int) begin if x then set @a = 'PAD'; else delete from hidden.secret; end if; end",
	"create trigger pp before insert on t for each row begin set new.b = length('PAD'); delete from hidden.secret; end; insert into t (b) values (78)",
	"insert into t (b) values (77); create trigger pp after insert on t for each row begin declare x int; delete from hidden.secret where b = 'PAD'; end",
	"create function pp() returns int begin declare x int default length('PAD'); select b into x from hidden.secret limit 1; return x; end",
	"insert into t (b) values (77); create function pp() returns int deterministic begin delete from hidden.secret; return length('PAD'); end; insert into t (b) values (78)",
	"create event pp on schedule every 1 hour do begin set @a = 'PAD'; delete from hidden.secret; end; insert into t (b) values (78)",
	"insert into t (b) values (77); create event pp on schedule every 1 hour do delete from hidden.secret where b = 'PAD'; insert into t (b) values (78)",
	"alter event e do begin set @a = 'PAD'; delete from hidden.secret; end",
	"begin not atomic insert into t (b) values (79); set @a = 'PAD'; delete from hidden.secret; end",
	"begin not atomic declare c cursor for select b from hidden.secret where b = 'PAD'; open c; close c; insert into t (b) values (79); end",
	"begin not atomic insert into t (b) values (79); begin set @a = 'PAD'; if 1 then delete from hidden.secret; end if; end; end; insert into t (b) values (78)",
	"if 1 then insert into t (b) values (79); set @a = 'PAD'; delete from hidden.secret; end if; insert into t (b) values (78)",
	"insert into t (b) values (77); for i in 1..2 do insert into t (b) values (79); set @a = 'PAD'; delete from hidden.secret; end for",
	"insert into t (b) values (77); loop insert into t (b) values (79); delete from hidden.secret where b = 'PAD'; end loop; insert into t (b) values (78)",
}

// long replaces PAD and MANY in a text, so that it has about size bytes.
func long(rnd *rand.Rand, text string, size int) []byte {
	if n := strings.Count(text, "PAD"); n > 0 {
		return query(strings.ReplaceAll(text, "PAD", strings.Repeat("x", max(0, size-len(text))/n)))
	}
	many := []string{"do 'x; -- '; ", "set @b = 1 /* ; */; ", "select 1; ", "do /* ' */ 1;\n"}
	var b strings.Builder
	room := size / strings.Count(text, "MANY")
	for i := 0; b.Len() < room; i++ {
		b.WriteString(many[rnd.IntN(len(many))])
		if i%500 == 0 { // most of the bytes are in few statements
			b.WriteString("set @a = '" + strings.Repeat("x", room/25) + "'; ")
		}
	}
	return query(strings.ReplaceAll(text, "MANY", b.String()))
}

// TestSeveral compares texts of several statements, within the statement memory and longer, with the server's error at the same statement: those before it are executed, those after it are not, and the session continues.
func TestSeveral(t *testing.T) {
	rnd := testseed.Rand(t)
	for name, opts := range refusalServers(t) {
		t.Run(name, func(t *testing.T) {
			r := startRefusals(t, append(opts, testmysql.WithArgs("--max-allowed-packet=64M", "--long-query-time=3600")))
			sizes := []int{0, 1 << 20}
			if *allRefusals {
				sizes = []int{0, 100, 1000, 30 << 10, 60 << 10, 800 << 10, 1 << 20, 1 << 20, 1 << 20, 3 << 20, mysqlwire.MaxPayload - 100, mysqlwire.MaxPayload, 40 << 20}
			}
			then := [][]byte{
				query("show warnings"), query("select row_count(), length(@a)"), query("rollback"), query("select b from test.t where b > 3"),
				query("select routine_name from information_schema.routines where routine_schema = 'test'"), query("drop procedure if exists test.pp"),
			}
			for _, size := range sizes {
				for _, text := range severalTexts {
					if size < 3<<20 || rnd.IntN(3) == 0 {
						m := memory{name: text, refused: long(rnd, text, size+rnd.IntN(min(size, 1<<20)/8+1)), then: then}
						if strings.Contains(text, "use other") { // the modes are unknown until a statement that may wait for them
							m.then = append([][]byte{query("select database()"), query("select * from u")}, then...)
						}
						through, refused := r.playThrough(t, m, false, 0)
						if direct, failed := r.playDirectly(t, m, false, 0); direct != through || !sameKind(refused, failed) && !strings.Contains(text, "delimiter") {
							t.Errorf("%s, %d bytes: after a refusal\n%safter the server's error\n%s", text, len(m.refused), brief(through), brief(direct))
						}
					}
				}
				for _, text := range bodyTexts {
					m := memory{name: text, refused: long(rnd, text, size+rnd.IntN(min(size, 1<<20)/8+1)), then: then}
					got, e := r.playThrough(t, m, false, 0)
					if e.Number != mysqlwire.ErrnoSpecificAccessDenied || strings.Contains(got, `"78"`) || strings.Contains(got, `"pp"`) || strings.Contains(got, `"79"`) ||
						strings.Contains(got, `["77"]`) != strings.Contains(text, "77") {
						t.Errorf("%s, %d bytes: after a refusal\n%s", text, len(m.refused), brief(got))
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// brief returns the first part of each line.
func brief(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(line[:min(len(line), 600)])
		if len(line) > 600 {
			b.WriteString("…\n")
		}
	}
	return b.String()
}
