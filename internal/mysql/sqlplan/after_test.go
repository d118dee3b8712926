package sqlplan

import (
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestAfter plans random texts of several statements, as a whole and one by one: if one by one no rule that blocks
// refuses a statement, none refuses the text but for names of different statements, and a refused statement makes the text refused.
func TestAfter(t *testing.T) {
	rnd := testseed.Rand(t)
	texts := []string{
		"select 1", "select a from t", "select a from hidden.secret", "insert into t values (1)", "delete from hidden.secret", "use hidden", "use other",
		"select * from secret", "set names gbk", "set sql_mode = 'ANSI_QUOTES'", "set @a = 1", "call p()", "execute s", "prepare s from 'select 1'",
		"create procedure p() begin select 1", "end", "if 1 then delete from hidden.secret", "end if", "begin not atomic select 1", "begin", "commit",
		"create table x (a int)", "drop database hidden", "/*! select 1 */", "set statement max_statement_time = 1 for select 1", "do 1", " ", "/* x */",
	}
	rules := [][]Rule{
		{{Name: "r", Action: ActionBlock, Tables: []string{"hidden.secret"}}},
		{{Name: "r", Action: ActionBlock, Types: []Type{TypeDelete}}},
		{{Name: "r", Action: ActionBlock, Types: []Type{TypeMulti}}},
		{{Name: "r", Action: ActionReadOnly}},
		{{Name: "r", Action: ActionAllow, Types: []Type{TypeSelect, TypeInsert, TypeMulti}, Effects: []Effect{EffectFunction}}},
		{{Name: "r", Action: ActionAllow, Tables: []string{"shop.*"}}},
		{{Name: "r", Action: ActionAllow, Users: []string{"u"}}},
		{{Name: "r", Action: ActionBlock, Effects: []Effect{EffectRowDelete}}},
	}
	for _, set := range rules {
		p := newPlanner(t, set...)
		m := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.19-MariaDB"))
		cross := 0
		for range 2000 {
			var list []string
			for range 1 + rnd.IntN(4) {
				list = append(list, texts[rnd.IntN(len(texts))])
			}
			if strings.Trim(strings.ReplaceAll(strings.Join(list, ""), "/* x */", ""), " ") == "" {
				continue // no statement
			}
			c := client{schema: "shop", user: "u", mode: m}
			v, _ := p.Plan(c.statement(p, strings.Join(list, ";"))).Verdict()
			all := verdicts(p, strings.Join(list, ";"), m)
			if want := len(list) - count(list, " ") - count(list, "/* x */"); len(all) != want {
				t.Fatalf("%q are %d statements", list, len(all))
			}
			one := slices.ContainsFunc(all, Verdict.Refuses)
			switch {
			case one && !v.Refuses():
				t.Errorf("rules %v: %q: one by one it is refused, as a whole %v", set, list, v)
			case v.Refuses() && !one:
				if cross++; len(set[0].Tables) == 0 || set[0].Action == ActionAllow {
					t.Errorf("rules %v: %q: as a whole it is %v", set, list, v)
				}
			}
		}
		if cross > 600 {
			t.Errorf("rules %v: %d of 2000 are refused as a whole only", set, cross)
		}
	}
}

// verdicts plans the statements of a text one by one.
func verdicts(p *Planner, sql string, m sqldigest.Mode) (all []Verdict) {
	var d sqldigest.Digester
	var after After
	schema, user := []byte("shop"), []byte("u")
	d.Reset(m)
	for more := true; more; d.Next() {
		var n int
		n, more = d.WriteStatement([]byte(sql))
		sql = sql[n:]
		digest := d.Sum()
		if len(d.Text()) == 0 {
			continue
		}
		scope := p.ScopeOf(schema, user, m).After(after)
		if d.Divergent() {
			scope = scope.Divergent()
		}
		plan := p.Plan(Statement{SQL: d.Text(), Text: d.Text(), Digest: digest, Scope: scope, After: after, Schema: schema, User: user, Mode: m})
		v, _ := plan.Verdict()
		all, after = append(all, v), after|plan.After()
	}
	return all
}

func count(list []string, s string) (n int) {
	for _, l := range list {
		if l == s {
			n++
		}
	}
	return n
}
