package copier_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A zooType is a type of column with values.
type zooType struct {
	name, column string
	values       []string
}

// zoo has every type of column with values at the ends of its range, as SQL. Each type becomes one column:
// NULL, and the values.
var zoo = []zooType{
	{"tinyint", "TINYINT", []string{"-128", "127", "0", "-0"}},
	{"tinyint_u", "TINYINT UNSIGNED", []string{"255", "0"}},
	{"smallint", "SMALLINT", []string{"-32768", "32767"}},
	{"mediumint", "MEDIUMINT", []string{"-8388608", "8388607"}},
	{"int_zero", "INT(5) UNSIGNED ZEROFILL", []string{"0", "42", "4294967295"}},
	{"bigint", "BIGINT", []string{"-9223372036854775808", "9223372036854775807", "9007199254740993"}},
	{"bigint_u", "BIGINT UNSIGNED", []string{"18446744073709551615", "9223372036854775808"}},
	{"decimal", "DECIMAL(65,30)", []string{"99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001", "0"}},
	{"decimal_u", "DECIMAL(10,0) UNSIGNED", []string{"9999999999"}},
	{"float", "FLOAT", []string{"16777217", "0.1", "-0.0", "3.402823466e38", "1.175494351e-38", "-1.5e-45", "1e-10", "123456.789"}},
	{"float_d", "FLOAT(7,3)", []string{"1234.567", "-0.001"}},
	{"double", "DOUBLE", []string{"0.1", "-0.0", "1.7976931348623157e308", "2.2250738585072014e-308", "4.9406564584124654e-324", "9007199254740993", "0.30000000000000004", "1e22", "123456789.12345678"}},
	{"double_d", "DOUBLE(20,10)", []string{"1234567890.0123456789"}},
	{"bit1", "BIT(1)", []string{"b'0'", "b'1'"}},
	{"bit12", "BIT(12)", []string{"b'101'", "b'100101011100'", "0x0A0B", "b'0010000000'"}},
	{"bit64", "BIT(64)", []string{"b'1111111111111111111111111111111111111111111111111111111111111111'", "0x5C090A0D00", "9", "10", "92"}},
	{"date", "DATE", []string{"'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2026-02-31'", "'2026-00-00'"}},
	{"time", "TIME(6)", []string{"'-838:59:59.999999'", "'838:59:59'", "'00:00:00.000001'"}},
	{"time0", "TIME", []string{"'12:00:00'", "'-00:00:01'"}},
	{"datetime", "DATETIME(6)", []string{"'0000-00-00 00:00:00'", "'9999-12-31 23:59:59.999999'", "'2026-03-29 02:30:00'"}},
	{"timestamp", "TIMESTAMP(6) NULL", []string{"'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", "0", "'2026-03-29 02:30:00'", "'2026-10-25 02:30:00'"}},
	{"timestamp0", "TIMESTAMP NULL", []string{"'2001-09-09 01:46:40'"}},
	{"year", "YEAR", []string{"1901", "2155", "0"}},
	{"char", "CHAR(10)", []string{"''", "'x  '", "' x'", "'tab\\t'", "'null\\0'", `'\\\\N'`, "'\\n'"}},
	{"char_bin", "CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", []string{"'日本語'", "'😀'"}},
	{"varchar", "VARCHAR(200) CHARACTER SET utf8mb4", []string{"'😀 é ü'", "'x  '", "''", `'back\\\\slash'`, "'quote'''", "'line\\r\\nline'", "REPEAT('é', 200)"}},
	{"latin1", "VARCHAR(50) CHARACTER SET latin1", []string{"CONVERT(x'e9fc80ff' USING latin1)", "'plain'", "_latin1 x'8d8f9d'"}},
	{"latin1_all", "VARCHAR(300) CHARACTER SET latin1", []string{"_latin1 x'" + allBytes() + "'"}},
	{"ucs2", "VARCHAR(50) CHARACTER SET ucs2", []string{"'日本'", "_ucs2 x'41420009000a005c'"}},
	{"utf16", "VARCHAR(50) CHARACTER SET utf16", []string{"'😀'", "'AB'"}},
	{"utf32", "VARCHAR(50) CHARACTER SET utf32", []string{"'😀 x'"}},
	{"sjis", "VARCHAR(50) CHARACTER SET sjis", []string{"_sjis x'835c955c'", "_sjis x'5c'"}},
	{"gbk", "VARCHAR(50) CHARACTER SET gbk", []string{"_gbk x'955c815c'"}},
	{"big5", "VARCHAR(50) CHARACTER SET big5", []string{"_big5 x'a55ca45c'"}},
	{"koi8r", "VARCHAR(50) CHARACTER SET koi8r", []string{"'Привет'"}},
	{"binary", "BINARY(5)", []string{"'ab'", "x'00090a5cff'", "''"}},
	{"varbinary", "VARBINARY(300)", []string{"x'" + allBytes() + "'", "''", "x'5c4e'"}},
	{"tinyblob", "TINYBLOB", []string{"x'00ff'"}},
	{"blob", "BLOB", []string{"REPEAT(x'5c09', 30000)"}},
	{"mediumtext", "MEDIUMTEXT", []string{"REPEAT('x\\t', 100000)"}},
	{"longblob", "LONGBLOB", []string{"REPEAT(x'00', 3000000)"}},
	{"longtext", "LONGTEXT CHARACTER SET utf8mb4", []string{"REPEAT('日', 100000)"}},
	{"enum", "ENUM('x','2','1','','é')", []string{"'x'", "'2'", "'1'", "''", "'é'", "2", "0"}},
	{"enum_latin1", "ENUM('é','ü') CHARACTER SET latin1", []string{"'ü'"}},
	{"set", "SET('a','b','2','é')", []string{"''", "'a,é'", "2", "15"}},
	{"set64", "SET(" + members(64) + ")", []string{"18446744073709551615", "'m63'", "'m0'"}},
	{"json", "JSON", []string{`'{"a": [1, 1.0, "é"]}'`, `'"text"'`, `'null'`}},
	{"geometry", "GEOMETRY", []string{"ST_GeomFromText('POINT(1 2)', 4326)", "ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0))')"}},
	{"point", "POINT", []string{"ST_GeomFromText('POINT(-9 10)')"}},
	{"uuid", "UUID", []string{"'123e4567-e89b-12d3-a456-426614174000'", "'00000000-0000-0000-0000-000000000000'"}},
	{"inet6", "INET6", []string{"'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:192.0.2.128'"}},
	{"inet4", "INET4", []string{"'127.0.0.1'", "'255.255.255.255'"}},
	{"bool", "BOOL", []string{"TRUE", "FALSE"}},
}

func allBytes() string {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%02x", i)
	}
	return b.String()
}

func members(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("'m%d'", i)
	}
	return strings.Join(names, ",")
}

// zooColumns is the number of types per table. Few tables are used because creating them is slow.
const zooColumns = 8

// zooTable creates and fills a table with one column per type: NULL, then the values in turn.
func zooTable(t *testing.T, c *mysqlconn.Client, name string, types []zooType) {
	t.Helper()
	var create strings.Builder
	create.WriteString("CREATE TABLE " + name + " (id INT AUTO_INCREMENT PRIMARY KEY")
	rows := 1
	for _, z := range types {
		create.WriteString(", `" + z.name + "` " + z.column)
		rows = max(rows, 1+len(z.values))
	}
	sqlExec(t, c, create.String()+", hidden INT INVISIBLE DEFAULT 7, g INT AS (hidden * 2) STORED, last CHAR(4)) CHARACTER SET utf8mb4")
	for i := range rows {
		names, values := "id", fmt.Sprint(i)
		for _, z := range types {
			v := "NULL"
			if i > 0 && i <= len(z.values) {
				v = z.values[i-1]
			}
			names, values = names+", `"+z.name+"`", values+", "+v
		}
		sqlExec(t, c, "INSERT IGNORE INTO "+name+" ("+names+", last) VALUES ("+values+", 'last')")
	}
}

// TestZoo copies each type by LOAD DATA, by INSERT, through a wire.Service and from the binary log, directly
// and through the service, to a server in another time zone: the stored values must be identical byte for
// byte.
func TestZoo(t *testing.T) {
	p := newPair(t, "zoo")
	sqlExec(t, p.source, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+02:00', character_set_client = utf8mb4")
	sqlExec(t, p.target, "SET GLOBAL time_zone = '-07:00', GLOBAL sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'")
	defer sqlExec(t, p.target, "SET GLOBAL time_zone = 'SYSTEM', GLOBAL sql_mode = DEFAULT")
	o := p.options()
	for from := 0; from < len(zoo); from += zooColumns {
		name := fmt.Sprint("zoo", from/zooColumns)
		zooTable(t, p.source, name, zoo[from:min(from+zooColumns, len(zoo))])
		o.Tables = append(o.Tables, tabledef.Spec{Schema: "zoo", Name: name})
	}
	o.Verify = true                        // it must find no mismatch
	sqlExec(t, p.source, testrows.Session) // times are compared in UTC
	for _, way := range []struct{ how, localInfile string }{{"load", "1"}, {"insert", "0"}, {"wire", "1"}, {"follow", "1"}} {
		t.Run(way.how, func(t *testing.T) {
			sqlExec(t, p.target, "SET GLOBAL local_infile = "+way.localInfile)
			o := o
			if way.how == "wire" {
				o.From = overTheWire(t, root(p.from), wire.Zstd)
			}
			report, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range report.Tables {
				if v := table.Verify; v.Mismatches() != 0 || v.Rows != table.Rows || v.Chunks == 0 {
					t.Errorf("%s is verified as %+v", table.Source, v)
				}
			}
			if way.how == "follow" || way.how == "wire" {
				o.Verify = false
				p.followZoo(t, o)
			}
			for _, spec := range o.Tables {
				p.same(t, spec.Name)
			}
			for i, z := range zoo {
				t.Run(z.name, func(t *testing.T) {
					v := "`" + z.name + "`"
					stored := fmt.Sprintf("SELECT id, HEX(%s), %s IS NULL, %s, hidden, g, last FROM zoo.zoo%d ORDER BY id", v, v, bits(v, z.column), i/zooColumns)
					if diff := cmp.Diff(read(t, p.source, stored), read(t, p.target, stored)); diff != "" {
						t.Error(diff)
					}
				})
			}
			sqlExec(t, p.target, "DROP DATABASE zoo", "DROP DATABASE _tare", "SET GLOBAL local_infile = 1")
		})
	}
}

// followZoo changes each copied row and follows the changes: the target's rows then come from the binary log.
func (p *pair) followZoo(t *testing.T, o copier.Options) {
	t.Helper()
	for _, spec := range o.Tables {
		sqlExec(t, p.source, "UPDATE "+spec.Name+" SET hidden = hidden + 1")
		sqlExec(t, p.target, "UPDATE zoo."+spec.Name+" SET last = 'lost'")
	}
	o.Follow, o.UntilCaughtUp = true, true
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// bits returns an expression for the values that HEX does not show exactly.
func bits(v, column string) string {
	switch {
	case strings.HasPrefix(column, "FLOAT"), strings.HasPrefix(column, "DOUBLE"):
		return v + " * 1e0" // the shortest text that denotes exactly these bits
	case strings.HasPrefix(column, "ENUM"), strings.HasPrefix(column, "SET"):
		return v + " + 0"
	}
	return "CAST(" + v + " AS BINARY)"
}
