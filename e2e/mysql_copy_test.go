//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestMySQLAltered alters a followed table in MySQL-specific ways: the copy stops, and resumes once the
// target is altered too.
func TestMySQLAltered(t *testing.T) {
	for _, pair := range []struct{ from, to *mysqlServer }{{&mysqlGTID, &mysqlPlain}, {&mysqlPlain, &mysqlGTID}} {
		from, to := pair.from.get(t), pair.to.get(t)
		cleanSchema(t, "altered", from, to)
		source, target := session(t, from, "use altered"), session(t, to, "use altered")
		exec := func(text string) {
			t.Helper()
			if _, err := source.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		exec("create table t (id int primary key, name varchar(20) default 'x', j json)")
		exec("insert into t (id, j) values (1, '[1]')")
		args := copyArgs(from, to, "--tables=altered.t", "--follow")
		for i, change := range []string{
			"alter table t add column c int default 5 after id, algorithm=instant", "alter table t add column v varchar(30) as (upper(name)) virtual, add index f ((lower(name)))", "create index d on t (name desc) invisible",
			"alter table t modify name varchar(300) collate utf8mb4_0900_as_cs not null default 'y', add column h int invisible default 3", "alter table t rename column c to e, drop index d", "alter table t drop column e, algorithm=instant",
			"truncate table t",
		} {
			c, events := startCopy(t, args)
			awaitText(t, c, events, `"caught-up"`, "")
			exec("insert into t (id, name) select 100 + max(id), concat('before ', max(id)) from t")
			exec(change)
			exec("insert into t (id, name) select 100 + coalesce(max(id), 0), concat('after ', coalesce(max(id), 0)) from t")
			testwait.Receive(t, "the copy to exit", c.exited)
			if code := c.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(c.text(), "altered.t") {
				t.Fatalf("%s: exit code %d: %s", change, code, c.text())
			}
			// Dropping the column changed nothing before.
			if _, err := target.ExecContext(t.Context(), change); err != nil {
				t.Fatalf("%s in the target: %v", change, err)
			}
			mustRun(t, "", binary, append(args, "--follow-until", "caught-up")...)
			all := "select * from t order by id"
			want, got := texts(t, source, all), texts(t, target, all)
			if diff := cmp.Diff(want, got); diff != "" || len(want) != []int{2 + i*2 + 1, 1}[i/6] {
				t.Errorf("%s: %d rows: %s", change, len(want), diff)
			}
		}
	}
}

// TestMySQLGrants copies and follows with accounts that have exactly the documented privileges.
func TestMySQLGrants(t *testing.T) {
	from, to := mysqlGTID.get(t), mysqlPlain.get(t)
	cleanSchema(t, "granted", from, to)
	must(t, from.Exec("use granted", "create table granted.t (id int primary key, v int)", "insert into granted.t values (1, 1), (2, 2)"))
	source := []string{
		"grant select on granted.* to few", "grant replication slave, replication client on *.* to few",
		"grant create, insert, select, delete, drop on granted._tare_heartbeat to few",
	}
	for _, c := range []struct {
		name   string
		grants []string
		how    string
	}{
		{"RELOAD", append(slices.Clone(source), "grant reload on *.* to few"), "FLUSH TABLES WITH READ LOCK"},
		{"LOCK TABLES", append(slices.Clone(source), "grant lock tables on granted.* to few"), "LOCK TABLES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			drop := []string{"drop user if exists few", "drop database if exists _tare"}
			must(t, from.Exec(append(append(drop, "create user few identified by '"+testmysql.Password+"'"), c.grants...)...))
			must(t, to.Exec(append(drop, "drop table if exists granted.t", "create user few identified by '"+testmysql.Password+"'", "grant all on granted.* to few", "grant all on _tare.* to few")...))
			t.Cleanup(func() { must(t, from.Exec("drop user few")); must(t, to.Exec("drop user few")) })
			args := copyArgs(from, to, "--tables=granted.t", "--follow", "--verify")
			for i, a := range args {
				args[i] = strings.Replace(a, "mysql://copier:", "mysql://few:", 1)
			}
			child, events := startCopy(t, args)
			awaitText(t, child, events, c.how, "")
			awaitText(t, child, events, `"caught-up"`, "")
			must(t, from.Exec("update granted.t set v = v + 1"))
			child.end(syscall.SIGTERM)
			mustRun(t, "", binary, append(args, "--follow-until", "caught-up")...)
			want, got := texts(t, session(t, from), "select * from granted.t"), texts(t, session(t, to), "select * from granted.t")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMySQLTags follows transactions whose GTIDs have tags, and resumes after them.
func TestMySQLTags(t *testing.T) {
	from, to := mysqlGTID.get(t), mysqlPlain.get(t)
	cleanSchema(t, "tags", from, to)
	source := session(t, from, "use tags", "create table t (id int primary key)", "insert into t values (1)", "set gtid_next = 'automatic:before'", "insert into t values (2)")
	args := copyArgs(from, to, "--tables=tags.t", "--follow")
	c, events := startCopy(t, args)
	awaitText(t, c, events, `"caught-up"`, "")
	exec := func(statements ...string) {
		for _, text := range statements {
			_, err := source.ExecContext(t.Context(), text)
			must(t, err)
		}
	}
	exec("insert into t values (3)", "set gtid_next = 'automatic:a_tag'", "insert into t values (4)", "set gtid_next = 'automatic'", "insert into t values (5)")
	target := session(t, to)
	eventually(t, "followed", func() bool { return len(texts(t, target, "select * from tags.t")) == 5 })
	c.end(syscall.SIGTERM)
	exec("set gtid_next = 'automatic:a_tag'", "insert into t values (6)", "delete from t where id = 2", "set gtid_next = 'automatic'", "insert into t values (7)")
	said := mustRun(t, "", binary, append(args, "--follow-until", "caught-up")...)
	if !strings.Contains(said, ":a_tag:1-") || !strings.Contains(said, `"inserts":2,"updates":0,"deletes":1`) {
		t.Errorf("the report does not tell of three changes behind a GTID with a tag: %s", said)
	}
	if diff := cmp.Diff(texts(t, source, "select * from t"), texts(t, target, "select * from tags.t")); diff != "" {
		t.Error(diff)
	}
}
