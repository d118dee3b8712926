package sqlplan

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestCoverage checks statements that reach a table, or write, without naming it after FROM or starting with
// a writing verb.
func TestCoverage(t *testing.T) {
	maria := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.19-MariaDB"))
	my := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.4"))
	table := newPlanner(t, Rule{Name: "t", Action: ActionBlock, Tables: []string{"shop.secret"}})
	readOnly := newPlanner(t, Rule{Name: "r", Action: ActionReadOnly})
	for _, c := range []struct {
		p       *Planner
		mode    sqldigest.Mode
		sql     string
		refused bool
	}{
		{table, maria, "create table m (a int) engine=merge union=(plain, secret)", true},
		{table, maria, "alter table m union=(secret)", true},
		{table, maria, "create table m (a int) engine=merge union=(plain)", false},
		{table, maria, "create table m (a int) engine=federated connection='x'", true},
		{table, maria, "create table m (engine int) engine=innodb", false},
		{table, my, "import table from '/x/*.sdi'", true},
		{table, maria, "show status where (select count(*) from secret) > 0", true},
		{table, maria, "handler secret read first", true},
		{table, my, "table secret", true},
		{table, my, "do (select a from secret)", true},
		{table, my, "explain analyze select a from secret", true},
		{table, my, "with x as (table secret) select * from x", true},
		{table, my, "create table y like secret", true},
		{table, my, "load data infile 'x' into table secret", true},
		{table, maria, "select secret.nextval", true},
		{table, maria, "select next value for secret", true},
		{table, maria, "select nextval(secret)", true},
		{table, my, "use sys; call execute_prepared_stmt('select a from secret')", true},
		{table, my, "do 1; use `mysql`; do 2; call p('x')", true},
		{table, my, "do 1; call p('x')", false},
		{table, my, "select a from plain", false},
		{table, my, "show status", false},
		{readOnly, maria, "select s.nextval", true},
		{readOnly, maria, "show status where f(1)", true},
		{readOnly, maria, "show status where variable_name = 'x'", false},
		{readOnly, my, "select nvl(1, 2)", true},
		{readOnly, maria, "select nvl(1, 2)", false},
		{readOnly, maria, "select bin_to_uuid(a) from t", true},
		{readOnly, my, "select bin_to_uuid(a) from t", false},
		{readOnly, 0, "select nvl(1, 2)", true},
		{readOnly, 0, "select concat(1, 2)", false},
		{readOnly, my, "select `count`(1)", true},
		{readOnly, my, "select count (1)", true},
		{readOnly, my, "select `date`(a) from t", true},
		{readOnly, my, "select date(a), `concat`(1, 2) from t", false},
	} {
		client := client{schema: "shop", mode: c.mode}
		st := client.statement(c.p, c.sql)
		v, _ := c.p.Plan(st).Verdict()
		if (v != VerdictPass) != c.refused {
			t.Errorf("%s %s: %v", c.mode.Server().Kind, c.sql, v)
		}
	}
}
