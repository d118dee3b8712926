package copier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/move/copier"
)

// An oddKey is a table with an unusual key or name.
type oddKey struct {
	name    string
	create  string // the columns
	rows    string // VALUES
	change  string // with %s for the table
	refused string // part of the reason, if it is refused
	only    string // the product that supports it; empty: both
}

var oddKeys = []oddKey{
	{name: "prefix", create: "(a VARCHAR(50) NOT NULL, b INT NOT NULL, UNIQUE KEY p (a(3)), UNIQUE KEY w (b))", rows: "('abcd', 1), ('xyz', 2)", change: "UPDATE %s SET a = 'qqq', b = 7 WHERE b = 1"},
	{name: "prefixonly", create: "(a VARCHAR(50) NOT NULL, UNIQUE KEY p (a(3)))", rows: "('abcd')", refused: "whole columns"},
	{name: "functional", create: "(a VARCHAR(20) NOT NULL, b INT NOT NULL PRIMARY KEY, UNIQUE KEY f ((LOWER(a))))", rows: "('A', 1), ('b', 2)", change: "UPDATE %s SET a = CONCAT(a, 'X')", only: "MySQL"},
	{name: "functionalonly", create: "(a VARCHAR(20) NOT NULL, UNIQUE KEY f ((LOWER(a))))", rows: "('A')", refused: "whole columns", only: "MySQL"},
	{name: "generated", create: "(a INT NOT NULL, g INT AS (a * 2) STORED, h INT AS (a + 1) VIRTUAL, b INT PRIMARY KEY, UNIQUE KEY g (g), UNIQUE KEY h (h))", rows: "(1, DEFAULT, DEFAULT, 1), (2, DEFAULT, DEFAULT, 2)", change: "UPDATE %s SET a = a + 10"},
	{name: "generatedonly", create: "(a INT NOT NULL, g INT AS (a * 2) STORED, UNIQUE KEY g (g))", rows: "(1, DEFAULT)", refused: "no primary key"},
	{name: "nullable", create: "(a INT, b INT NOT NULL, UNIQUE KEY a (a), UNIQUE KEY b (b))", rows: "(NULL, 1), (NULL, 2), (1, 3)", change: "UPDATE %s SET a = 9, b = 8 WHERE b = 1"},
	{name: "nullableonly", create: "(a INT, UNIQUE KEY a (a))", rows: "(NULL), (1)", refused: "never NULL"},
	{name: "bits", create: "(a BIT(17) PRIMARY KEY, v INT)", rows: "(b'1', 1), (b'11111111111111111', 2), (0, 3)", change: "UPDATE %s SET a = 77 WHERE v = 1"},
	{name: "bits64", create: "(a BIT(64) PRIMARY KEY, v INT)", rows: "(0xffffffffffffffff, 1), (0x8000000000000000, 2), (0, 3)", change: "UPDATE %s SET v = v + 10"},
	{name: "enums", create: "(a ENUM('z','a') PRIMARY KEY, v INT)", rows: "('z', 1), ('a', 2)", refused: "ENUM"},
	{name: "sets", create: "(a SET('z','a') NOT NULL, v INT, UNIQUE KEY a (a))", rows: "('z', 1), ('z,a', 2)", refused: "SET"},
	{name: "floats", create: "(a FLOAT PRIMARY KEY, v INT)", rows: "(0.1, 1), (-3.4e38, 2), (1e-40, 3), (16777217, 4)", change: "UPDATE %s SET a = a * 0.7, v = v + 1 WHERE v < 4"},
	{name: "doubles", create: "(a DOUBLE PRIMARY KEY, v INT)", rows: "(0.1, 1), (1.7976931348623157e308, 2), (5e-324, 3), (-0e0, 4)", change: "UPDATE %s SET v = v + 10, a = a / 3 WHERE v < 3"},
	{name: "decimals", create: "(a DECIMAL(65,30) PRIMARY KEY, v INT)", rows: "(99999999999999999999999999999999999.999999999999999999999999999999, 1), (-0.000000000000000000000000000001, 2)", change: "UPDATE %s SET a = -a"},
	{name: "times", create: "(a TIME(6), b YEAR, c DATETIME(3), d TIMESTAMP(6) NOT NULL, PRIMARY KEY (a, b, c, d))", rows: "('-838:59:59', 1901, '1000-01-01 00:00:00.001', '2001-01-01 00:00:00.000001'), ('00:00:00.5', 0, '9999-12-31 23:59:59.999', '2038-01-01 00:00:00')", change: "UPDATE %s SET a = ADDTIME(a, '00:00:01'), d = d + INTERVAL 1 SECOND"},
	{name: "zero", create: "(a DATE NOT NULL, b DATETIME NOT NULL, PRIMARY KEY (a, b))", rows: "('0000-00-00', '0000-00-00 00:00:00'), ('2001-02-31', '2001-00-00 01:02:03'), ('2001-02-03', '0000-00-00')", change: "UPDATE %s SET b = '2001-02-30 00:00:00' WHERE a = '0000-00-00'"},
	{name: "uuids", create: "(a UUID PRIMARY KEY, v INT)", rows: "('00000000-0000-1000-8000-000000000001', 1), ('ffffffff-ffff-4fff-bfff-ffffffffffff', 2), ('10000000-0000-0000-0000-000000000000', 3)", change: "UPDATE %s SET v = v + 10, a = '20000000-0000-1000-0000-000000000000' WHERE v = 1", only: "MariaDB"},
	{name: "inets", create: "(a INET6, b INET4, PRIMARY KEY (a, b))", rows: "('::', '0.0.0.0'), ('ffff::1', '255.255.255.255')", change: "UPDATE %s SET b = '10.0.0.1' WHERE a = '::'", only: "MariaDB"},
	{name: "general", create: "(a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)", rows: "('a', 1), ('B', 2), ('ä ', 3) ON DUPLICATE KEY UPDATE v = 9", change: "UPDATE %s SET a = UPPER(a)"},
	{name: "accents", create: "(a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT)", rows: "('a', 1), ('a ', 2), ('😀', 3), ('', 4)", change: "UPDATE %s SET a = CONCAT(UPPER(a), '!') WHERE v < 3", only: "MySQL"},
	{name: "japanese", create: "(a CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_ja_0900_as_cs_ks PRIMARY KEY, v INT)", rows: "('はは', 1), ('ハハ', 2)", change: "DELETE FROM %s WHERE a = 'ハハ'", only: "MySQL"},
	{name: "nopad", create: "(a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_nopad_ci PRIMARY KEY, v INT)", rows: "('a', 1), ('a ', 2), ('b', 3)", change: "DELETE FROM %s WHERE a = 'A '", only: "MariaDB"},
	{name: "nopadchar", create: "(a CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_nopad_ci, b INT, PRIMARY KEY (a, b))", rows: "('a', 1), ('\\t', 2), ('', 3)", refused: "NOPAD", only: "MariaDB"},
	{name: "nopadother", create: "(a CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY, b INT NOT NULL, UNIQUE KEY b (b))", rows: "('a', 1), ('\\t', 2), ('', 3), ('a\\t', 4)", change: "UPDATE %s SET a = CONCAT(a, '!') WHERE b > 2", only: "MariaDB"},
	{name: "padded", create: "(a VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german1_ci, b VARCHAR(9) CHARACTER SET ucs2, c BINARY(4), PRIMARY KEY (a, b, c))", rows: "('ß', 'x ', 'a'), ('s', 'x', 0x00), ('t', '', 0xff20)", change: "UPDATE %s SET b = 'y' WHERE a = 'S'"},
	{name: "big5s", create: "(a VARCHAR(9) CHARACTER SET sjis, b VARCHAR(9) CHARACTER SET gbk NOT NULL, PRIMARY KEY (a), UNIQUE KEY b (b))", rows: "(_sjis 0x835C, _gbk 0xD55C), ('x', 'y')", change: "UPDATE %s SET b = 'z' WHERE a = _sjis 0x835C"},
	{name: "back`tick", create: "(`i``d` INT, `a.b` VARCHAR(5) NOT NULL, `quo\"te's` INT, PRIMARY KEY (`i``d`), UNIQUE KEY `k``e'y\".` (`a.b`))", rows: "(1, 'x', 2), (2, 'y', 3)", change: "UPDATE %s SET `quo\"te's` = 5"},
	{name: "do.t", create: "(id INT PRIMARY KEY)", rows: "(1), (2)", change: "INSERT INTO %s VALUES (9)"},
	{name: "quo\"t'e", create: "(id INT PRIMARY KEY)", rows: "(1), (2)", change: "INSERT INTO %s VALUES (9)"},
	{name: "snöw☃漢 字", create: "(`ключ` INT PRIMARY KEY, `%s%d` INT)", rows: "(1, 1), (2, 2)", change: "DELETE FROM %s WHERE `ключ` = 2"},
	{name: strings.Repeat("n", 63) + "é", create: "(" + strings.Repeat("c", 64) + " INT, PRIMARY KEY (" + strings.Repeat("c", 64) + "))", rows: "(1), (2)", change: "INSERT INTO %s VALUES (9)"},
	{name: "invisible", create: "(a INT NOT NULL, b INT NOT NULL, UNIQUE KEY b (b), UNIQUE KEY a (a) INVISIBLE)", rows: "(1, 1), (2, 2)", change: "UPDATE %s SET b = 7 WHERE a = 1", only: "MySQL"},
	{name: "overlaps", create: "(a INT, f DATE, t DATE, PERIOD FOR p (f, t), UNIQUE KEY k (a, p WITHOUT OVERLAPS), b INT PRIMARY KEY)", rows: "(1, '2001-01-01', '2002-01-01', 1)", refused: "WITHOUT OVERLAPS", only: "MariaDB"},
	{name: "longtext", create: "(a TEXT, b INT NOT NULL, UNIQUE KEY a (a) USING HASH, PRIMARY KEY (b))", rows: "('x', 1), (REPEAT('y', 5000), 2)", change: "UPDATE %s SET a = CONCAT(a, 'z')", only: "MariaDB"},
	{name: "hashes", create: "(a TEXT, b INT PRIMARY KEY, c VARCHAR(4000), UNIQUE KEY a (a, c), UNIQUE KEY c (c), g INT AS (b + 1) VIRTUAL)", rows: "('x', 1, 'y', DEFAULT), (NULL, 2, 'z', DEFAULT)", change: "UPDATE %s SET a = 'q', c = CONCAT(c, 'z')", only: "MariaDB"},
	{name: "hashshort", create: "(a INT NOT NULL, b INT PRIMARY KEY, UNIQUE KEY a (a) USING HASH)", rows: "(1, 1), (2, 2)", change: "UPDATE %s SET a = a + 5", only: "MariaDB"},
	{name: "hashonly", create: "(a TEXT NOT NULL, UNIQUE KEY a (a))", rows: "('x')", refused: "no primary key", only: "MariaDB"},
}

// TestOddKeys copies, follows and verifies tables with unusual keys and names, or checks that they are
// refused for the right reason.
func TestOddKeys(t *testing.T) {
	onOneServer(t, "odd", func(t *testing.T, p *pair) {
		product := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		sqlExec(t, p.source, "SET sql_mode = 'ALLOW_INVALID_DATES'")
		var names []string
		var changes []string
		for _, tt := range oddKeys {
			if tt.only != "" && tt.only != product {
				continue
			}
			name := session.Ident(tt.name)
			sqlExec(t, p.source, "CREATE TABLE "+name+" "+tt.create, "INSERT INTO "+name+" VALUES "+tt.rows)
			if tt.refused == "" {
				names, changes = append(names, tt.name), append(changes, fmt.Sprintf(tt.change, name))
				continue
			}
			if _, err := copier.Plan(t.Context(), p.into("copied", tt.name)); err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v, want a refusal because of %q", tt.name, err, tt.refused)
			}
		}
		run := func(restart, follow bool) {
			t.Helper()
			o := p.into("copied", names...)
			o.Verify, o.Restart, o.Follow, o.UntilCaughtUp = true, restart, follow, follow
			report, err := copier.Run(t.Context(), o)
			if err != nil || report.Mismatches() != 0 {
				t.Fatalf("%d rows differ, %v", report.Mismatches(), err)
			}
			for _, name := range names {
				want, got := read(t, p.source, "SELECT * FROM "+session.Ident(name)), read(t, p.target, "SELECT * FROM copied."+session.Ident(name))
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(want, got) {
					t.Errorf("%s: got %v, want %v", name, got, want)
				}
			}
		}
		run(false, false)
		run(true, true)
		sqlExec(t, p.source, changes...)
		run(false, true)
	})
}

// TestLowerCaseNames follows tables of a source that stores their names in lower case, specified in another
// case.
func TestLowerCaseNames(t *testing.T) {
	from := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs("--lower-case-table-names=1"))
	p := newPair(t, "lowered")
	source := connect(t, root(from))
	sqlExec(t, source, "CREATE DATABASE Lowered", "USE Lowered", "CREATE TABLE MiXed (id INT PRIMARY KEY, V INT)", "INSERT INTO MIXED VALUES (1, 1)")
	for _, name := range []string{"MiXed", "mixed"} {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS lowered", "DROP DATABASE IF EXISTS Lowered", "DROP DATABASE IF EXISTS _tare")
		o := p.options(name)
		o.From = copier.FromServer(root(from))
		goesOn(t, o, "")
		sqlExec(t, source, "INSERT INTO Lowered.mixeD SELECT MAX(id) + 1, 5 FROM MiXed", "UPDATE mixed SET v = v + 1")
		o.Verify = true
		goesOn(t, o, "")
		want, got := read(t, source, "SELECT * FROM mixed"), read(t, p.target, "SELECT * FROM lowered."+name)
		if !slices.Equal(want, got) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
