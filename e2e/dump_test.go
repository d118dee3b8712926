//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// dumpedSchema has everything that a dump has to preserve.
const dumpedSchema = `
create table kinds (
	id bigint unsigned primary key auto_increment,
	tiny tinyint, small smallint unsigned, medium mediumint, big bigint,
	exact decimal(30,10), f float, d double, b bit(13),
	dt date, tm time(6), dtm datetime(3), ts timestamp(6) null, y year,
	c char(10), v varchar(200) character set utf8mb4, l varchar(20) character set latin1,
	bin binary(8), vb varbinary(200), blb longblob, txt longtext,
	e enum('a','b;c','d''e'), s set('x','y','z'), j json, g geometry,
	gen int generated always as (tiny * 2) stored,
	key (v(20)), unique (c), check (tiny < 100)
) comment = 'it''s -- a "comment"';
insert into kinds (tiny, small, medium, big, exact, f, d, b, dt, tm, dtm, ts, y, c, v, l, bin, vb, blb, txt, e, s, j, g) values
	(-12, 65535, -8388608, -9223372036854775808, 12345678901234567890.0123456789, 1.5e10, 2.2250738585072014e-308, b'1010101010101',
	'0000-00-00', '-838:59:59.000001', '2026-02-28 23:59:59.999', '2026-02-28 12:00:00.123456', 2026, 'char', 'žluťoučký 🐎 \\ '' " \n\r\t\0', 'déjà',
	x'0001020304050607', x'ff00fe', repeat(x'00ff27225c', 5000), repeat('long text\n', 5000), 'd''e', 'x,z', '{"a": [1, null]}', point(1, 2)),
	(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
insert into kinds (v, txt) select concat('row ', seq), repeat(md5(seq), 10) from seq_1_to_3000;
create table child (id int primary key, parent bigint unsigned, foreign key (parent) references kinds (id) on delete cascade) row_format = compressed;
insert into child values (1, 1), (2, null);
create table ` + "`odd ``name``, ďábel`" + ` (` + "`a b`" + ` int) partition by hash (` + "`a b`" + `) partitions 3;
insert into ` + "`odd ``name``, ďábel`" + ` values (1), (2), (3);
create view recent as select id, v from kinds where id < 10;
create trigger stamp before insert on child for each row set new.id = new.id + 0;
create procedure answer(out n int) set n = 42;
create function twice(n int) returns int deterministic return n * 2;
create event nightly on schedule every 1 day disable do delete from child where id < 0;
create sequence numbers start with 100;
`

// TestDump takes a dump directly and through Tare, and restores it through Tare.
func TestDump(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	schema := newSchema(t, mariadb, "dumped")
	load := "set session sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00';"
	mustRun(t, load+dumpedSchema, "mariadb", clientArgs(t, p.addr, append(plain(), schema)...)...)

	dump := func(addr, schema string, options ...string) string {
		t.Helper()
		args := clientArgs(t, addr, append(options, "--skip-dump-date", "--skip-comments", "--hex-blob", "--routines", "--triggers", "--events",
			"--single-transaction", "--tz-utc", schema)...)
		return mustRun(t, "", "mariadb-dump", args...)
	}
	direct := dump(mariadb.Addr, schema, plain()...)
	for _, want := range []string{"🐎", "CREATE DEFINER", "procedure `answer`", "function `twice`", "trigger stamp", "event `nightly`", "FOREIGN KEY", "ďábel", "row 3000"} {
		if !strings.Contains(strings.ToLower(direct), strings.ToLower(want)) {
			t.Errorf("the dump has no %s: it is no test", want)
		}
	}
	through := dump(p.addr, schema, plain()...)
	if through != direct {
		t.Errorf("the dump through Tare differs: %s", difference(through, direct))
	}
	if got := dump(p.addr, schema, encrypted()...); got != direct {
		t.Errorf("the dump through Tare with TLS differs: %s", difference(got, direct))
	}
	if got := dump(p.addr, schema, append(plain(), "--skip-extended-insert", "--quick")...); len(got) <= len(direct) {
		t.Errorf("a statement a row makes %d bytes, all in one %d", len(got), len(direct))
	}

	restored := newSchema(t, mariadb, "restored")
	mustRun(t, through, "mariadb", clientArgs(t, p.addr, append(plain(), "--binary-mode", restored)...)...)
	if got := dump(mariadb.Addr, restored, plain()...); got != direct {
		t.Errorf("what was restored through Tare differs: %s", difference(got, direct))
	}
}

// difference returns the first line in which two texts differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return "got  " + a[:min(len(a), 300)] + "\nwant " + b[:min(len(b), 300)]
		}
	}
	return "nothing"
}
