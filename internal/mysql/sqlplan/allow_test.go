package sqlplan

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestAllowedEffects plans statements under one allow rule of user u.
func TestAllowedEffects(t *testing.T) {
	shop := []string{"shop.*"}
	for _, c := range []struct {
		rule    Rule
		sql     string
		lacking string // "" if it is allowed, "-" if no words would
	}{
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select a from t", ""},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select a from t into outfile 'x'", "effects: [file]"},
		{Rule{Types: []Type{TypeSelect}, Tables: shop, Effects: []Effect{EffectFile}}, "select a from t into outfile 'x'", ""},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select a from t for update", "effects: [row-locks]"},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select a from t lock in share mode", "effects: [row-locks]"},
		{Rule{Types: []Type{TypeSelect, TypeDelete}, Tables: shop}, "select a from t for share", ""},
		{Rule{Types: []Type{TypeSelect}}, "select get_lock('x', 1)", "effects: [named-lock]"},
		{Rule{Types: []Type{TypeSelect}}, "select load_file('x')", "effects: [file-read]"},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select f(a) from t", "effects: [function]"},
		{Rule{Types: []Type{TypeSelect}, Tables: shop, Effects: []Effect{EffectFunction}}, "select f(a) from t", ""},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "select a, @x := 1 from t", ""},
		{Rule{Types: []Type{TypeSelect}, Tables: shop}, "insert into t values (1)", "types: [insert] and effects: [row-insert]"},
		{Rule{Types: []Type{TypeInsert}, Tables: shop}, "insert into t values (1) on duplicate key update a = 2", "effects: [row-update]"},
		{Rule{Types: []Type{TypeInsert, TypeUpdate}, Tables: shop}, "insert into t values (1) on duplicate key update a = 2", ""},
		{Rule{Types: []Type{TypeReplace}, Tables: shop}, "replace into t values (1)", ""},
		{Rule{Types: []Type{TypeLoad}}, "load data local infile 'x' into table t", ""},
		{Rule{Types: []Type{TypeLoad}}, "load data local infile 'x' replace into table t", "effects: [row-delete]"},
		{Rule{Types: []Type{TypeLoad, TypeDelete}}, "load data local infile 'x' replace into table t", ""},
		{Rule{Types: []Type{TypeLoad}}, "load data infile 'x' into table t", "effects: [file-read]"},
		{Rule{Types: []Type{TypeLoad}}, "load data local infile 'x' into table t set a = (select 1)", "types: [select] and effects: [function]"},
		{Rule{Types: []Type{TypeDo}}, "do 1", ""},
		{Rule{Types: []Type{TypeHandler}}, "handler t open", ""},
		{Rule{Types: []Type{TypeAnalyze}}, "optimize table t", ""},
		{Rule{Types: []Type{TypeSet}}, "set sql_mode = ''", ""},
		{Rule{Types: []Type{TypeSet}}, "set global max_connections = 1", "effects: [global-var]"},
		{Rule{Types: []Type{TypeCall}}, "call p()", ""},
		{Rule{Types: []Type{TypeCall}}, "call sys.execute_prepared_stmt('x')", "-"},
		{Rule{Types: []Type{TypeDDL}}, "create procedure p() begin select 1; insert into t values (1); end", "-"},
		{Rule{Types: []Type{TypePrepare}}, "prepare s from 'x'", "-"},
		{Rule{Tables: shop}, "select a from t for update", ""},
		{Rule{Tables: shop}, "insert into t values (1) on duplicate key update a = 2", ""},
		{Rule{Tables: shop}, "select a from t into dumpfile 'x'", "effects: [file]"},
		{Rule{Users: []string{"other"}}, "select 1", "-"},
	} {
		checkAllowed(t, c.rule, c.sql, c.lacking)
	}
	for _, sql := range []string{
		"load data local infile 'x' into table t", "load data infile 'x' into table t", "do 1", "optimize table t", "create sequence s", "set password = 'x'",
		"help 'x'", "handler t open", "handler t read first", "change master to master_host = 'x'", "begin not atomic select 1; end", "prepare s from 'x'", "execute s",
		"select a from t into outfile 'x'", "select f()", "shutdown", "call sys.execute_prepared_stmt('x')", "no such statement", "binlog 'x'", "select nextval(s)",
		"create procedure p() begin select 1; insert into t values (1); end", "set statement max_statement_time = 1 for select 1", "backup stage start", "flush tables",
	} {
		checkAllowed(t, Rule{Users: []string{"u"}}, sql, "")
	}
	// A further rule allows what the first one lacks words for.
	checkAllowed(t, Rule{Types: []Type{TypeSet}}, "set global max_connections = 1", "", Rule{Name: "s", Action: ActionAllow, Users: []string{"u"}})
}

// checkAllowed plans a statement under an allow rule named r, and further rules.
func checkAllowed(t *testing.T, rule Rule, sql, lacking string, further ...Rule) {
	t.Helper()
	rule.Name, rule.Action = "r", ActionAllow
	p, err := New(Options{Rules: append([]Rule{rule}, further...)})
	if err != nil {
		t.Fatal(err)
	}
	m := sqldigest.Mode(0).WithServer(sqldigest.Server{Kind: sqldigest.ServerMariaDB, Version: 101100})
	var d sqldigest.Digester
	digest := d.Digest([]byte(sql), m)
	plan := p.Plan(Statement{
		SQL: []byte(sql), Complete: true, Text: d.Text(), Digest: digest, Scope: p.ScopeOf([]byte("shop"), []byte("u"), m),
		Schema: []byte("shop"), User: []byte("u"), Mode: m,
	})
	v, _ := plan.Verdict()
	want := `rule "r" requires ` + lacking + " for it"
	switch {
	case lacking == "" && v == VerdictPass && plan.Lacking() == "":
	case lacking == "-" && v == VerdictDenied && plan.Lacking() == "":
	case v == VerdictDenied && plan.Lacking() == want:
	default:
		t.Errorf("%s under types %v, tables %s, effects %v, users %v: %s, %q; want %q (effects %s)", sql, rule.Types, strings.Join(rule.Tables, ","), rule.Effects, rule.Users,
			v, plan.Lacking(), lacking, plan.Effects())
	}
}
