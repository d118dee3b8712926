//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
)

// A zooTable is a table of MySQL's types with values at the boundaries of their ranges. Each has a column
// touch, whose change has its rows logged.
type zooTable struct {
	name    string
	columns string   // of CREATE TABLE, followed by its keys and options
	rows    []string // INSERT statements after INSERT INTO name
	maria   bool     // MariaDB has the same types
	shown   []string // expressions that identify a row completely; "v" alone: HEX(v)
}

const manyRows = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 400) "

var mysqlZoo = []zooTable{
	{
		"numbers",
		`(id int auto_increment primary key, touch int default 0, ti tinyint, tu tinyint unsigned, s smallint, m mediumint unsigned, z int(5) unsigned zerofill, b bigint, bu bigint unsigned,
		d decimal(65,30), du decimal(10,0), f float, fd float(7,3), db double, dbd double(20,10), y year, bo bool, b1 bit(1), b12 bit(12), b64 bit(64))`,
		[]string{
			"(id) values (0)",
			`values (1, 0, -128, 255, -32768, 16777215, 42, -9223372036854775808, 18446744073709551615, -99999999999999999999999999999999999.999999999999999999999999999999, 9999999999,
				16777217, 1234.567, -0.0, 1234567890.0123456789, 2155, true, b'1', b'101', b'1111111111111111111111111111111111111111111111111111111111111111')`,
			`values (2, 0, 127, 0, 32767, 0, 4294967295, 9007199254740993, 9223372036854775808, 0.000000000000000000000000000001, 0,
				-1.5e-45, -0.001, 4.9406564584124654e-324, -0.1, 1901, false, b'0', 0x0A0B, 0x5C090A0D00)`,
			`values (3, 0, 0, 1, 0, 1, 0, 9223372036854775807, 0, 0, -1, 3.402823466e38, 0, 1.7976931348623157e308, 0, 0, 2, null, 10, 92)`,
			`values (4, 0, 0, 1, 0, 1, 0, 1, 0, 0, -1, 0.1, 0, 0.30000000000000004, 0, 0, 2, null, 10, 92)`,
			`values (5, 0, 0, 1, 0, 1, 0, 1, 0, 0, -1, 1e-10, 0, 1e22, 0, 0, 2, null, 10, 92)`,
			`values (6, 0, 0, 1, 0, 1, 0, 1, 0, 0, -1, 123456.789, 0, 123456789.12345678, 0, 0, 2, null, 10, 92)`,
		},
		true,
		[]string{"ti", "tu", "s", "m", "z", "b", "bu", "concat(d)", "du", "f*1e0", "fd*1e0", "db*1e0", "concat(dbd)", "y", "bo", "hex(b1)", "hex(b12)", "hex(b64)"},
	},
	{
		"texts",
		`(id int auto_increment primary key, touch int default 0, c char(10), cb char(3) character set utf8mb4 collate utf8mb4_bin, v varchar(200), m3 varchar(20) character set utf8mb3, l1 varchar(300) character set latin1,
		u2 varchar(50) character set ucs2, u16 varchar(50) character set utf16, u32 varchar(50) character set utf32, sj varchar(50) character set sjis,
		gbk varchar(50) character set gbk, b5 varchar(50) character set big5, k8 varchar(50) character set koi8r, cy varchar(20) character set cp1251,
		bi binary(5), vb varbinary(300), tb tinyblob, bl blob, mt mediumtext, lb longblob, lt longtext) character set utf8mb4 collate utf8mb4_general_ci`,
		[]string{
			"(id) values (1)",
			`values (2, 0, 'x  ', '日本語', '😀 é ü', 'é€', _latin1 x'` + allBytes() + `', _ucs2 x'41420009000a005c', '😀', '😀 x', _sjis x'835c955c', _gbk x'955c815c', _big5 x'a55ca45c', 'Привет', 'Ёж',
				x'00090a5cff', x'` + allBytes() + `', x'00ff', repeat(x'5c09', 30000), repeat('x\t', 100000), repeat(x'00', 3000000), repeat('日', 100000))`,
			`values (3, 0, 'null\0', '😀', 'back\\slash quote'' line\r\n', '', _latin1 x'8d8f9d', '', '', '', _sjis x'5c', '', '', '', '', '', '', '', '', '', '', '')`,
		},
		true,
		[]string{"c", "cb", "v", "m3", "l1", "u2", "u16", "u32", "sj", "gbk", "b5", "k8", "cy", "bi", "vb", "tb", "sha2(bl, 256)", "sha2(mt, 256)", "sha2(lb, 256)", "sha2(lt, 256)"},
	},
	{
		"moderntexts",
		`(id int auto_increment primary key, touch int default 0, ai varchar(50) collate utf8mb4_0900_ai_ci, cs varchar(50) collate utf8mb4_0900_as_cs, bin varchar(50) collate utf8mb4_0900_bin,
		de varchar(20) collate utf8mb4_de_pb_0900_ai_ci, g18 varchar(50) character set gb18030, le varchar(20) character set utf16le) collate utf8mb4_0900_ai_ci`,
		[]string{"(id) values (1)", "values (2, 0, 'ß 😀 é  ', 'É', 'e ', 'straße', _gb18030 x'8139EF30', 'AB')"},
		false,
		[]string{"ai", "cs", "bin", "de", "g18", "le"},
	},
	{
		"times",
		`(id int auto_increment primary key, touch int default 0, d date, t time, t6 time(6), t2 time(2), dt datetime, dt6 datetime(6), dt3 datetime(3), ts timestamp null, ts6 timestamp(6) null, ts1 timestamp(1) null)`,
		[]string{
			"(id) values (1)",
			"values (2, 0, '0000-00-00', '-838:59:59', '-838:59:58.999999', '-00:00:00.01', '0000-00-00 00:00:00', '0000-00-00', '9999-12-31 23:59:59.999', '1970-01-01 02:00:01', '2038-01-19 05:14:07.999999', 0)",
			"values (3, 0, '9999-12-31', '838:59:59', '838:59:58.000001', '12:00:00.99', '9999-12-31 23:59:59', '1000-01-01 00:00:00.000001', '2026-03-29 02:30:00', '2026-03-29 02:30:00', '2026-10-25 02:30:00.5', '2001-09-09 01:46:40.9')",
			"values (4, 0, '2026-02-31', '00:00:00', 0, 0, '2026-00-00', '2026-02-31 12:00:00', 0, 0, 0, 0)",
		},
		true,
		[]string{"d", "t", "t6", "t2", "dt", "dt6", "dt3", "ts", "ts6", "ts1"},
	},
	{
		"members",
		"(id int auto_increment primary key, touch int default 0, e enum('x','2','1','','é'), el enum('é','ü') character set latin1, s set('a','b','2','é'), s64 set(" + manyMembers(64) + ")) character set utf8mb4 collate utf8mb4_general_ci",
		[]string{
			"(id) values (1)", "values (2, 0, 'x', 'ü', '', 'm0')", "values (3, 0, '2', 'é', 'a,é', 'm63')", "values (4, 0, '1', 1, 2, 18446744073709551615)",
			"values (5, 0, '', 1, 15, 9007199254740993)", "values (6, 0, 'é', 2, 'b', 1)",
		},
		true,
		[]string{"e+0", "el+0", "s+0", "cast(s64 as signed)", "e", "s"},
	},
	{
		"documents",
		"(id int auto_increment primary key, touch int default 0, j json)",
		[]string{
			"(id) values (1)", `(id, j) values (2, '{"a": [1, -1, 1.5, 1e300, "é 😀", {"ü": null}], "": true}')`, `(id, j) values (3, '"text \\u0001\\n\\"\\\\ "')`, `(id, j) values (4, 'null')`,
			"(id, j) values (5, '[32767, 32768, -32769, 2147483648, 9223372036854775807, 18446744073709551615, 18446744073709551616]')", "(id, j) values (6, '[]')",
			"(id, j) select 7, json_object('big', repeat('x', 70000), 'list', (select json_arrayagg(i) from (" + manyRows + "select i from n) as l))",
			"(id, j) values (8, concat(repeat('[', 90), repeat(']', 90)))", "(id, j) values (9, '0.1')", "(id, j) values (10, '-0.0')", "(id, j) values (11, '[1.0, 100000000000000000000.0, 1e-7, 123456789012345680]')",
			"(id, j) values (12, json_array(cast('2026-01-02' as date), cast('2026-01-02 03:04:05.000006' as datetime(6)), cast('-12:00:00.5' as time(6))))",
		},
		false,
		[]string{"cast(j as char)"},
	},
	{
		"shapes",
		"(id int auto_increment primary key, touch int default 0, g geometry, p point not null srid 4326, l linestring, pg polygon srid 0, mp multipoint, gc geometrycollection, spatial key (p))",
		[]string{
			"(id, p) values (1, st_geomfromtext('POINT(52 13)', 4326))",
			`values (2, 0, st_geomfromtext('POLYGON((0 0,10 0,10 10,0 10,0 0))'), st_geomfromtext('POINT(-89 -179)', 4326), st_geomfromtext('LINESTRING(0 0, 1e300 -1)'), st_geomfromtext('POLYGON((0 0,1 0,1 1,0 0))'),
				st_geomfromtext('MULTIPOINT(1 2, 92 9)'), st_geomfromtext('GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))'))`,
			"values (3, 0, st_geomfromtext('POINT(1 2)', 3857), st_geomfromtext('POINT(0 0)', 4326), null, null, null, st_geomfromtext('GEOMETRYCOLLECTION EMPTY'))",
		},
		false,
		[]string{"g", "p", "l", "pg", "mp", "gc"},
	},
	{
		"vectors",
		"(id int auto_increment primary key, touch int default 0, v vector(3), big vector)",
		[]string{"(id) values (1)", "values (2, 0, to_vector('[1, -0.5, 3e38]'), to_vector('[0, 92, 9]'))"},
		false,
		[]string{"v", "big"},
	},
	{
		"computed",
		`(id bigint unsigned auto_increment primary key, touch int default 0, n int not null default 7, name varchar(40) not null default (concat('n', 1 + 1)), j json default (json_array(1, 'two')), u binary(16) default (uuid_to_bin(uuid())),
		st int as (n * 2) stored, vi varchar(50) as (upper(name)) virtual not null, jv int as (j->'$[0]') virtual, hidden int default 5 invisible, at timestamp(3) default current_timestamp(3) on update current_timestamp(3),
		key f ((lower(name))), key down (n desc, name), key jf ((cast(j->'$[*]' as char(10) array))), key virt (vi), unique key un ((concat(name, '-', n))), key off (touch) invisible,
		constraint positive check (n > 0), constraint odd check (n <> 13) not enforced) comment 'it''s computed'`,
		[]string{"(n) values (1)", "(n, name, hidden) values (2, 'Ä', null)", "(n, name) " + manyRows + "select i, concat('name ', i) from n"},
		false,
		[]string{"n", "name", "cast(j as char)", "u", "st", "vi", "jv", "hidden", "at"},
	},
	{
		"gipk",
		"(touch int default 0, name varchar(20))",
		[]string{"(name) values ('one'), ('two')", "(name) " + manyRows + "select concat('name ', i) from n"},
		false,
		[]string{"my_row_id", "name"},
	},
	{
		"names",
		"(name varchar(30) collate utf8mb4_0900_ai_ci, n datetime(6), touch int default 0, primary key (name, n)) collate utf8mb4_0900_ai_ci",
		[]string{
			"(name, n) values ('é', '2026-01-01'), ('f', '2026-01-01'), ('ß', '2026-01-01'), ('日', '2026-01-01'), ('😀', '2026-01-01'), ('', '2026-01-01')",
			"(name, n) " + manyRows + "select concat(char(97 + i % 26), if(i % 2, 'É', 'e')), timestampadd(microsecond, i, '2026-01-01') from n",
		},
		false,
		[]string{"name", "n"},
	},
	{
		"parts",
		"(id decimal(20,2) not null, d date not null, touch int default 0, v varchar(20), primary key (id, d)) partition by range columns (d) (partition old values less than ('2026-01-01'), partition rest values less than maxvalue)",
		[]string{"(id, d, v) " + manyRows + "select i / 4, date_add('2025-12-01', interval i day), concat('v', i) from n"},
		true,
		[]string{"id", "d", "v"},
	},
	{
		"uuids",
		"(id binary(16) primary key, touch int default 0, v int) row_format=compressed key_block_size=8",
		[]string{"(id, v) " + manyRows + "select unhex(left(sha2(i, 256), 32)), i from n"},
		true,
		[]string{"id", "v"},
	},
	{
		"nothing",
		"(id int primary key, touch int, v json)",
		nil,
		false,
		[]string{"id"},
	},
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return hex.EncodeToString(b)
}

func manyMembers(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("'m%d'", i)
	}
	return strings.Join(names, ",")
}

// session is one connection with the settings of a copy.
func session(t *testing.T, s *testmysql.Server, more ...string) *sql.Conn {
	t.Helper()
	c := s.Config(testmysql.RootUser)
	db, err := sql.Open("mysql", c.FormatDSN())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	must(t, err)
	for _, text := range append([]string{
		"SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
		"SET SESSION character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = NULL",
	}, more...) {
		_, err := conn.ExecContext(t.Context(), text)
		must(t, err)
	}
	return conn
}

// texts returns all rows of a query, each joined to a line.
func texts(t *testing.T, c *sql.Conn, query string) (lines []string) {
	t.Helper()
	rows, err := c.QueryContext(context.WithoutCancel(t.Context()), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	values, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		must(t, rows.Scan(dest...))
		var line []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			line = append(line, v.String)
		}
		lines = append(lines, strings.Join(line, " | "))
	}
	must(t, rows.Err())
	return lines
}

// stored returns all of the table's rows, as text.
func (z *zooTable) stored() string {
	all := []string{"touch"}
	for _, e := range z.shown {
		if !strings.ContainsAny(e, "+*(") {
			e = "hex(" + e + "), " + e + " is null"
		}
		all = append(all, e)
	}
	return "select " + strings.Join(all, ", ") + " from zoo." + z.name
}

// zooPair is two servers between which the zoo is copied.
type zooPair struct {
	name     string
	from, to func(*testing.T) *testmysql.Server
	all      bool // include tables that MariaDB does not support; repeat across a wire
	same     bool // definitions are equal afterwards

	// made are tables created in the target beforehand, since it does not support their definitions.
	made map[string]string
}

func zooPairs() []zooPair {
	maria := func(t *testing.T) *testmysql.Server {
		s := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))
		return s
	}
	return []zooPair{
		{"GTIDs and payloads", mysqlGTID.get, mysqlPlain.get, true, true, nil},
		{"file and offset", mysqlPlain.get, mysqlGTID.get, true, true, nil},
		{"to MariaDB", mysqlGTID.get, maria, false, false, map[string]string{
			// MariaDB's JSON, but without its check, which refuses more than 32 levels.
			"documents": "(id int auto_increment primary key, touch int default 0, j longtext character set utf8mb4 collate utf8mb4_bin)",
			"gipk":      "(my_row_id bigint unsigned auto_increment primary key, touch int, name varchar(20) character set utf8mb4 collate utf8mb4_unicode_ci)",
		}},
		{"from MariaDB", maria, mysqlPlain.get, false, false, nil},
	}
}

// TestMySQLZoo copies MySQL's types between servers of MySQL, and the types common to both between MySQL and
// MariaDB: from the tables, then, after each row was changed, from the binary log.
func TestMySQLZoo(t *testing.T) {
	for _, pair := range zooPairs() {
		t.Run(pair.name, func(t *testing.T) { pair.run(t) })
	}
}

func (p *zooPair) run(t *testing.T) {
	from, to := p.from(t), p.to(t)
	cleanSchema(t, "zoo", from, to)
	must(t, from.Exec("alter database zoo collate utf8mb4_general_ci"))
	source := session(t, from, "set time_zone = '+02:00', character_set_client = utf8mb4, character_set_results = utf8mb4", "use zoo")
	if _, err := source.ExecContext(t.Context(), "set sql_generate_invisible_primary_key = on"); err != nil && p.all {
		t.Fatal(err)
	}
	var tables []zooTable
	var names []string
	for _, z := range mysqlZoo {
		if !p.all && !z.maria && p.made[z.name] == "" {
			continue
		}
		tables, names = append(tables, z), append(names, "zoo."+z.name)
		for _, text := range append([]string{"create table " + z.name + " " + z.columns}, z.inserts()...) {
			if _, err := source.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%.200s: %v", text, err)
			}
		}
	}
	_, err := source.ExecContext(t.Context(), "set time_zone = '+00:00'")
	must(t, err)
	target := session(t, to, "set character_set_results = utf8mb4")
	for name, columns := range p.made {
		must(t, to.Exec("create table zoo."+name+" "+columns))
	}

	args := copyArgs(from, to, "--tables", strings.Join(names, ","), "--chunk-bytes", "16KiB")
	mustRun(t, "", binary, append(args, "--verify")...)
	t.Run("copied", func(t *testing.T) { p.compare(t, source, target, tables) })
	touched := p.follow(t, source, target, tables, args)
	t.Run("followed", func(t *testing.T) { p.compare(t, source, target, tables) })
	if !p.all {
		return
	}
	reader := start(t, []string{"rowstream", "--from", "mysql://copier:" + testmysql.Password + "@" + from.Addr, "--listen", "127.0.0.1:0", "--http", "off", "--token", "wire", "--diag-format", "json"})
	wire := append(slices.Clone(args), "--from", "tare://"+reader.addr, "--from-token", "wire", "--compress", "zstd") // the last --from counts
	mustRun(t, "", binary, append(wire, "--restart", "--verify")...)
	t.Run("copied across a wire", func(t *testing.T) { p.compare(t, source, target, tables) })
	if again := p.follow(t, source, target, tables, wire); again != touched+1 {
		t.Errorf("rows were changed %d times, want %d", again, touched+1)
	}
	t.Run("followed across a wire", func(t *testing.T) { p.compare(t, source, target, tables) })
}

// follow changes each row in the source, modifies it in the target, and follows. It returns how often rows
// were changed in the source.
func (p *zooPair) follow(t *testing.T, source, target *sql.Conn, tables []zooTable, args []string) (touched int) {
	t.Helper()
	for _, z := range tables {
		_, err := source.ExecContext(t.Context(), "update "+z.name+" set touch = touch + 1")
		must(t, err)
		_, err = target.ExecContext(t.Context(), "update zoo."+z.name+" set touch = 99")
		must(t, err)
	}
	said := mustRun(t, "", binary, append(args, "--follow", "--follow-until", "caught-up")...)
	if !strings.Contains(said, `"caught_up":true`) {
		t.Errorf("it has not caught up:\n%s", said)
	}
	must(t, target.QueryRowContext(t.Context(), "select min(touch) from zoo.numbers").Scan(&touched))
	return touched
}

func (z *zooTable) inserts() (all []string) {
	for _, r := range z.rows {
		all = append(all, "insert ignore into "+z.name+" "+r)
	}
	return all
}

// definition returns a CREATE TABLE without the defaults that a server adds, and without the next number of
// an AUTO_INCREMENT, which restarts in an emptied table.
func definition(lines []string) string {
	text := strings.ReplaceAll(lines[0], " CHARACTER SET utf8mb4 COLLATE", " COLLATE")
	return nextNumber.ReplaceAllString(text, "")
}

var nextNumber = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// compare compares the tables on both sides.
func (p *zooPair) compare(t *testing.T, source, target *sql.Conn, tables []zooTable) {
	t.Helper()
	for _, z := range tables {
		want, got := texts(t, source, z.stored()), texts(t, target, z.stored())
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("zoo.%s: %s", z.name, diff)
		}
		if len(want) == 0 && len(z.rows) > 0 {
			t.Errorf("zoo.%s is empty", z.name)
		}
		show := "show create table zoo." + z.name
		if diff := cmp.Diff(definition(texts(t, source, show)), definition(texts(t, target, show))); p.same && diff != "" {
			t.Errorf("zoo.%s is defined otherwise: %s", z.name, diff)
		}
	}
}
