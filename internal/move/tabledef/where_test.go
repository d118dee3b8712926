package tabledef

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestPredicate compares a server's result with that of the predicate, for the same conditions over the same
// rows.
func TestPredicate(t *testing.T) {
	s := testmysql.Start(t)
	c, err := session.Connect(t.Context(), mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it only reads
	for _, sql := range []string{
		"CREATE DATABASE cond", "USE cond", `CREATE TABLE t (
  id INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,3), f FLOAT, g DOUBLE, y YEAR, day DATE, at DATETIME(3), ts TIMESTAMP NULL, tm TIME(1),
  b VARBINARY(9), fixed BINARY(3), bin VARCHAR(9) COLLATE utf8mb4_bin, nopad VARCHAR(9) COLLATE utf8mb4_nopad_bin,
  lat VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin, ci VARCHAR(9) COLLATE utf8mb4_general_ci, g2 INT AS (id * 2),
  e ENUM('a','b') COLLATE utf8mb4_bin, scaled FLOAT(7,3), scaled2 DOUBLE(7,3)
)`,
		"INSERT INTO t (id) VALUES (0)",
		`INSERT INTO t (id, u, d, f, g, y, day, at, ts, tm, b, fixed, bin, nopad, lat, ci) VALUES
 (1, 18446744073709551615, 1.5, 0.1, 0.1, 2026, '2026-01-31', '2026-01-31 10:00:00.5', '2026-01-31 10:00:00', '10:00:00.5', 'a', 'a', 'a', 'a', 'a', 'a'),
 (2, 9007199254740993, -1.5, -0.0, -0.0, 1999, '2025-12-31', '2026-01-31 00:00:00', '2025-12-31 23:59:59', '-10:00:00', 'A', 'abc', 'A', 'A ', 'A', 'A'),
 (-3, 0, 0, 1e10, 1e300, 2000, '0000-00-00', '0000-00-00 00:00:00', '2026-02-01 00:00:00', '838:59:59', '', '', 'a ', 'a ', 'é', 'é'),
 (10, 100, 99999999999999999.999, 16777216, 9007199254740993, 2155, '9999-12-31', '9999-12-31 23:59:59.999', '2038-01-19 03:14:07', '00:00:00', x'61ff', x'ff00ff', 'é', '', '', ''),
 (9, 99, 1.005, 2.5, -2.5, 1901, '2024-02-29', '2024-02-29 00:00:00.001', '2001-01-01 00:00:00', '100:00:00', 'a ', 'a  ', '', ' ', 'b', 'b')`,
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	table, err := rowstream.ReadTable(t.Context(), c, "cond", "t")
	if err != nil {
		t.Fatal(err)
	}
	var exprs []string
	for i := range table.Columns {
		exprs = append(exprs, table.Columns[i].ReadExpr())
	}
	for _, where := range []string{
		"id > 1", "id >= -3 AND id < 10", "NOT id = 1", "id <> 1 OR u IS NULL", "id IN (1, 2, 3.0, -3)", "id NOT IN (1, 2)", "5 > id", "id = TRUE",
		"u > 9007199254740992", "u = 18446744073709551615", "u <= 99.5", "u BETWEEN 99 AND 100", "u NOT BETWEEN 1 AND 10", "u <=> 0",
		"d = 1.5000", "d < -1.4", "d >= 99999999999999999.999", "d > 1.005", "NOT (d > 0)", "NOT (d > 0 AND u > 0)", "NOT (d > 0 OR u IS NULL)",
		"f = 0.1", "f > 0.1", "f = 0", "g = 0.1", "g >= 1e300", "g = 9007199254740993", "g < -2", "g IN (0.1, -2.5)",
		"y = 2026", "y < 2000", "y IN (1901, 2155)",
		"day = '2026-01-31'", "day < '2026-01-01'", "day > DATE'2024-02-28'", "day BETWEEN '2024-01-01' AND '2026-12-31'",
		"at = '2026-01-31'", "at > '2026-01-31 10:00:00'", "at >= '2026-01-31 10:00:00.500'", "at < TIMESTAMP'2026-01-31 00:00:00'", "at IN ('2026-01-31', '2024-02-29 00:00:00.001')",
		"ts >= '2026-01-31 10:00:00'", "ts < '2026-01-01'", "tm > '10:00:00'", "tm < '00:00:00'", "tm = '100:00:00'", "tm BETWEEN '-11:00:00' AND '10:00:00.5'",
		"b = 'a'", "b > 'a'", "b < 'a'", "b IN ('A', '')", "b <> 'a '", "fixed = 'abc'", "fixed >= 'a'", "BINARY b = 'a'",
		"bin = 'a'", "bin <> 'a'", "bin IN ('é', 'A')", "nopad = 'a'", "nopad = ''", "nopad <> ' '", "lat = 'a'", "lat <> ''", "lat IN ('a', 'b')",
		"ts > '0000-00-00'", "ts >= '1970-01-01 00:00:01'", "at = DATE'2026-01-31'", "tm = TIME'10:00:00.5'", "u IN (18446744073709551615, 1.5, -0)", "id IN (-3, 1.0, 9223372036854775807)", "e IS NULL",
		"BINARY ci = 'a'", "BINARY ci IN ('A', 'é')", "CAST(ci AS BINARY) <> 'a'", "ci IS NULL", "ci IS NOT NULL AND id > 0", "`id` = 1", "t.id = 1 OR t.ID = 2", "bin <=> 'a'",
	} {
		m, err := predicate(table, where)
		if err != nil {
			t.Error(err)
			continue
		}
		filter, err := rowstream.NewFilter(&rowstream.Plan{Match: m}, len(table.Columns))
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		var want, got []string
		if _, err := c.Query(t.Context(), "SELECT ("+where+") IS TRUE, "+strings.Join(exprs, ", ")+" FROM t ORDER BY id", func(row mysqlwire.TextRow) error {
			if string(row[0]) == "1" {
				want = append(want, string(row[1]))
			}
			if _, ok := filter.Apply(row[1:]); ok {
				got = append(got, string(row[1]))
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the server has rows %v, the predicate %v", where, want, got)
		}
	}

	for where, want := range map[string]string{
		"ci = 'a'":                        "only the server can compare text under utf8mb4_general_ci; use BINARY ci = '…'",
		"bin > 'a'":                       "which text is less than which is the server's to say",
		"id % 2 = 0":                      "is not a column",
		"id = u":                          "is no number",
		"id = '1'":                        "write one, without quotes",
		"id = NULL":                       "write IS NULL",
		"id = 1e3":                        "write it without an exponent",
		"y = 26":                          "is no year of four digits",
		"day = '2026-1-1'":                "is not of the form '2006-01-02'",
		"day = '2026-13-01'":              "is no date or time",
		"ts = '2026-01-01 00:00:00.5'":    "more digits of fractions than the column",
		"at = 20260101":                   "is not of the form",
		"lat = 'é'":                       "character set latin1",
		"g2 = 4":                          "no stored column g2",
		"bin LIKE 'a%'":                   "the operator like cannot be evaluated",
		"id":                              "cannot be evaluated for a row in the binary log; what can",
		"id IS TRUE":                      "write column <> 0",
		"id IN (SELECT 1)":                "IN can have a list of constants only",
		"id = 1 XOR u = 2":                "cannot be evaluated",
		"id > > 1":                        "cannot be parsed",
		"at > NOW() - INTERVAL 1 DAY":     "is not of the form",
		"e = 'a'":                         "its values are numbers in the binary log",
		"BINARY e = 'a'":                  "its values are numbers in the binary log",
		"scaled = 0.1":                    "the server rounds constants to its decimals",
		"scaled2 > 0.1":                   "the server rounds constants to its decimals",
		"y = TRUE":                        "is no year of four digits",
		"at < '2026-01-31 24:00:00'":      "is no date or time",
		"at < '2026-01-31 23:59:60'":      "is no date or time",
		"tm = '10:60:00'":                 "is no date or time",
		"tm < '839:00:00'":                "is no date or time",
		"tm = DATE'10:00:00'":             "is not of the form",
		"tm = TIMESTAMP'10:00:00'":        "is not of the form",
		"day = TIME'2026-01-31'":          "is not of the form",
		"ts >= '1970-01-01'":              "the first TIMESTAMP",
		"ts IN ('1969-12-31 23:59:59')":   "the first TIMESTAMP",
		"u IN (1, -1, 1.5)":               "is no number of the column's type",
		"id IN (9223372036854775808, .3)": "is no number of the column's type",
		"id = 1 /*M! OR id = 2 */":        "some servers execute its comments",
		"id = 1 /*!50000 OR id = 2 */":    "some servers execute its comments",
		"-id = 3":                         "is not a column",
		"ROUND(d) = 1":                    "is not a column",
		"BINARY id = 1":                   "compare the column itself",
		strings.Repeat("NOT ", 200) + "1": "nested deeper",
		strings.Repeat("(id = 1 AND (id = 2 OR ", 100) + "id = 3" + strings.Repeat("))", 100): "nested deeper",
	} {
		m, err := predicate(table, where)
		if err == nil {
			_, err = rowstream.NewFilter(&rowstream.Plan{Match: m}, len(table.Columns))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", where, err, want)
		}
	}
}
