//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var (
	mysqlFollowRounds  = flag.Int("mysqlfollow.rounds", 2, "rounds of TestMySQLFollow, of three kinds in turn, each in the other direction")
	mysqlCutoverRounds = flag.Int("mysqlcutover.rounds", 2, "rounds of TestMySQLCutover")
)

// TestMySQLFollow is TestCopyFollow between two MySQL servers: from one with GTIDs and compressed
// transactions to one without, and in the reverse direction.
func TestMySQLFollow(t *testing.T) {
	servers := []*testmysql.Server{mysqlGTID.get(t), mysqlPlain.get(t)}
	rnd := testseed.Rand(t)
	for round := range *mysqlFollowRounds {
		kind := copyKinds[round%len(copyKinds)]
		t.Run(fmt.Sprintf("%d %s", round, kind.name), func(t *testing.T) {
			copyFollowRound(t, servers[round%2], servers[1-round%2], kind, rnd)
		})
	}
}

// TestMySQLCutover is TestCopyCutover between two MySQL servers.
func TestMySQLCutover(t *testing.T) {
	servers := []*testmysql.Server{mysqlGTID.get(t), mysqlPlain.get(t)}
	rnd := testseed.Rand(t)
	for round := range *mysqlCutoverRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { cutoverRound(t, servers[round%2], servers[1-round%2], rnd) })
	}
}

// Statements that change rows of followed tables and that MySQL logs in different ways. %s is a file on the
// server.
var followedWays = []string{
	"insert into t (name, j) values ('a', '{\"k\": 1}'), ('b', null), ('c', '[1]')",
	"start transaction", "insert into t (name) values ('kept')", "savepoint s", "insert into t (name) values ('undone')", "update t set name = 'undone'", "rollback to s", "insert into t (name) values ('kept, too')", "commit",
	"begin", "insert into t (name) values ('never')", "rollback",
	"update t set j = json_set(j, '$.k', repeat('x', 1000)) where name = 'a'", "update t set j = json_remove(j, '$.k') where name = 'a'",
	"update t set id = id + 1000000 where name = 'b'", "replace into t (id, name) values (2, 'replaced')",
	"insert into t (id, name) values (2, 'again') on duplicate key update name = 'on duplicate'",
	"begin", "update t set u = 1 where name = 'a'", "update t set u = 2 where name = 'c'", "commit",
	"begin", "update t set u = null where name = 'a'", "update t set u = 1 where name = 'c'", "update t set u = 2 where name = 'a'", "commit",
	"flush binary logs",
	"insert into t (name, b) with recursive n (i) as (select 1 union all select i + 1 from n where i < 900) select concat('large ', i), repeat(char(97 + i % 26), 20000) from n",
	"update t set b = concat(b, 'more') where name like 'large 1%'", "delete from t where name like 'large 2%'",
	"load data infile '%s' into table t (name, u)",
	"create table other (id int primary key, v int)", "alter table other add column w int default 1", "insert into other values (1, 2, 3)", "truncate table other", "drop table other",
	"create table made as select * from t", "rename table made to made_2", "drop table made_2",
	"create view seen as select id, name from t", "insert into seen (name) values ('by a view')", "update seen set name = 'by a view, changed' where name = 'by a view'",
	"create procedure write_it() begin insert into t (name) values ('by a procedure'); update t set name = concat(name, '!') where name = 'by a procedure'; end", "call write_it()",
	"create temporary table temp (id int)", "insert into temp values (1)", "insert into t (name) select 'from a temporary table' from temp", "drop temporary table temp",
	"update t, g set t.name = 'of two', g.name = 'of two' where t.name = 'c' and g.name = 'one'",
	"xa start 'x'", "insert into t (name) values ('xa in one phase')", "xa end 'x'", "xa commit 'x' one phase",
	"insert into g (name) values ('generated key')", "update g set name = 'changed' where name = 'two'", "delete from g where name = 'three'",
	"analyze table t", "create user if not exists someone identified by 'x'", "drop user someone", "set @@session.binlog_transaction_compression = on", "insert into t (name) values ('compressed')",
	"set @@session.binlog_transaction_compression = off", "insert into t (name) values ('not compressed')",
	"set @@session.binlog_rows_query_log_events = on", "insert into t (name) values ('with its text')",
	"set time_zone = '-07:00'", "insert into t (name, at) values ('in another zone', '2026-03-29 02:30:00')", "set time_zone = '+00:00'",
}

// TestMySQLFollowWays changes rows in each of followedWays, and the target has them.
func TestMySQLFollowWays(t *testing.T) {
	for _, pair := range []struct{ from, to *mysqlServer }{{&mysqlGTID, &mysqlPlain}, {&mysqlPlain, &mysqlGTID}} {
		from, to := pair.from.get(t), pair.to.get(t)
		cleanSchema(t, "ways", from, to)
		source := session(t, from, "use ways", "set sql_generate_invisible_primary_key = on")
		exec := func(text string) {
			t.Helper()
			if _, err := source.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		exec("create table t (id int auto_increment primary key, name varchar(40), u int unique, j json, b mediumtext, at timestamp null, upname varchar(40) as (upper(name)) stored)")
		exec("create table g (name varchar(40))")
		exec("insert into g values ('one'), ('two'), ('three')")
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o755))
		file := filepath.Join(dir, "rows")
		must(t, os.WriteFile(file, []byte("loaded\t77\nloaded, too\t78\n"), 0o644))

		c, events := startCopy(t, copyArgs(from, to, "--tables=ways.t,ways.g", "--follow"))
		awaitText(t, c, events, `"caught-up"`, "")
		for _, way := range followedWays {
			exec(strings.ReplaceAll(way, "%s", file))
		}
		target := session(t, to)
		for _, all := range []string{"select * from ways.t order by id", "select my_row_id, name from ways.g order by 1"} {
			want := texts(t, source, all)
			testwait.UntilState(t, all, func() (string, bool) {
				diff := cmp.Diff(want, texts(t, target, all))
				return diff + c.text(), diff == ""
			})
		}
		c.end(syscall.SIGTERM)
	}
}

// TestMySQLFollowRefused requests a copy that cannot be followed: it fails before copying if a server's
// settings show that, and otherwise as soon as it is in the log.
func TestMySQLFollowRefused(t *testing.T) {
	from, to := mysqlPlain.get(t), mysqlGTID.get(t)
	for _, c := range []struct {
		name    string
		setting string // a variable and its value
		change  string
		want    []string
	}{
		{"minimal images", "binlog_row_image = MINIMAL", "update t set name = 'b' where id = 1", []string{"binlog_row_image", "FULL"}},
		{"partial JSON", "binlog_row_value_options = PARTIAL_JSON", "update t set j = json_set(j, '$.a', 2)", []string{"binlog_row_value_options"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleanSchema(t, "refused", from, to)
			source := session(t, from, "use refused")
			exec := func(text string) {
				t.Helper()
				if _, err := source.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			exec("create table t (id int primary key, name varchar(20), j json)")
			exec("insert into t values (1, 'a', json_object('a', 1, 'b', repeat('x', 1000)))")
			args := copyArgs(from, to, "--tables=refused.t", "--follow")
			refused := func(how string, code int, said string) {
				t.Helper()
				if code != 1 {
					t.Errorf("%s: exit code %d, want 1", how, code)
				}
				for _, want := range c.want {
					if !strings.Contains(said, want) {
						t.Errorf("%s: %q is not in what it said: %s", how, want, said)
					}
				}
			}
			name, _, _ := strings.Cut(c.setting, " ")
			must(t, from.Exec("set global "+c.setting))
			_, stderr, err := command(t, "", binary, args...)
			must(t, from.Exec("set global "+name+" = default"))
			if err == nil {
				t.Fatal("it was not refused")
			}
			refused("at the start", 1, stderr)
			child, events := startCopy(t, args)
			awaitText(t, child, events, `"caught-up"`, "")
			exec("set session " + c.setting) // earlier, the copy would refuse to start because of such a session
			defer exec("set session " + name + " = default")
			for text := range strings.SplitSeq(c.change, "; ") {
				exec(text)
			}
			testwait.Receive(t, "the copy to exit", child.exited)
			refused("while following", child.cmd.ProcessState.ExitCode(), child.text())
		})
	}
}
