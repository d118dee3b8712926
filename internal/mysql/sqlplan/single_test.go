package sqlplan

import (
	"os"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestRuleOfOneEffect plans each statement of testdata/commands.txt under rules with one effect or type: a rule blocks the statements that have it,
// and no others.
func TestRuleOfOneEffect(t *testing.T) {
	commands, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for line := range strings.Lines(string(commands)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 3 && f[2] != "" && !strings.HasPrefix(f[1], "10") {
			statements = append(statements, f[2])
		}
	}
	if len(statements) < 40 {
		t.Fatalf("%d statements", len(statements))
	}
	free := newPlanner(t)
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.0"))
	seen := make(map[Effect][2]int) // blocked and not
	for e := range AllEffects() {
		p := newPlanner(t, Rule{Name: "one", Action: ActionBlock, Effects: []Effect{e}})
		for _, sql := range statements {
			c := client{schema: "shop", mode: mode}
			plain, ruled := free.Plan(c.statement(free, sql)), p.Plan(c.statement(p, sql))
			a := analysis{effects: plain.Effects(), typ: plain.Type()}
			verdict, _ := ruled.Verdict()
			if has := a.ruleEffects().Has(e); has && verdict != VerdictBlocked || !has && verdict != VerdictPass && !plain.Effects().Has(EffectUnknown) {
				t.Errorf("%s of %s under a rule with %s: %v", sql, plain.Effects(), e, verdict)
			}
			n := seen[e]
			if verdict == VerdictBlocked {
				n[0]++
			} else {
				n[1]++
			}
			seen[e] = n
		}
	}
	for _, e := range []Effect{EffectSessionVar, EffectGlobalVar, EffectSchema, EffectRowInsert, EffectRowDelete, EffectBegin, EffectAdmin} {
		if n := seen[e]; n[0] == 0 || n[1] == 0 {
			t.Errorf("a rule with %s blocks %d statements and lets %d pass", e, n[0], n[1])
		}
	}
}

// TestRulesOfOneName refuses rules of one name, when a planner is made and later.
func TestRulesOfOneName(t *testing.T) {
	rule := Rule{Name: "a", Action: ActionBlock, Types: []Type{TypeKill}}
	if _, err := New(Options{Rules: []Rule{rule, rule}}); err == nil || !strings.Contains(err.Error(), "the name is used twice") {
		t.Errorf("at the start: %v", err)
	}
	if err := newPlanner(t, rule).SetRules([]Rule{rule, rule}); err == nil || !strings.Contains(err.Error(), "the name is used twice") {
		t.Errorf("later: %v", err)
	}
}

// TestWordsInDefinitions has words of other statements at places where they are names, and words before the kind of an object.
func TestWordsInDefinitions(t *testing.T) {
	p := newPlanner(t)
	c := client{schema: "shop"}
	for _, tt := range []struct {
		sql     string
		typ     Type
		has     Effect
		hasNot  Effect
		blocked []Type // of rules with one type, among those below
	}{
		{"CREATE TABLE t (temporary INT)", TypeDDL, EffectSchema, EffectTempTable, []Type{TypeDDL}},
		{"CREATE TEMPORARY TABLE t (a INT)", TypeDDL, EffectTempTable, EffectSchema, []Type{TypeDDL}},
		{"CREATE OR REPLACE TEMPORARY TABLE t (a INT)", TypeDDL, EffectTempTable, EffectSchema, []Type{TypeDDL}},
		{"CREATE TABLE t (event INT, a INT DEFAULT 1)", TypeDDL, EffectSchema, EffectUnknown, []Type{TypeDDL}},
		{"CREATE OR REPLACE USER u", TypeGrant, EffectSchema, 0, []Type{TypeGrant}},
		{"CREATE USER IF NOT EXISTS u", TypeGrant, EffectSchema, 0, []Type{TypeGrant}},
		{"DROP ROLE IF EXISTS r", TypeGrant, EffectSchema, 0, []Type{TypeGrant}},
		{"CREATE TABLE user (a INT)", TypeDDL, EffectSchema, 0, []Type{TypeDDL}},
		{"DROP PREPARE s", TypeDeallocate, EffectPrepare, EffectSchema, nil},
		{"CREATE PROCEDURE p() DELETE FROM t", TypeDDL, EffectSchema, 0, []Type{TypeDDL, TypeDelete}},
		{"CREATE PROCEDURE p() SELECT t.delete, t . update FROM t", TypeDDL, EffectSchema, 0, []Type{TypeDDL}},
		{"SHOW WARNINGS", TypeShow, EffectLastResult, 0, nil},
		{"SHOW TABLES", TypeShow, 0, EffectLastResult, nil},
		{"COMMIT AND CHAIN", TypeCommit, EffectCommit | EffectBegin, EffectRollback, nil},
		{"ROLLBACK AND NO CHAIN", TypeRollback, EffectRollback, EffectBegin | EffectCommit, nil},
		{"COMMIT", TypeCommit, EffectCommit, EffectBegin, nil},
		{"CREATE TABLE t (a INT) ENGINE=FEDERATED", TypeDDL, EffectSchema, 0, []Type{TypeDDL, TypeGrant, TypeDelete, TypeUpdate, TypeInsert}}, // it may access any table
	} {
		plan := p.Plan(c.statement(p, tt.sql))
		if plan.Type() != tt.typ || !plan.Effects().Has(tt.has) || plan.Effects().Any(tt.hasNot) {
			t.Errorf("%s: %v, %s; want %v with %s and without %s", tt.sql, plan.Type(), plan.Effects(), tt.typ, tt.has, tt.hasNot)
		}
		for _, typ := range []Type{TypeDDL, TypeGrant, TypeDelete, TypeUpdate, TypeInsert} {
			q := newPlanner(t, Rule{Name: "one", Action: ActionBlock, Types: []Type{typ}})
			verdict, _ := q.Plan(c.statement(q, tt.sql)).Verdict()
			want := VerdictPass
			for _, b := range tt.blocked {
				if b == typ {
					want = VerdictBlocked
				}
			}
			if verdict != want {
				t.Errorf("%s under a rule with %v: %v, want %v", tt.sql, typ, verdict, want)
			}
		}
	}
	for _, sql := range []string{"SET @a := 1", "SET a := 1", "SELECT @ FROM t"} {
		if !p.Plan(c.statement(p, sql)).Parsed() {
			t.Errorf("%s is not parsed", sql)
		}
	}
}
