//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Values that no line of a redacted log may contain: as a word, in quotes, and as a number.
var errorSecrets = [...]string{"'S3CRETzz'", "'1 S3CRET \\'x\\''", "737373737373737373737373", "-7.37373737373737e299"}

var (
	errorMarker = regexp.MustCompile(`(?i)S3CRET|7\.?3737373737`)
	errorTypes  = []string{
		"TINYINT", "INT UNSIGNED", "BIGINT", "DECIMAL(3,1)", "DOUBLE", "BIT(3)", "DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR", "CHAR(2)", "VARCHAR(3)", "BINARY(2)",
		"TINYTEXT", "ENUM('a')", "SET('a')", "JSON", "POINT", "GEOMETRY", "UUID", "INET4", "INET6", "BOOL", "VECTOR(2)",
	}
)

// errorStatements yields statements of which most fail, with a secret at each $.
func errorStatements(yield func(string)) {
	for _, typ := range errorTypes {
		yield("CREATE TABLE IF NOT EXISTS errs.t (k VARCHAR(40) PRIMARY KEY, v " + typ + ")")
		yield("INSERT INTO errs.t VALUES ('a', $)")
		yield("INSERT INTO errs.t SELECT $, $ FROM errs.two")
		yield("INSERT INTO errs.t (v) VALUES (CAST($ AS DATE))")
		yield("UPDATE errs.t SET v = $ WHERE k > $")
		yield("INSERT INTO errs.t VALUES ($, NULL), ($, NULL)")
		yield("ALTER TABLE errs.t ALTER v SET DEFAULT $")
		yield("SELECT CAST($ AS " + typ + ")")
		yield("DROP TABLE errs.t")
		yield("CREATE TABLE errs.d (v " + typ + " DEFAULT $)")
		yield("CREATE TABLE errs.g (v " + typ + " AS ($) STORED, w INT CHECK (w > $))")
		yield("INSERT INTO errs.g (w) VALUES ($)")
		yield("DROP TABLE IF EXISTS errs.d, errs.g")
	}
	for _, f := range errorFunctions {
		for _, args := range []string{"$", "$, $", "$, $, $", "1, $", "$, 1, $", "$, $, $, $"} {
			yield("SELECT " + f + "(" + args + ")")
			yield("INSERT INTO errs.n SELECT " + f + "(" + args + ")")
		}
	}
	for _, stmt := range errorClauses {
		yield(stmt)
	}
}

var errorFunctions = strings.Fields(`ABS ADDDATE ADDTIME AES_ENCRYPT ASCII BIN_TO_UUID CHAR CHARSET COMPRESS CONVERT_TZ CRC32 DATEDIFF DATE_FORMAT DATE_SUB
	DEFAULT DES_ENCRYPT ELT EXP EXPORT_SET EXTRACTVALUE FIELD FORMAT FROM_BASE64 FROM_DAYS FROM_UNIXTIME GET_FORMAT GROUP_CONCAT GTID_SUBSET INET6_ATON INET_ATON IS_UUID
	JSON_ARRAY_APPEND JSON_ARRAY_INSERT JSON_CONTAINS JSON_CONTAINS_PATH JSON_EXTRACT JSON_INSERT JSON_KEYS JSON_LENGTH JSON_MERGE_PATCH JSON_OBJECT JSON_OVERLAPS JSON_PRETTY
	JSON_REMOVE JSON_SCHEMA_VALID JSON_SEARCH JSON_SET JSON_STORAGE_SIZE JSON_TYPE JSON_UNQUOTE JSON_VALUE LAST_DAY LN LOAD_FILE LOG LPAD MAKEDATE MAKETIME MATCH
	MOD MONTH NAME_CONST NEXTVAL NTILE PERIOD_ADD POLYGON LINESTRING POW RANDOM_BYTES REGEXP_INSTR REGEXP_LIKE REGEXP_REPLACE REGEXP_SUBSTR REPEAT ROW RPAD SEC_TO_TIME SHA2
	STR_TO_DATE ST_ASGEOJSON ST_ASTEXT ST_BUFFER ST_DISTANCE ST_GEOHASH ST_GEOMFROMGEOJSON ST_GEOMFROMTEXT ST_GEOMFROMWKB ST_LATITUDE ST_LONGITUDE ST_POINTFROMGEOHASH ST_SIMPLIFY
	ST_SRID ST_TRANSFORM ST_VALIDATE ST_X SUBTIME TIMEDIFF TIMESTAMPADD TIME_FORMAT TO_BASE64 TO_CHAR UNCOMPRESS UPDATEXML UUID_TO_BIN VALIDATE_PASSWORD_STRENGTH WEEK WEIGHT_STRING
	YEARWEEK no_such_function errs.no_such VEC_FROMTEXT STRING_TO_VECTOR VEC_DISTANCE SUM AVG STD BIT_AND MAX`)

var errorClauses = strings.Split(`SELECT * FROM (SELECT $, $) x
CREATE TABLE errs.c SELECT $, $
CREATE VIEW errs.w AS SELECT $, $
CREATE VIEW errs.w (a) AS SELECT $, 1, 2
SELECT $ FROM errs.no_such
SELECT no_such FROM errs.two WHERE v = $
SELECT $ nonsense nonsense
SELEC $
SELECT $ LIMIT $
SELECT $ ORDER BY $ LIMIT -1
SELECT 1 UNION SELECT $, $
SELECT ($, $) = (SELECT $)
SELECT * FROM errs.two WHERE v = (SELECT $ UNION SELECT 1)
SELECT (SELECT v FROM errs.two WHERE v <> $)
SELECT $ REGEXP '[' , 'a' REGEXP $
SELECT 'a' REGEXP '[S3CRETzz'
SELECT 'a' REGEXP '(S3CRETzz'
SELECT JSON_EXTRACT('{}', '$.S3CRET[')
SELECT JSON_EXTRACT('{S3CRET', '$')
SELECT JSON_EXTRACT('["S3CRETzz", ', '$[0]')
SELECT 9223372036854775807 + 7373737373737, EXP(7373737373737)
SELECT -9223372036854775808 - 7373737373737
SELECT 18446744073709551615 * 7373737373737
SELECT CAST($ AS DATETIME) + INTERVAL $ DAY
SELECT MATCH(v) AGAINST($) FROM errs.two
SELECT EXTRACTVALUE('<a><S3CRETzz', '/a'), EXTRACTVALUE('<a/>', '/S3CRETzz[')
SELECT ST_GEOMFROMTEXT('POINT(S3CRETzz)'), ST_GEOMFROMTEXT('POINT(1 1)', 737373737)
SELECT CONVERT($ USING no_such)
SELECT $ COLLATE no_such
SELECT _latin1'S3CRETzz' COLLATE utf8mb4_bin
SELECT _utf8mb4'S3CRETzz' COLLATE utf8mb4_bin = _utf8mb4'S3CRETzz' COLLATE utf8mb4_general_ci
INSERT INTO errs.one VALUES ($)
INSERT INTO errs.one VALUES ($), ($)
INSERT INTO errs.one VALUES ($, $)
INSERT INTO errs.one (no_such) VALUES ($)
INSERT INTO errs.one (v, v) VALUES ($, $)
REPLACE INTO errs.child VALUES ($)
INSERT INTO errs.child VALUES ($)
DELETE FROM errs.parent WHERE v = 'a' OR v = $
UPDATE errs.parent SET v = $ WHERE v = 'a'
INSERT INTO errs.checked VALUES ($)
INSERT INTO errs.two SELECT $ FROM errs.two WHERE no_such($)
INSERT INTO errs.notnull (v) SELECT NULLIF($, $)
INSERT INTO errs.part VALUES (737373737)
ALTER TABLE errs.part ADD PARTITION (PARTITION p1 VALUES IN (737373737373))
CREATE TABLE errs.p2 (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN ($))
CREATE TABLE errs.p3 (a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN ($), PARTITION p1 VALUES IN ($))
CREATE TABLE errs.p4 (a DATE) PARTITION BY RANGE COLUMNS (a) (PARTITION p0 VALUES LESS THAN ($))
CREATE TABLE errs.e (v ENUM($, $))
CREATE TABLE errs.e (v SET($, $, 'a,S3CRET'))
CREATE TABLE errs.e (v INT COMMENT $) COMMENT $ CONNECTION $ DATA DIRECTORY '/S3CRETzz'
CREATE TABLE errs.e (v INT) DATA DIRECTORY 'S3CRETzz'
CREATE TABLE errs.e (v INT) ENGINE 'S3CRETzz'
CREATE TABLE errs.e (v INT) COMPRESSION $
CREATE TABLE errs.e (v INT) ENCRYPTION $
CREATE TABLE errs.e (v INT ENGINE_ATTRIBUTE $)
CREATE TABLE errs.e (v INT COLLATE 'S3CRETzz')
CREATE TABLE errs.e (v INT) DEFAULT CHARSET 'S3CRETzz'
CREATE TABLESPACE ts ADD DATAFILE 'S3CRETzz'
CREATE USER 'S3CRETzz'@'%' IDENTIFIED BY $ REQUIRE CIPHER $ WITH MAX_QUERIES_PER_HOUR $
CREATE USER 'S3CRETzz'@'%' IDENTIFIED WITH 'S3CRETzz' BY $
CREATE USER app@'%' IDENTIFIED BY $
ALTER USER 'S3CRETzz'@'%' IDENTIFIED BY $
DROP USER 'S3CRETzz'@'%'
SET PASSWORD FOR 'S3CRETzz'@'%' = $
GRANT SELECT ON errs.* TO 'S3CRETzz'@'S3CRET host'
SHOW GRANTS FOR 'S3CRETzz'@'%'
SET ROLE 'S3CRETzz'
SET DEFAULT ROLE 'S3CRETzz' TO app
SET NAMES 'S3CRETzz'
SET CHARACTER SET 'S3CRETzz'
SET sql_mode = $
SET time_zone = $
SET lc_messages = 'S3CRETzz'
SET SESSION binlog_format = $
SET GLOBAL general_log_file = '/S3CRETzz/x'
SET GLOBAL no_such = $
SET TRANSACTION ISOLATION LEVEL 'S3CRETzz'
SET @@session.sql_mode = ('S3CRETzz')
SET optimizer_switch = 'S3CRETzz=on'
SET timestamp = $
SET max_statement_time = $
SET @x = $, no_such = $
LOAD DATA INFILE '/S3CRETzz' INTO TABLE errs.two
LOAD XML INFILE '/S3CRETzz' INTO TABLE errs.two
SELECT $ INTO OUTFILE '/etc/passwd'
SELECT $ INTO OUTFILE '/S3CRETzz/x'
SELECT $ INTO DUMPFILE '/S3CRETzz/x'
SELECT $, $ INTO @a
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = $
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = $, MYSQL_ERRNO = 1062
SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = 'Duplicate entry \'S3CRETzz\' for key', MYSQL_ERRNO = 1062
SIGNAL SQLSTATE 'S3CRE'
SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 737373737373
PREPARE s FROM $
PREPARE s FROM 'SELECT S3CRETzz('
EXECUTE IMMEDIATE $
EXECUTE no_such USING @a
KILL $
KILL 737373737373
XA START 'S3CRETzz', 'S3CRETzz', 1
XA COMMIT 'S3CRETzz'
XA START 'S3CRETzz012345678901234567890123456789012345678901234567890123456789'
CALL errs.no_such($)
CALL errs.p($, $)
CALL errs.p($)
CALL errs.sig($)
SELECT errs.f($)
SELECT errs.f($, $)
SELECT errs.fi($)
PURGE BINARY LOGS TO 'S3CRETzz'
PURGE BINARY LOGS BEFORE $
CHANGE MASTER TO MASTER_HOST = $, MASTER_PASSWORD = $
CHANGE REPLICATION SOURCE TO SOURCE_HOST = $, SOURCE_PASSWORD = $
SHOW BINLOG EVENTS IN 'S3CRETzz'
BINLOG 'S3CRETzz'
INSTALL PLUGIN p SONAME 'S3CRETzz'
INSTALL COMPONENT 'file://S3CRETzz'
CREATE FUNCTION u RETURNS STRING SONAME 'S3CRETzz.so'
CREATE SERVER s FOREIGN DATA WRAPPER 'S3CRETzz' OPTIONS (PASSWORD 'S3CRETzz')
CREATE EVENT errs.ev ON SCHEDULE EVERY $ DAY STARTS $ DO SELECT $
CREATE EVENT errs.ev ON SCHEDULE AT '1999-01-01' DO SELECT $
CREATE TRIGGER errs.tr BEFORE INSERT ON errs.no_such FOR EACH ROW SET @x = $
CREATE PROCEDURE errs.pp() BEGIN DECLARE x INT DEFAULT $; SELECT no_such.; END
CREATE FUNCTION errs.ff() RETURNS INT RETURN 'S3CRETzz' + no_such
HELP 'S3CRETzz'
GET DIAGNOSTICS CONDITION 737373737 @x = MESSAGE_TEXT
HANDLER errs.no_such READ k = ($)
USE errs_no_such
DO GET_LOCK('S3CRETzz0123456789012345678901234567890123456789012345678901234567890', 0)
DO RELEASE_LOCK(CONCAT('S3CRETzz', REPEAT('x', 100)))
SELECT * FROM JSON_TABLE($, '$[*]' COLUMNS (a INT PATH '$' ERROR ON ERROR)) t
SELECT * FROM JSON_TABLE('["S3CRETzz"]', '$[*]' COLUMNS (a INT PATH '$' ERROR ON ERROR)) t
SELECT * FROM JSON_TABLE('[1]', 'S3CRETzz' COLUMNS (a INT PATH 'S3CRETzz')) t
SELECT $ MEMBER OF ($)
WITH x AS (SELECT $) SELECT $ FROM y
SELECT v FROM errs.two GROUP BY $ HAVING no_such = $
SELECT VALUES($) FROM errs.two
SELECT INTERVAL $ DAY
SELECT DATE 'S3CRETzz', TIME 'S3CRETzz', TIMESTAMP 'S3CRETzz'
SELECT x'S3', b'S3', N'S3CRETzz' nonsense nonsense
SELECT NTH_VALUE(v, $) OVER () FROM errs.two
SELECT LAG(v, $) OVER () FROM errs.two
SELECT SUM(v) OVER (ROWS $ PRECEDING) FROM errs.two
SELECT ROW_NUMBER() OVER (RANGE BETWEEN $ PRECEDING AND CURRENT ROW) FROM errs.two
SELECT /*+ S3CRETzz('S3CRETzz') */ $ FROM errs.no_such
SELECT "S3CRET
SELECT 'S3CRETzz
SELECT $ /*`, "\n")

// TestErrorTexts provokes errors of many numbers by the statements above, with easily recognized values: the
// redacted log contains none of them, and it contains names.
func TestErrorTexts(t *testing.T) {
	for _, name := range fuzzServers {
		t.Run(name, func(t *testing.T) {
			addr := fuzzServer(t, name)
			direct := open(t, addr, "")
			direct.SetMaxOpenConns(1)
			for _, stmt := range []string{
				"DROP DATABASE IF EXISTS errs", "CREATE DATABASE errs", "USE errs", "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
				"CREATE TABLE one (v VARCHAR(40) PRIMARY KEY)", "INSERT INTO one VALUES ('S3CRETzz'), ('1 S3CRET ''x''')", "CREATE TABLE two (v VARCHAR(40))", "INSERT INTO two VALUES ('S3CRETzz'), ('b')",
				"CREATE TABLE n (v INT)", "CREATE TABLE notnull (v VARCHAR(40) NOT NULL, w INT NOT NULL)", "CREATE TABLE parent (v VARCHAR(40) PRIMARY KEY)", "INSERT INTO parent VALUES ('a')",
				"CREATE TABLE child (v VARCHAR(40), FOREIGN KEY (v) REFERENCES parent (v))", "INSERT INTO child VALUES ('a')", "CREATE TABLE checked (v VARCHAR(40), CHECK (v = 'S3CRETcheck'))",
				"CREATE TABLE part (a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1))", "CREATE PROCEDURE p(x INT) SELECT x",
				"CREATE PROCEDURE sig(x VARCHAR(40)) SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = x, MYSQL_ERRNO = 1452", "CREATE FUNCTION f(x VARCHAR(40)) RETURNS INT DETERMINISTIC RETURN x + 0",
				"CREATE FUNCTION fi(x INT) RETURNS INT DETERMINISTIC RETURN x",
			} {
				_, _ = direct.Exec(stmt) // not every server supports all of them
			}
			log := filepath.Join(t.TempDir(), "query.log")
			p := startTare(t, addr, "--log-file", log)
			failed := 0
			for _, locale := range []string{"en_US", "de_DE"} {
				failed += provoke(t, p.addr, locale)
			}
			p.stop(t)
			numbers, shown := checkErrorLog(t, log)
			t.Logf("%d errors of %d numbers, %d of them shown with a text", failed, len(numbers), shown)
			if least := map[string]int{"MariaDB": 75, "MySQL": 75, "TiDB": 40}[name]; len(numbers) < least {
				t.Errorf("only %d numbers of errors were reached", len(numbers))
			}
		})
	}
}

// provoke sends all statements on one session, or on a new one once the server has closed it.
func provoke(t *testing.T, addr, locale string) (failed int) {
	var c *mysqlconn.Client
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	send := func(stmt string) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if c == nil {
			var err error
			c, err = mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, Database: "errs"})
			must(t, err)
			for _, set := range []string{"SET lc_messages = '" + locale + "'", "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'"} {
				_, _ = c.Exec(ctx, set)
			}
		}
		_, err := c.Query(ctx, stmt, func(mysqlwire.TextRow) error { return nil })
		if _, ok := errors.AsType[*mysqlconn.ServerError](err); ok {
			failed++
		} else if err != nil {
			t.Logf("the session ended: %s: %v", stmt, err)
			_ = c.Close()
			c = nil
		}
	}
	errorStatements(func(form string) {
		if !strings.Contains(form, "$") || strings.Contains(form, "'$") {
			send(form)
			return
		}
		for _, secret := range errorSecrets {
			send(strings.ReplaceAll(form, "$", secret))
		}
	})
	return failed
}

// checkErrorLog fails the test for each text with a secret, and returns the numbers of the errors.
func checkErrorLog(t *testing.T, path string) (numbers map[uint16]bool, shown int) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	numbers = map[uint16]bool{}
	reported := map[string]bool{}
	texts := map[string]int{}
	for line := range bytes.Lines(text) {
		var r struct {
			Number uint16 `json:"error_number"`
			Text   string `json:"error_text"`
		}
		must(t, json.Unmarshal(line, &r))
		if r.Number != 0 {
			numbers[r.Number] = true
		}
		said := r.Text
		texts[fmt.Sprintf("%d: %s", r.Number, said)]++
		if said != "" && said != "?" {
			shown++
		}
		if m := errorMarker.Find(line); m != nil && !reported[fmt.Sprint(r.Number)] {
			reported[fmt.Sprint(r.Number)] = true
			t.Errorf("the log shows %q:\n%s", m, line)
		}
	}
	if os.Getenv("TARE_ERROR_TEXTS") != "" {
		for said, n := range texts {
			t.Logf("%5d × %s", n, said)
		}
	}
	return numbers, shown
}
