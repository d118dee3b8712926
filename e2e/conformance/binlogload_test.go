//go:build e2e

package conformance

import (
	"context"
	"fmt"
	"strings"
)

// A logColumn is a type of the generated tables, and an expression for a random value of it.
type logColumn struct{ kind, value string }

// Expressions of random values.
const (
	randomBytes = "REPEAT(UNHEX(LEFT(SHA2(RAND(), 256), 32)), FLOOR(RAND() * 3))"
	randomText  = `ELT(1 + FLOOR(RAND() * 9), '', 'a', 'it''s', 'back\\slash', 'größe', '\0\b\t\n\f\r\Z\"', SHA2(RAND(), 256), REPEAT('long ', RAND() * 50), NULL)`
	randomDay   = "'1000-01-01' + INTERVAL FLOOR(RAND() * 3000000) DAY"
	random64    = "CAST(CONV(SUBSTR(SHA2(RAND(), 256), 1, 16), 16, 10) AS UNSIGNED)"
)

// logTables returns tables that have each type of a server: few columns each, since the servers' programs print 100 bytes
// per value.
func (s *suiteDir) logTables() [][]logColumn {
	tables := [][]logColumn{
		{
			{"TINYINT", "FLOOR(RAND() * 256) - 128"}, {"SMALLINT UNSIGNED", "FLOOR(RAND() * 65536)"}, {"MEDIUMINT", "FLOOR(RAND() * 16777216) - 8388608"},
			{"INT", "FLOOR(RAND() * 4294967296) - 2147483648"}, {"BIGINT", "CAST(" + random64 + " AS SIGNED)"}, {"BIGINT UNSIGNED", random64},
			{"FLOAT", "(RAND() - 0.5) * POW(10, FLOOR(RAND() * 70) - 35)"}, {"DOUBLE", "(RAND() - 0.5) * POW(10, FLOOR(RAND() * 600) - 300)"},
		}, {
			{"DECIMAL(65,30)", "CONCAT(IF(RAND() < 0.5, '-', ''), " + random64 + ", '.', " + random64 + ")"}, {"DECIMAL(5,0)", "FLOOR(RAND() * 199999) - 99999"},
			{"DECIMAL(20,20)", "RAND() - 0.5"}, {"DECIMAL(10,3)", "(RAND() - 0.5) * POW(10, FLOOR(RAND() * 8))"}, {"YEAR", "IF(RAND() < 0.1, 0, 1901 + FLOOR(RAND() * 255))"},
			{"BIT(1)", "FLOOR(RAND() * 2)"}, {"BIT(17)", "FLOOR(RAND() * 131072)"}, {"BIT(64)", random64},
		}, {
			{"DATE", randomDay}, {"TIME", "SEC_TO_TIME((RAND() - 0.5) * 6040798)"}, {"TIME(2)", "SEC_TO_TIME((RAND() - 0.5) * 6040798)"}, {"TIME(5)", "SEC_TO_TIME((RAND() - 0.5) * 20)"},
			{"DATETIME", "TIMESTAMP(" + randomDay + ") + INTERVAL RAND() * 86400 SECOND"}, {"DATETIME(3)", "IF(RAND() < 0.1, 0, " + randomDay + " + INTERVAL RAND() * 86400e6 MICROSECOND)"},
			{"TIMESTAMP NULL", "FROM_UNIXTIME(1 + RAND() * 2147483646)"}, {"TIMESTAMP(6) NULL", "IF(RAND() < 0.1, 0, FROM_UNIXTIME(1 + RAND() * 2147483646))"},
		}, {
			{"CHAR(10)", "LEFT(" + randomText + ", 10)"}, {"CHAR(100) CHARACTER SET utf8mb4", randomText}, {"BINARY(20)", "LEFT(" + randomBytes + ", 20)"}, {"VARCHAR(50) CHARACTER SET utf8mb4", "LEFT(" + randomText + ", 50)"},
			{"VARCHAR(1000)", randomText}, {"VARBINARY(300)", randomBytes}, {"ENUM('a','b','c')", "1 + FLOOR(RAND() * 3)"}, {"SET('1','2','3','4','5','6','7','8','9')", "FLOOR(RAND() * 512)"},
		}, {
			{"TINYTEXT", randomText}, {"TEXT CHARACTER SET utf8mb4", randomText}, {"MEDIUMTEXT", randomText}, {"LONGTEXT", randomText},
			{"TINYBLOB", randomBytes}, {"BLOB", randomBytes}, {"MEDIUMBLOB", randomBytes}, {"LONGBLOB", randomBytes},
		},
	}
	document := "JSON_OBJECT('n', FLOOR(RAND() * 1e6) - 5e5, 'd', RAND() * POW(10, FLOOR(RAND() * 40) - 20), 's', " + randomText + ", 'a', JSON_ARRAY(true, NULL, SHA2(RAND(), 256), " + random64 + "))"
	if s.mysql {
		return append(tables, []logColumn{
			{"JSON", document}, {"JSON", "JSON_OBJECT('t', CAST(SEC_TO_TIME((RAND() - 0.5) * 9e5) AS TIME(6)), 'd', CAST(" + randomDay + " AS DATE), 'e', TIMESTAMP(" + randomDay + ") + INTERVAL RAND() * 86400 SECOND, 'c', CAST(RAND() * 100 AS DECIMAL(20,10)), 'b', " + randomBytes + ")"},
			{"VECTOR(2)", "UNHEX(CONCAT('0000', LPAD(HEX(FLOOR(RAND() * 32000)), 4, '0'), '0000803F'))"}, {"INT AS (1) VIRTUAL", ""}, {"INT AS (2) STORED", ""},
		})
	}
	return append(tables, []logColumn{
		{"JSON", document}, {"UUID", "UUID()"}, {"INET6", "INET6_NTOA(UNHEX(LEFT(SHA2(RAND(), 256), 32)))"}, {"INET4", "INET_NTOA(RAND() * 4294967295)"},
		{"GEOMETRY", "POINT(RAND() * 100 - 50, RAND())"}, {"VARCHAR(300) COMPRESSED", randomText}, {"BLOB COMPRESSED", randomBytes}, {"INT AS (1) VIRTUAL", ""}, {"INT AS (2) STORED", ""},
	})
}

// generatedRows are the most statements of one round of generated statements, each with a row event.
const generatedRows = 50_000

// generate compares logs of random statements, in equal parts for each form, until about enough row events have been compared:
// partial updates are not counted.
func (l *logRun) generate(ctx context.Context, forms []logForm) error {
	compared, generated := 0, make(map[string]int)
	for _, r := range l.done {
		compared += r.RowEvents
		if strings.HasPrefix(r.Name, "generated ") {
			generated[r.Form] += r.RowEvents
		}
	}
	share := *flagRowEvents - compared
	for _, n := range generated {
		share += n
	}
	share = share/len(forms) + 1 // of each form
	size := min(generatedRows, share)
	for i, form := range forms {
		for round := 0; generated[form.name] < share; round++ {
			name := fmt.Sprintf("generated %d, %d.%d", l.seed, i, round)
			if l.done[name] != nil {
				continue
			}
			if err := l.start(ctx, form, nil); err != nil {
				return err
			}
			if err := l.load(ctx, l.seed+uint64(round), size); err != nil {
				return err
			}
			if err := l.compare(ctx, form, name); err != nil {
				return err
			}
			if l.done[name].RowEvents == 0 {
				return fmt.Errorf("%s has no row events", name)
			}
			generated[form.name] += l.done[name].RowEvents
			compared += l.done[name].RowEvents
			l.t.Logf("%s: %d row events compared", l.suite.name, compared)
		}
		if err := l.rig.close(); err != nil {
			return err
		}
	}
	return nil
}

// load runs statements on tables of all types, from a procedure.
func (l *logRun) load(ctx context.Context, seed uint64, statements int) error {
	conn, err := l.rig.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	list := []string{"SET NAMES utf8mb4", "SET sql_mode = ''", fmt.Sprintf("SET rand_seed1 = %d, rand_seed2 = %d", seed%1e9, seed/1e9%1e9), "DROP DATABASE IF EXISTS loaded", "CREATE DATABASE loaded", "USE loaded"}
	var body strings.Builder
	body.WriteString("CREATE PROCEDURE p(n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO IF i % 500 = 0 THEN COMMIT; START TRANSACTION; END IF; CASE i DIV 3 % TABLES ")
	tables := l.suite.logTables()
	for k, columns := range tables {
		var defined, names, values, changes []string
		for c, column := range columns {
			name := fmt.Sprintf("c%d", c)
			defined = append(defined, name+" "+column.kind)
			if column.value == "" {
				continue
			}
			value := "IF(RAND() < 0.1, NULL, " + column.value + ")"
			names, values = append(names, name), append(values, value)
			if c%2 == 0 {
				changes = append(changes, name+" = "+value)
			}
		}
		list = append(list, fmt.Sprintf("CREATE TABLE t%d (id INT PRIMARY KEY, %s) ENGINE=InnoDB", k, strings.Join(defined, ", ")))
		if l.suite.mysql && k == len(tables)-1 { // with partial values
			changes[0] = "c0 = JSON_SET(c0, '$.n', i)"
		}
		fmt.Fprintf(&body, "WHEN %d THEN CASE i %% 3 WHEN 0 THEN INSERT INTO t%d (id, %s) VALUES (i, %s); WHEN 1 THEN UPDATE t%d SET %s WHERE id = i - 1; ELSE IF RAND() < 0.5 THEN DELETE FROM t%d WHERE id = i - 2; ELSE UPDATE t%d SET id = -id WHERE id = i - 2; END IF; END CASE; ",
			k, k, strings.Join(names, ", "), strings.Join(values, ", "), k, strings.Join(changes, ", "), k, k)
	}
	body.WriteString("END CASE; SET i = i + 1; END WHILE; COMMIT; END")
	list = append(list, strings.ReplaceAll(body.String(), "TABLES", fmt.Sprint(len(tables))), fmt.Sprintf("CALL p(%d)", statements), "DROP DATABASE loaded")
	for _, statement := range list {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("run %.200s: %w", statement, err)
		}
	}
	return nil
}
