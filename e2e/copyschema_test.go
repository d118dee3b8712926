//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var schemaTables = flag.Int("copyschema.tables", 1000, "tables of TestCopySchemaMany")

// smallShop is a schema with objects of all kinds that MariaDB and MySQL have.
var smallShop = []string{
	"create table kinds.customer (id int auto_increment primary key, name varchar(40) not null, key name (name)) character set utf8mb4",
	"create table kinds.orders (id int primary key, customer int not null, total decimal(8,2), constraint orders_customer foreign key (customer) references kinds.customer (id)) character set utf8mb4",
	"create table kinds.log (id int auto_increment primary key, what varchar(40)) character set utf8mb4",
	"insert into kinds.customer (name) values ('Ann'), ('Éva'), ('花子')",
	"create view kinds.z_base as select id, name from kinds.customer where id > 0",
	"create view kinds.a_over as select name from kinds.z_base",
	"create function kinds.twice(n int) returns int deterministic return 2 * n",
	"create procedure kinds.note(in t varchar(40) character set utf8mb4) insert into kinds.log (what) values (t)",
	"create trigger kinds.orders_logged after insert on kinds.orders for each row insert into kinds.log (what) values ('order')",
	"create event kinds.clean on schedule every 1 day do delete from kinds.log",
}

// shopObjects lists the objects of the schema, with what clients see of each.
func shopObjects(t *testing.T, s *testmysql.Server) []string {
	t.Helper()
	db := session(t, s)
	all := texts(t, db, "select concat(table_type, ' ', table_name) from information_schema.tables where table_schema = 'kinds' union all"+
		" select concat(routine_type, ' ', routine_name, ' ', definer) from information_schema.routines where routine_schema = 'kinds' union all"+
		" select concat('trigger ', trigger_name, ' ', action_timing, ' ', event_manipulation, ' ', event_object_table, ' ', definer) from information_schema.triggers where trigger_schema = 'kinds' union all"+
		" select concat('event ', event_name, ' every ', interval_value, ' ', interval_field) from information_schema.events where event_schema = 'kinds' union all"+
		" select concat('foreign key ', constraint_name) from information_schema.referential_constraints where constraint_schema = 'kinds' order by 1")
	for _, sql := range []string{"select name from kinds.a_over order by 1", "select kinds.twice(21)", "select id, customer, total from kinds.orders order by id", "select id, what from kinds.log order by id"} {
		all = append(all, texts(t, db, sql)...)
	}
	return all
}

// TestCopySchemaKilled copies a schema between the servers of two vendors, both ways. The copy is killed at random times; the same command
// resumes. In the end the target has all objects, and each row once.
func TestCopySchemaKilled(t *testing.T) {
	account := testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier with grant option")
	mariadb, mysql := testmysql.Start(t, testmysql.WithBinlog(), account), mysqlGTID.get(t)
	rnd := testseed.Rand(t)
	for _, pair := range []struct {
		name     string
		from, to *testmysql.Server
	}{{"from MariaDB", mariadb, mysql}, {"from MySQL", mysql, mariadb}} {
		t.Run(pair.name, func(t *testing.T) {
			must(t, pair.from.Exec(append([]string{"drop database if exists kinds", "drop database if exists _tare", "create database kinds character set utf8mb4 collate utf8mb4_unicode_ci"}, smallShop...)...))
			for i := range 400 {
				must(t, pair.from.Exec(fmt.Sprintf("insert into kinds.orders values (%d, %d, %d.5)", i, 1+i%3, i)))
			}
			must(t, pair.to.Exec("set global log_bin_trust_function_creators = 1"))
			want := shopObjects(t, pair.from)
			for round := range 8 {
				must(t, pair.to.Exec("drop database if exists kinds", "drop database if exists _tare"))
				kept := keepEvidence(t, pair.from, pair.to)
				args := []string{
					"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + pair.from.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + pair.to.Addr,
					"--schema", "kinds", "--json", "--chunk-bytes", "1KiB", "--control-socket", "off",
				}
				for range 4 {
					c, events := startCopyTo(t, args, kept.run(args))
					awaitEvents(t, c, events, 1+rnd.IntN(14))
					c.end(syscall.SIGKILL)
				}
				for try := 0; ; try++ {
					stdout, stderr, err := command(t, "", binary, args...)
					fmt.Fprint(kept.run(args), stdout, stderr)
					if err == nil {
						break
					}
					if try == 20 || !strings.Contains(stderr, "another tare copy") {
						t.Fatalf("round %d: %v\n%s\n%s", round, err, stderr, stdout)
					}
				}
				if diff := cmp.Diff(want, shopObjects(t, pair.to)); diff != "" {
					t.Errorf("round %d: %s", round, diff)
				}
			}
		})
	}
}

// TestCopySchemaMany copies a schema of very many tables, and lists each in its inventory.
func TestCopySchemaMany(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	from, to := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	sql := []string{"create database crowd character set utf8mb4"}
	for i := range *schemaTables {
		sql = append(sql, fmt.Sprintf("create table crowd.t%04d (id int primary key, v varchar(40), key v (v))", i), fmt.Sprintf("insert into crowd.t%04d values (1, 'row of %d'), (2, null)", i, i))
	}
	must(t, from.Exec(sql...))
	args := []string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + from.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + to.Addr, "--schema", "crowd", "--json", "--verify", "--control-socket", "off",
	}
	c, events := startCopy(t, args)
	awaitEvents(t, c, events, *schemaTables/2)
	c.end(syscall.SIGKILL)
	stdout := ""
	for try := 0; ; try++ {
		out, stderr, err := command(t, "", binary, args...)
		if err == nil {
			stdout = out
			break
		}
		if try == 20 || !strings.Contains(stderr, "another tare copy") {
			t.Fatalf("%v\n%s", err, stderr)
		}
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var inventory struct{ Objects []struct{ Kind, Fate string } }
	var report struct {
		Tables []struct {
			Rows   int
			Verify struct{ Rows int }
		}
	}
	must(t, json.Unmarshal([]byte(lines[0]), &inventory))
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report))
	if n := len(inventory.Objects); n != *schemaTables+1 {
		t.Errorf("the inventory has %d objects", n)
	}
	for i, r := range report.Tables {
		if r.Rows != 2 || r.Verify.Rows != 2 {
			t.Errorf("table %d: %d rows, %d verified", i, r.Rows, r.Verify.Rows)
		}
	}
	if n := len(report.Tables); n != *schemaTables {
		t.Errorf("%d tables were copied", n)
	}
}

// TestMySQLSchemaGrants copies a schema with accounts that have exactly the documented privileges, and names the missing one.
func TestMySQLSchemaGrants(t *testing.T) {
	from, to := mysqlGTID.get(t), mysqlPlain.get(t)
	must(t, from.Exec(append([]string{"drop database if exists kinds", "create database kinds character set utf8mb4 collate utf8mb4_unicode_ci"}, smallShop...)...))
	must(t, to.Exec("drop database if exists kinds", "drop database if exists _tare", "drop user if exists few", "create user few identified by '"+testmysql.Password+"'",
		"grant all on kinds.* to few", "grant all on _tare.* to few", "grant set_any_definer, system_user, show_routine on *.* to few", "grant select on mysql.user to few", "set global log_bin_trust_function_creators = 1"))
	must(t, from.Exec("drop user if exists few", "create user few identified by '"+testmysql.Password+"'", "grant lock tables on kinds.* to few"))
	t.Cleanup(func() { must(t, from.Exec("drop user few")); must(t, to.Exec("drop user few")) })
	args := copyArgs(from, to, "--schema=kinds", "--control-socket=off")
	for i, a := range args {
		args[i] = strings.Replace(a, "mysql://copier:", "mysql://few:", 1)
	}
	for _, step := range []struct{ lacks, grant string }{
		{"kind table: it lacks SELECT", "grant select on kinds.* to few"},
		{"kind view: it lacks SHOW VIEW", "grant show view on kinds.* to few"},
		{"kind function: it lacks SHOW_ROUTINE", "grant show_routine on *.* to few"},
		{"kind trigger: it lacks TRIGGER", "grant trigger on kinds.* to few"},
		{"kind event: it lacks EVENT", "grant event on kinds.* to few"},
	} {
		if _, stderr, err := command(t, "", binary, args...); err == nil || !strings.Contains(stderr, step.lacks) {
			t.Fatalf("before %s: %v: %s, want %q", step.grant, err, stderr, step.lacks)
		}
		must(t, from.Exec(step.grant))
	}
	mustRun(t, "", binary, args...)
	if diff := cmp.Diff(shopObjects(t, from), shopObjects(t, to)); diff != "" {
		t.Error(diff)
	}
}
