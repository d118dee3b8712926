//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// fuzzSchema are the schemas of the log fuzzer: fz has the followed tables, a, b and c; fzx has objects that
// modify them: a view, a trigger, a function and a procedure.
var fuzzSchema = []string{
	"drop database if exists fz", "drop database if exists fzx", "drop database if exists fzy", "create database fz character set utf8mb4", "create database fzx",
	"create table fz.a (id int primary key, price int, qty int, s varchar(40), e enum('x','y','z'), ts timestamp(3) null, key k (qty))",
	"create table fz.b (x int, y varchar(10) character set utf8mb3, v text, primary key (x, y))",
	"create table fz.c (id int primary key, v int) partition by range (id) (partition p0 values less than (50), partition p1 values less than (100), partition p2 values less than maxvalue)",
	"create table fzx.o (id int auto_increment primary key, v int)", "create table fzx.noise (n int)", "create table fzx.twin like fz.a",
	"create view fzx.va as select * from fz.a",
	"create trigger fzx.ot after insert on fzx.o for each row update fz.a set price = price + 1 where id % 7 = new.v % 7",
	"create function fzx.fa(n int) returns int modifies sql data begin update fz.a set qty = qty + 1 where id = n; return n; end",
	"create procedure fzx.pa(n int) begin update fz.a set qty = qty + 10 where id = n; delete from fz.b where x = n; end",
}

// A fuzzStep is statements of one session.
type fuzzStep struct {
	class string
	sql   []string
	alter []string // statements that give the target the same definition after a stop
}

// stopBudgets are the fractions of steps of a class at which the copy may stop. A copier that always stops
// would be correct, but useless.
var stopBudgets = map[string]float64{
	"rows": 0, "savepoint": 0, "xa": 0, "by way of": 0, "session": 0, "load": 0, "other definition": 0, "other object": 0, "harmless prefix": 0, "temporary": 0, "maintenance": 0,
	"alter": 1, "index": 1, "truncate": 1, "rename": 1, "partition": 1, "replace table": 1, "as a statement": 1, "part of a row": 1,
}

// A fuzzGen generates statements.
type fuzzGen struct {
	*rand.Rand
	maria bool
	tmp   int
}

func (g *fuzzGen) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *fuzzGen) id() int { return g.IntN(120) }

// row returns a statement that changes rows of the followed tables.
func (g *fuzzGen) row() string {
	switch g.IntN(9) {
	case 0, 1:
		return fmt.Sprintf("replace into fz.a (id, price, qty, s, e, ts) values (%d, %d, %d, 'r%d', %d, '2024-02-03 04:05:06.%03d')", g.id(), g.id(), 1000+g.id(), g.id(), 1+g.IntN(3), g.IntN(1000))
	case 2:
		return fmt.Sprintf("update fz.a set price = price + %d, qty = qty - 1 where id %% 5 = %d", 1+g.IntN(9), g.IntN(5))
	case 3:
		return fmt.Sprintf("delete from fz.a where id = %d", g.id())
	case 4:
		return fmt.Sprintf("update ignore fz.a set id = %d where id = %d", g.id(), g.id())
	case 5:
		return fmt.Sprintf("replace into fz.b values (%d, '%s', repeat('v', %d))", g.id(), g.pick("a", "B", "ä", "ß", "zz"), g.IntN(500))
	case 6:
		return fmt.Sprintf("delete from fz.b where x = %d", g.id())
	case 7:
		return fmt.Sprintf("insert into fz.c values (%d, %d) on duplicate key update v = v + 1", g.id(), g.id())
	}
	return fmt.Sprintf("delete from fz.c where id between %d and %d", g.id(), g.id()/2)
}

func (g *fuzzGen) rows(n int) (all []string) {
	for range 1 + g.IntN(n) {
		all = append(all, g.row())
	}
	return all
}

// wrap returns an equivalent statement in another form.
func (g *fuzzGen) wrap(sql string) string {
	words := strings.Fields(sql)
	switch g.IntN(8) {
	case 0:
		words[0] = "/*!40000 " + words[0] + " */"
	case 1:
		words[0] = "/* drop */ " + strings.ToUpper(words[0])
	case 2:
		words[0] += " /* ' */ "
	case 3:
		words[0] += "\n\t-- \"\n"
	case 4:
		if g.maria {
			return "set statement max_statement_time=30, lock_wait_timeout=30 for " + sql
		}
	case 5:
		if g.maria {
			return "SET STATEMENT join_cache_level=2 FOR " + sql
		}
		words[0] += " /*!99999 nothing */"
	}
	return strings.Join(words, " ")
}

// safe returns a step that a copy must follow.
func (g *fuzzGen) safe() fuzzStep {
	switch g.IntN(11) {
	case 0:
		return fuzzStep{"rows", append(append([]string{"begin"}, g.rows(5)...), g.pick("commit", "commit", "rollback")), nil}
	case 1:
		sql := append([]string{"begin"}, g.rows(3)...)
		sql = append(append(sql, "savepoint s"), g.rows(3)...)
		sql = append(append(sql, g.pick("rollback to s", "rollback to savepoint s", "release savepoint s")), g.rows(2)...)
		return fuzzStep{"savepoint", append(sql, "commit"), nil}
	case 2:
		return g.xa()
	case 3:
		return fuzzStep{"by way of", []string{"use fzx", g.pick(fmt.Sprintf("update va set price = price * 2 where id = %d", g.id()), fmt.Sprintf("delete from va where id = %d", g.id()),
			fmt.Sprintf("insert into o (v) values (%d)", g.id()), fmt.Sprintf("select fa(%d)", g.id()), fmt.Sprintf("do fa(%d)", g.id()), fmt.Sprintf("call pa(%d)", g.id()),
			fmt.Sprintf("insert into o (v) select fa(%d)", g.id()))}, nil}
	case 4:
		return fuzzStep{"session", append([]string{g.pick("set session sql_mode = 'ANSI_QUOTES'", "set session time_zone = '+05:30'", "set names latin1", "set names gbk",
			"set session foreign_key_checks = 0, unique_checks = 0", "set session sql_mode = 'NO_BACKSLASH_ESCAPES'", "set session transaction isolation level read committed", "set session binlog_row_image = FULL")}, g.rows(3)...), nil}
	case 5:
		return fuzzStep{"load", []string{"load data local infile 'Reader::fuzz' replace into table fz.a (id, price)"}, nil}
	case 6, 7:
		return fuzzStep{"other definition", []string{g.pick("use fz", "use fzx"), g.wrap(g.otherDefinition())}, nil}
	case 8:
		return fuzzStep{"other object", []string{g.pick("use fz", "use fzx"), g.wrap(g.otherObject())}, nil}
	case 9:
		return fuzzStep{"temporary", []string{"use fz", "create temporary table a (id int, x int)", "insert into a values (1, 2)", "alter table a add y int", "truncate table a", "drop temporary table a"}, nil}
	}
	return fuzzStep{"maintenance", []string{g.wrap(g.pick("analyze table fz.a", "optimize table fz.b", "check table fz.a", "flush tables", "flush tables fz.a", "flush binary logs",
		"analyze local table fz.a, fz.b", "grant select on fz.a to current_user", "flush privileges"))}, nil}
}

func (g *fuzzGen) xa() fuzzStep {
	g.tmp++
	id := g.pick(fmt.Sprintf("'x%d'", g.tmp), fmt.Sprintf("'x%d', 'b', 7", g.tmp), fmt.Sprintf("x'ff%04x'", g.tmp))
	sql := append([]string{"xa start " + id}, g.rows(4)...)
	sql = append(sql, "xa end "+id)
	if g.IntN(4) == 0 {
		return fuzzStep{"xa", append(sql, "xa commit "+id+" one phase"), nil}
	}
	return fuzzStep{"xa", append(sql, "xa prepare "+id, g.pick("xa commit ", "xa commit ", "xa rollback ")+id), nil}
}

// otherDefinition changes tables that are not followed.
func (g *fuzzGen) otherDefinition() string {
	g.tmp++
	t := fmt.Sprintf("fzx.t%d", g.tmp)
	return g.pick(
		"create table "+t+" like fz.a", "create table "+t+" (a int, b int, index a (a))", "create table "+t+" select * from fz.a", "create table if not exists fz.a (other int)",
		"create table "+t+" (id int primary key, price int) partition by hash (id) partitions 3", "alter table fzx.twin engine=innodb", "alter table fzx.o comment 'rename to fz.a'",
		"truncate table fzx.twin", "truncate fzx.noise", "rename table fzx.twin to fzx.a, fzx.a to fzx.twin", "create index a on fzx.twin (price)", "drop index a on fzx.twin",
		"drop table if exists fzx.a, fzx.b, "+t, "create database if not exists fzy", "drop database if exists fzy", "alter database fz default character set utf8mb4", "create database if not exists fz",
		"alter table fzx.twin add column if_not int, add key price (price)", "alter table fzx.twin drop column if_not")
}

// otherObject changes objects without rows.
func (g *fuzzGen) otherObject() string {
	g.tmp++
	n := g.IntN(4)
	return g.pick(
		fmt.Sprintf("create or replace view fzx.v%d as select id, price from fz.a", n), fmt.Sprintf("drop view if exists fzx.v%d", n),
		fmt.Sprintf("create trigger fz.tr%d before update on fz.c for each row set new.v = new.v + 1", n), fmt.Sprintf("drop trigger if exists fz.tr%d", n),
		fmt.Sprintf("create procedure fz.p%d() begin delete from fz.a; drop table fz.a; end", n), fmt.Sprintf("drop procedure if exists fz.p%d", n),
		fmt.Sprintf("create definer=current_user function fz.f%d() returns int deterministic return 1", n), fmt.Sprintf("drop function if exists fz.f%d", n),
		fmt.Sprintf("create event fz.e%d on schedule every 1 day disable do truncate table fz.a", n), fmt.Sprintf("drop event if exists fz.e%d", n),
		fmt.Sprintf("create user if not exists fuzz%d@localhost identified by 'Secret+1'", n), fmt.Sprintf("drop user if exists fuzz%d@localhost", n), "alter procedure fzx.pa comment 'alter table fz.a'")
}

// unsafe returns a step at which a copy may stop, and must stop if it cannot know the rows. Statements that
// fail on one product change nothing.
func (g *fuzzGen) unsafe() fuzzStep {
	in := g.pick("use fz", "use fzx", "use fzx")
	step := func(class string, sql string, same bool) fuzzStep {
		s := fuzzStep{class, append(append(g.rows(2), in, g.wrap(sql)), g.rows(2)...), nil}
		if same {
			s.alter = []string{sql}
		}
		return s
	}
	switch g.IntN(10) {
	case 0, 1:
		return step("alter", "alter table fz.a "+g.pick("modify price int after qty", "modify qty int first", "modify price int after id", "add column n int default 7 first", "drop column n", "change price price bigint", "modify s varchar(60)",
			"add column g int, algorithm=inplace", "drop column g", "comment 'x'", "engine=innodb", "modify e enum('y','x','z')"), true)
	case 2:
		return step("index", g.pick("create index i on fz.a (price)", "drop index i on fz.a", "alter table fz.a add key j (s)", "alter table fz.a drop key j"), false)
	case 3:
		return step("truncate", g.pick("truncate table fz.a", "truncate fz.b", "truncate `fz` . `c`"), true)
	case 4:
		return step("rename", g.pick("rename table fz.a to fzx.z, fzx.twin to fz.a, fzx.z to fzx.twin", "alter table fz.a rename to fz.a2", "rename table fz.a2 to fz.a", "rename table if exists fz.a to fz.a2"), false)
	case 5:
		return step("partition", g.pick("alter table fz.c truncate partition p1", "alter table fz.c drop partition p0", "alter table fz.c exchange partition p2 with table fzx.c2", "alter table fz.c reorganize partition p2 into (partition p2 values less than (200), partition p3 values less than maxvalue)"), false)
	case 6:
		return step("replace table", g.pick("create or replace table fz.a like fzx.twin", "create or replace table fz.b (x int, y varchar(10), v text, primary key (x, y))", "create or replace database fz", "drop table fz.c", "drop table fzx.noise, fz.a", "drop database fz"), false)
	case 7, 8:
		sql := []string{"set session binlog_format = " + g.pick("STATEMENT", "STATEMENT", "MIXED"), in}
		return fuzzStep{"as a statement", append(sql, g.wrap(g.pick(fmt.Sprintf("update fzx.va set price = price * 2 where id %% 3 = %d", g.IntN(3)), fmt.Sprintf("insert into fzx.o (v) values (%d)", g.id()),
			fmt.Sprintf("select fzx.fa(%d)", g.id()), fmt.Sprintf("do fzx.fa(%d)", g.id()), fmt.Sprintf("call fzx.pa(%d)", g.id()), "delete from fz.a where id % 3 = 1", "update fz.b set v = 'statement'",
			fmt.Sprintf("insert into fzx.noise select fzx.fa(%d)", g.id()), fmt.Sprintf("create table fzx.u%d select fzx.fa(%d)", g.IntN(99), g.id())))), nil}
	}
	return fuzzStep{"part of a row", append([]string{"set session binlog_row_image = MINIMAL"}, g.rows(3)...), nil}
}

// reordered writes rows before and after an ALTER that keeps the number and types of the columns.
func (g *fuzzGen) reordered() fuzzStep {
	alter := "alter table fz.a modify price int after qty"
	sql := append([]string{"update fz.a set price = price + 1000"}, g.rows(3)...)
	return fuzzStep{"alter", append(append(sql, g.wrap(alter)), g.rows(3)...), []string{alter}}
}
