package binlog_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A zooColumn is a type with values, as SQL.
type zooColumn struct {
	definition string
	values     []string
}

func repeated(sql string, n int) string { return fmt.Sprintf("REPEAT(%s, %d)", sql, n) }

// zoo returns all types of MariaDB with boundary values. Generated and invisible columns are in between.
func zoo() (columns []zooColumn) {
	add := func(definition string, values ...string) { columns = append(columns, zooColumn{definition, values}) }
	add("TINYINT", "-128", "127", "0")
	add("TINYINT UNSIGNED", "255", "128")
	add("TINYINT(4) ZEROFILL", "7", "200")
	add("SMALLINT", "-32768", "32767")
	add("SMALLINT UNSIGNED", "65535")
	add("MEDIUMINT", "-8388608", "8388607", "-1")
	add("MEDIUMINT UNSIGNED", "16777215", "8388608")
	add("INT", "-2147483648", "2147483647", "-1")
	add("INT UNSIGNED", "4294967295")
	add("INT(10) ZEROFILL", "42")
	add("BIGINT", "-9223372036854775808", "9223372036854775807", "-1")
	add("BIGINT UNSIGNED", "18446744073709551615", "9223372036854775808")
	add("BIGINT(20) UNSIGNED ZEROFILL", "1")
	add("BIGINT AS (1 + 1) VIRTUAL")
	add("FLOAT", "0", "-0.0", "16777217", "3.402823466e38", "-1.175494351e-38", "1.4e-45", "0.1", "1e15", "1e16", "123456.7")
	add("FLOAT(7,4)", "999.1234", "-0.00004", "0.1")
	add("FLOAT UNSIGNED ZEROFILL", "1.5")
	add("DOUBLE", "0", "-0e0", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "0.1", "1e15", "1e16", "123456789012345678", "1e-14", "1e-15", "1e-16", "0.000123456789012345678", "-1.5e-9", "1234567890123456.5", "100000000000000000000")
	add("DOUBLE(20,6)", "1.5", "-123456.789", "0")
	add("DOUBLE(20,0)", "5", "-70", "0", "1e15")
	add("DOUBLE(255,30)", "1e200", "1e-30")
	add("DOUBLE ZEROFILL", "1.5", "2")
	add("DOUBLE(10,3) ZEROFILL", "1.5")
	add("DECIMAL(65,30)", "99999999999999999999999999999999999.999999999999999999999999999999", "-99999999999999999999999999999999999.999999999999999999999999999999", "0", "-0.000000000000000000000000000001", "1000000000", "-1000000000.5")
	add("DECIMAL(10)", "-9999999999", "1")
	add("DECIMAL(5,5)", "0.00001", "-0.99999")
	add("DECIMAL(9,9)", "0.123456789")
	add("DECIMAL(18,9)", "-123456789.987654321", "100000000.000000001")
	add("DECIMAL(1,0)", "-1")
	add("DECIMAL(10,2) UNSIGNED ZEROFILL", "12.3", "0")
	add("DECIMAL(20,0) ZEROFILL", "5")
	add("BOOLEAN", "TRUE", "FALSE")
	for _, n := range []int{1, 5, 8, 9, 16, 17, 63, 64} {
		add(fmt.Sprintf("BIT(%d)", n), "0", "1", fmt.Sprintf("b'1%s'", strings.Repeat("0", n-1)), fmt.Sprintf("b'%s'", strings.Repeat("1", n)))
	}
	add("DATE", "'0000-00-00'", "'2024-02-29'", "'9999-12-31'", "'2024-00-00'", "'2024-02-31'", "'0001-01-01'")
	for n := range 7 {
		add(fmt.Sprintf("TIME(%d)", n), "'-838:59:59.999999'", "'838:59:59'", "'00:00:00'", "'-00:00:00.123456'", "'-00:00:01.9'", "'12:34:56.987654'", "'-12:34:56.000001'", "'-01:00:00.5'")
		add(fmt.Sprintf("DATETIME(%d)", n), "'0000-00-00'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:34:56.654321'", "'2024-02-31 00:00:00.000001'", "'0001-01-01'")
		add(fmt.Sprintf("TIMESTAMP(%d) NULL", n), "'0000-00-00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", "'2024-02-29 12:34:56.654321'")
	}
	add("YEAR", "0", "1901", "2155", "2024")
	add("YEAR(2)", "0", "1970", "2069", "2024")
	add("CHAR(10) CHARACTER SET latin1", "''", "'a  '", "x'ff00'", "'  a'")
	add("CHAR(0)", "''")
	add("CHAR(255) CHARACTER SET utf8mb4", "'😀  '", repeated("'é'", 255))
	add("CHAR(20) CHARACTER SET utf16", "'aé😀'", "''")
	add("CHAR(20) CHARACTER SET ucs2 COLLATE ucs2_bin", "'aé '")
	add("VARCHAR(20) CHARACTER SET utf32", "'aé😀 '")
	add("VARCHAR(255) CHARACTER SET ascii", "''", repeated("'x'", 255), "'trailing  '")
	add("VARCHAR(256) CHARACTER SET ascii", "'x'", repeated("'x'", 256))
	add("VARCHAR(300) CHARACTER SET gbk", "_gbk x'b0a1'", "'a'")
	add("VARCHAR(20) CHARACTER SET sjis", "_sjis x'83e5'")
	add("BINARY(1)", "x'00'", "' '")
	add("BINARY(16)", "x'00'", "'a  '", "x'61000000'", "x'ff20'", "x'ffffffffffffffffffffffffffffffff'")
	add("BINARY(255)", "x'01'")
	add("VARBINARY(20)", "x'00'", "x'610000'", "''", "x'fbfcfdfeff'")
	for _, size := range []string{"TINY", "", "MEDIUM", "LONG"} {
		add(size+"TEXT CHARACTER SET utf8mb4", "''", "'text\\n\\t\\\\ \"q\" \\'s\\''", repeated("'é'", 100))
		add(size+"BLOB", "''", "x'00ff'", repeated("x'fb'", 250))
	}
	add("LONGBLOB", repeated("'y'", 70_000))
	add("INT INVISIBLE DEFAULT 7", "8")
	add("JSON", "'{\"a\": [1, 2.50, \"é\"]}'", "'null'")
	add("ENUM('a','','1','x''y','é') CHARACTER SET latin1", "'a'", "''", "3", "'é'", "0")
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("'m%d'", i)
	}
	add("ENUM("+strings.Join(many, ",")+")", "1", "256", "300")
	add("SET('a','b','c')", "''", "'a,c'", "7")
	add("SET("+strings.Join(many[:64], ",")+")", "''", "18446744073709551615", "9223372036854775808")
	add("SET("+strings.Join(many[:20], ",")+")", "1048575", "65536")
	add("INT AS (1) STORED")
	add("GEOMETRY", "POINT(1, -2.5)", "ST_GeomFromText('LINESTRING(0 0, 1 1, 2 2)', 4326)")
	add("POINT", "POINT(0, 0)")
	add("POLYGON", "ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')")
	add("GEOMETRYCOLLECTION", "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), POINT(2 2))')")
	add("UUID", "'00000000-0000-0000-0000-000000000000'", "'6ccd780c-baba-1026-9564-5b8c656024db'", "'01890a5d-ac96-774b-bcce-b302099a8057'",
		"'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'6ccd780c-baba-4026-9564-000000000000'", "'c2eecc2e-0000-6000-8000-0123456789ab'", "'123e4567-e89b-12d3-0456-426614174000'", "'123e4567-e89b-0000-8456-426614170000'")
	add("INET6", "'::'", "'::1'", "'::1.2.3.4'", "'::ffff:10.0.0.1'", "'2001:db8::1:0:0:1'", "'2001:db8:0:1:1:1:1:1'", "'1:0:0:2:0:0:0:3'", "'fe80::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::1:2'", "'0:0:0:0:0:fffe:1:2'", "'1::2:3:4:5:6:7'")
	add("INET4", "'0.0.0.0'", "'255.255.255.255'", "'1.2.3.0'")
	return columns
}

// makeZoo creates the table. It returns the names of its columns, except generated ones, and rows that
// include each value of each column.
func makeZoo(t *testing.T, c *mysqlconn.Client, name string) (names string, rows []string) {
	t.Helper()
	columns, list := zoo(), []string(nil)
	definitions := []string{"id INT AUTO_INCREMENT PRIMARY KEY"}
	most := 0
	for i, z := range columns {
		definitions = append(definitions, fmt.Sprintf("c%d %s", i, z.definition))
		if len(z.values) > 0 {
			list = append(list, fmt.Sprintf("c%d", i))
		}
		most = max(most, len(z.values))
	}
	testrows.Exec(t, c, "CREATE OR REPLACE TABLE "+name+" ("+strings.Join(definitions, ", ")+") ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET latin1")
	nulls := make([]string, len(list))
	for i := range nulls {
		nulls[i] = "NULL"
	}
	rows = append(rows, strings.Join(nulls, ", "))
	for n := range most {
		var values []string
		for i, z := range columns {
			switch {
			case len(z.values) == 0:
			case (n+i)%7 == 0 && n >= len(z.values):
				values = append(values, "NULL")
			default:
				values = append(values, z.values[n%len(z.values)])
			}
		}
		rows = append(rows, strings.Join(values, ", "))
	}
	return strings.Join(list, ", "), rows
}

// TestFollowTypes inserts, updates and deletes values of all types: the images in the log equal the results
// of a SELECT, with a plain and with a compressed log; a short run has one of them.
func TestFollowTypes(t *testing.T) {
	logs := map[string][]string{
		"plain":       nil,
		"compressed":  {"--log-bin-compress=1", "--log-bin-compress-min-len=10"},
		"no checksum": {"--binlog-checksum=NONE", "--binlog-row-metadata=NO_LOG"},
	}
	chosen := slices.Sorted(maps.Keys(logs))[testseed.Rand(t).IntN(len(logs))]
	for name, args := range logs {
		if testing.Short() && name != chosen {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs(args...))
			d := testrows.Direct(t, testrows.Root(server))
			c := testrows.Connect(t, testrows.App(server))
			testrows.Exec(t, c, "CREATE DATABASE zoo")
			names, rows := makeZoo(t, c, "zoo.t")
			table, err := d.Describe(t.Context(), "zoo", "t")
			if err != nil {
				t.Fatal(err)
			}
			from := testrows.Now(t, d, true)
			changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}})
			for _, row := range rows {
				testrows.Exec(t, c, "INSERT INTO zoo.t ("+names+") VALUES ("+row+")")
			}
			want := testrows.Selected(t, c, table)
			got := testrows.Until(t, changes, testrows.Now(t, d, false))
			compareImages(t, table, want, got, func(s testrows.Seen) mysqlwire.TextRow { return s.After })

			// Each row gets the values of the next one.
			testrows.Exec(t, c, "CREATE TEMPORARY TABLE zoo.copied AS SELECT id, "+names+" FROM zoo.t")
			var sets []string
			for column := range strings.SplitSeq(names, ", ") {
				sets = append(sets, "t."+column+" = o."+column)
			}
			testrows.Exec(t, c, fmt.Sprintf("UPDATE zoo.t JOIN zoo.copied o ON o.id = t.id %% %d + 1 SET %s", len(rows), strings.Join(sets, ", ")))
			updated := testrows.Selected(t, c, table)
			got = testrows.Until(t, changes, testrows.Now(t, d, false))
			if len(got) != len(rows) {
				t.Errorf("%d updates, want %d", len(got), len(rows))
			}
			for _, s := range got {
				id := 0
				if _, err := fmt.Sscan(string(s.Before[0]), &id); err != nil {
					t.Fatal(err)
				}
				compareImages(t, table, want[id-1:id], []testrows.Seen{s}, func(s testrows.Seen) mysqlwire.TextRow { return s.Before })
				compareImages(t, table, updated[id-1:id], []testrows.Seen{s}, func(s testrows.Seen) mysqlwire.TextRow { return s.After })
			}
			testrows.Exec(t, c, "DELETE FROM zoo.t")
			got = testrows.Until(t, changes, testrows.Now(t, d, false))
			compareImages(t, table, updated, got, func(s testrows.Seen) mysqlwire.TextRow { return s.Before })
		})
	}
}

func compareImages(t *testing.T, table *rowstream.Table, want []mysqlwire.TextRow, got []testrows.Seen, image func(testrows.Seen) mysqlwire.TextRow) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d changes, want %d", len(got), len(want))
	}
	for i := range want {
		row := image(got[i])
		for j := range want[i] {
			if diff := cmp.Diff(want[i][j], row[j]); diff != "" {
				c := &table.Columns[j]
				t.Errorf("row %s, column %s %s:\n got %.100q\nwant %.100q", want[i][0], c.Name, c.FullType, row[j], want[i][j])
			}
		}
	}
}
