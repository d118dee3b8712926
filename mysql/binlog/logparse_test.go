package binlog

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// lookAt parses a statement in schema f, whose table t is followed.
func lookAt(r *logReader, variables []byte, schema, sql string) statement {
	return r.classify(&query{schema: []byte(schema), variables: variables, text: []byte(sql)})
}

// TestParseFailsClosed parses statements that affect the followed table f.t other than by their first
// keyword.
func TestParseFailsClosed(t *testing.T) {
	r, _ := newLogReader(described(intColumn), "")
	r.maria = true
	for sql, want := range map[string]statementKind{
		"SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE TABLE t":                                  statementSchema,
		"SET STATEMENT max_statement_time=ABS(1 + (2)), join_cache_level=3 FOR DROP TABLE u, f.t": statementSchema,
		"set statement a=1 for set statement b=2 for alter table t modify id bigint":              statementSchema,
		"SET STATEMENT a=SUBSTR('x' FROM 1 FOR 2) FOR DELETE FROM g.u":                            statementRows,
		"SET STATEMENT a=1 FOR ALTER TABLE u ADD x INT":                                           statementOther,
		"SET STATEMENT sql_mode='' FOR DROP TABLE u":                                              statementUnknown,
		"SET @@global.x = 1":                                                                 statementUnknown,
		"SET PASSWORD FOR u = 'x'":                                                           statementOther,
		"CREATE OR REPLACE DATABASE f":                                                       statementSchema,
		"CREATE OR REPLACE SCHEMA g":                                                         statementOther,
		"CREATE DATABASE IF NOT EXISTS f":                                                    statementOther,
		"ALTER DATABASE `#mysql50#f` UPGRADE DATA DIRECTORY NAME":                            statementSchema,
		"RENAME TABLE a TO b, t TO c":                                                        statementSchema,
		"RENAME TABLES a TO b, c TO f.t":                                                     statementSchema,
		"RENAME TABLE IF EXISTS a WAIT 5 TO b, c NOWAIT TO d":                                statementOther,
		"RENAME TABLE a TO b TO c":                                                           statementUnknown,
		"DROP TABLE IF EXISTS a, b, g.t, t":                                                  statementSchema,
		"DROP TABLE a, g.t":                                                                  statementOther,
		"DROP TABLES `t`":                                                                    statementSchema,
		"DROP TEMPORARY TABLE t":                                                             statementOther,
		"TRUNCATE .t":                                                                        statementSchema,
		"/*!50000 TRUNCATE */ /*M!100100 TABLE */ f /* x */ . t":                             statementSchema,
		"ALTER TABLE u CONVERT TABLE t TO PARTITION p VALUES LESS THAN (5)":                  statementSchema,
		"ALTER TABLE u CONVERT PARTITION p TO TABLE t":                                       statementSchema,
		"ALTER TABLE u CONVERT PARTITION p TO TABLE v":                                       statementOther,
		"ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4":                                     statementOther,
		"ALTER TABLE u ADD FOREIGN KEY (x) REFERENCES t (id)":                                statementOther,
		"ALTER TABLE m UNION = (a, t)":                                                       statementSchema,
		"CREATE TABLE m (id INT) ENGINE=MERGE UNION=(a, f.t) INSERT_METHOD=LAST":             statementSchema,
		"CREATE TABLE m (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5))": statementOther,
		"CREATE TABLE m (id INT, t INT REFERENCES f.t (id), g INT AS (id + 1))":              statementOther,
		"CREATE TABLE m (LIKE t)":                                                            statementOther,
		"CREATE TABLE g.m (SELECT f.change() AS x)":                                          statementRows,
		"CREATE TEMPORARY TABLE m SELECT f.change() AS x":                                    statementRows,
		"CREATE TABLE m VALUES (f.change())":                                                 statementRows,
		"CREATE TABLE m TABLE v":                                                             statementRows,
		"CREATE SEQUENCE s":                                                                  statementOther,
		"CREATE OR REPLACE SEQUENCE t":                                                       statementUnknown,
		"CREATE DEFINER=`a b`@'%' PROCEDURE p() BEGIN DELETE FROM t; END":                    statementOther,
		"CREATE OR REPLACE ALGORITHM=MERGE DEFINER=CURRENT_USER() SQL SECURITY INVOKER VIEW v AS SELECT 1": statementOther,
		"CREATE AGGREGATE FUNCTION IF NOT EXISTS x RETURNS INT SONAME 'x.so'":                              statementOther,
		"CREATE DEFINER=root@localhost EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t":                   statementOther,
		"CREATE SPATIAL REFERENCE SYSTEM 4711 NAME 'x'":                                                    statementOther,
		"CREATE OR REPLACE UNIQUE INDEX IF NOT EXISTS i USING BTREE ON f.t (id)":                           statementSchema,
		"CREATE THING t":                            statementUnknown,
		"ANALYZE TABLE t PERSISTENT FOR ALL":        statementOther,
		"ANALYZE FORMAT=JSON UPDATE g.u SET a = 1":  statementRows,
		"REPAIR NO_WRITE_TO_BINLOG TABLE u, t":      statementSchema,
		"OPTIMIZE LOCAL TABLE t":                    statementOther,
		"LOAD INDEX INTO CACHE t":                   statementOther,
		"LOAD DATA LOCAL INFILE 'x' INTO TABLE g.u": statementRows,
		"WITH x AS (SELECT 1) DELETE FROM g.u":      statementRows,
		"(SELECT f.change())":                       statementUnknown,
		"DO f.change()":                             statementRows,
		"IMPORT TABLE FROM 'x.sdi'":                 statementUnknown,
		"XA PREPARE 'x'":                            statementUnknown,
		"BEGIN NOT ATOMIC DELETE FROM t; END":       statementUnknown,
		"COMMIT AND CHAIN":                          statementUnknown,
		"DROP TABLE 't'":                            statementUnknown,
		"\\'":                                       statementUnknown,
		"-- nothing":                                statementOther,
	} {
		if got := lookAt(r, nil, "f", sql); got.kind != want {
			t.Errorf("%q is of kind %d, want %d", sql, got.kind, want)
		}
	}
	if got := lookAt(r, nil, "f", "ALTER TABLE a"+strings.Repeat(" ADD x INT,", maxSQLTokens/4)+" RENAME TO t"); got.kind != statementUnknown {
		t.Errorf("a statement with too many tokens is of kind %d", got.kind)
	}
}

// TestParseModes parses statements with the settings of the session that wrote them.
func TestParseModes(t *testing.T) {
	mode := func(bits uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{varSQLMode}, bits) }
	charset := func(id uint16) []byte {
		catalog := []byte{varFlags, 0, 0, 0, 0, varCatalog, 3, 's', 't', 'd', varAutoIncrement, 1, 0, 1, 0, varCharset}
		return append(binary.LittleEndian.AppendUint16(catalog, id), 0, 0, 0, 0)
	}
	umlaut := described(intColumn)
	umlaut.name = "tü"
	for _, tt := range []struct {
		variables []byte
		table     followedTable
		maria     bool
		sql       string
		want      statementKind
	}{
		{mode(modeANSIQuotes), described(intColumn), false, `DROP TABLE "t"`, statementSchema},
		{nil, described(intColumn), false, `DROP TABLE "t"`, statementUnknown},
		{mode(modeNoBackslashEscapes), described(intColumn), false, `ALTER TABLE u COMMENT '\', RENAME TO t -- '`, statementSchema},
		{nil, described(intColumn), false, `ALTER TABLE u COMMENT '\', RENAME TO t -- '`, statementOther},
		{charset(45), umlaut, false, "DROP TABLE tü", statementSchema},
		{charset(45), umlaut, false, "DROP TABLE tö", statementOther},
		{charset(8), umlaut, false, "DROP TABLE t\xf6", statementSchema}, // latin1, which may be any name
		{charset(8), umlaut, false, "DROP TABLE to", statementOther},
		{charset(28), described(intColumn), false, "ALTER TABLE `u\x81`` RENAME TO t", statementSchema}, // gbk
		{charset(60_000), described(intColumn), false, "DROP TABLE u", statementUnknown},
		{nil, described(intColumn), true, "DROP TABLE u /*M!100100 , t */", statementSchema},
		{nil, described(intColumn), false, "DROP TABLE u /*M!100100 , t */", statementUnknown}, // MariaDB or MySQL
		{nil, described(intColumn), false, "DROP TABLE u /*M!100100 */", statementOther},
	} {
		r, _ := newLogReader(tt.table, "")
		r.maria = tt.maria
		if got := lookAt(r, tt.variables, "f", tt.sql); got.kind != tt.want {
			t.Errorf("%q is of kind %d, want %d", tt.sql, got.kind, tt.want)
		}
	}
}

// TestIgnoredStatement continues after a statement that the operator has declared harmless, and after no
// other.
func TestIgnoredStatement(t *testing.T) {
	statement := func(r *logReader, sql string) error {
		log := &logBuilder{offset: uint32(r.offset)}
		_, err := r.read(log.event(eventQuery, queryBody("g", sql)))
		return err
	}
	r, _ := newLogReader(described(intColumn), "")
	err := statement(r, "UPDATE g.u SET secret = 'word' WHERE id = 7")
	stop, ok := errors.AsType[*StopError](err)
	if !ok || stop.Reason != StopStatement || stop.SQL != "UPDATE g.u SET secret = ? WHERE id = ?" || strings.Contains(err.Error(), "word") {
		t.Fatalf("%v", err)
	}
	digest, err := sqldigest.Parse(stop.Digest)
	if err != nil || !strings.Contains(stop.Error(), "option ignore-statement "+stop.Digest) {
		t.Fatalf("%v: %v", stop, err)
	}
	r, _ = newLogReader(described(intColumn), "")
	r.ignore = []sqldigest.Digest{digest}
	if err := statement(r, "update  g.u SET secret='other' WHERE id = 8"); err != nil {
		t.Error(err)
	}
	if err := statement(r, "UPDATE g.u SET other = 1"); err == nil {
		t.Error("another statement is passed over")
	}
}
