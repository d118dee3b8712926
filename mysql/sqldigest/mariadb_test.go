package sqldigest_test

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/sqldigest"
)

// grouped are statements whose groups are compared with a server's. Each list has statements that this
// package groups together; the server is queried for its groups.
var grouped = [][]string{
	{"SELECT a FROM t WHERE a = 1", "select a\nfrom t where a = 2 -- c", "SELECT `a` FROM `t` WHERE `a` = 0x1F", "/* x */ SELECT a FROM t WHERE a='x'", "SELECT a FROM t WHERE a = -1", "SELECT a FROM t WHERE a = NULL", "SELECT a FROM t WHERE a = 1;"},
	{"SELECT A FROM t WHERE a = 1"},
	{"SELECT a FROM t WHERE a <> 1", "SELECT a FROM t WHERE a != 1"},
	{"SELECT a FROM t WHERE a IN (1)", "SELECT a FROM t WHERE a IN (1,2)", "SELECT a FROM t WHERE a IN (1,2,'x',NULL)"},
	{"SELECT a FROM t WHERE a NOT IN (1,2)", "SELECT a FROM t WHERE a NOT IN (1,2,3)"},
	{"SELECT a FROM t WHERE (a,b) IN ((1,2),(3,4))", "SELECT a FROM t WHERE (a,b) IN ((1,2),(3,4),(5,6))"},
	{"INSERT INTO t VALUES (1,'a',2)", "INSERT INTO t VALUES (1,NULL,2)", "insert into t values (-1,'a''b',2.5e3)"},
	{"INSERT INTO t VALUES (1,'a',2),(2,'b',3)", "INSERT INTO t VALUES (1,'a',2),(2,'b',3),(3,x'41',4)", "INSERT INTO t VALUES (1,NULL,2),(2,'x',3)"},
	{"INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) VALUES (2)"},
	{"INSERT INTO t (a) VALUES (1),(2)", "INSERT INTO t (a) VALUES (1),(2),(3)"},
	{"INSERT INTO t VALUES (1,DEFAULT,2)"},
	{"SELECT a FROM t LIMIT 1", "SELECT a FROM t LIMIT 10"},
	{"SELECT a FROM t LIMIT 1, 2", "SELECT a FROM t LIMIT 5, 6"},
	{"SELECT a FROM t LIMIT 1 OFFSET 2"},
	{"SELECT a FROM t WHERE a IS NULL"},
	{"SELECT a FROM t WHERE a IS NOT NULL"},
	{"SELECT COUNT(*) FROM t", "select count(*) from t"},
	{"SELECT SUBSTRING(b, 1, 2) FROM t", "SELECT SUBSTR(b, 1, 2) FROM t", "select mid(b, 2, 3) from t"},
	{"SELECT abs(a) FROM t"},
	{"SELECT ABS(a) FROM t"},
	{"SELECT a - 1 FROM t", "SELECT a - 2 FROM t"},
	{"SELECT a + - 1 FROM t", "SELECT a + 1 FROM t"},
	{"SELECT DISTINCT a FROM t", "SELECT DISTINCTROW a FROM t"},
	{"SELECT b REGEXP 'x' FROM t", "SELECT b RLIKE 'y' FROM t"},
	{"SELECT NOW()", "SELECT CURRENT_TIMESTAMP()", "select localtime()"},
	{"SELECT CURRENT_TIMESTAMP", "SELECT LOCALTIME", "SELECT localtimestamp"},
	{"SELECT CURRENT_DATE", "select current_date"},
	{"CREATE TEMPORARY TABLE x1 (a INT)", "CREATE TEMPORARY TABLE x1 (a INTEGER)"},
	{"SELECT CAST(a AS CHAR) FROM t", "SELECT CAST(a AS CHARACTER) FROM t"},
	{"EXPLAIN SELECT a FROM t", "DESCRIBE SELECT a FROM t"},
	{"SHOW COLUMNS FROM t", "SHOW FIELDS FROM t"},
	{"SELECT 1 /*! + 2 */", "SELECT 1 /*!50000 + 3 */", "SELECT 1 /*M!100100 + 2 */", "SELECT 1 + 2"},
	{"SELECT _utf8mb4'x'", "SELECT _latin1'y'", "SELECT 'x'", "SELECT N'x'", "SELECT x'41'", "SELECT b'1'", "SELECT DATE'2026-01-01'", "SELECT 'a' 'b'", "SELECT 1", "SELECT TRUE"},
	{"SELECT t.a FROM t", "SELECT `t`.`a` FROM t", "SELECT t . a FROM t"},
	{"SELECT t.* FROM t"},
	{"SELECT @@global.max_connections", "select @@GLOBAL.max_connections"},
	{"SELECT @@max_connections"},
	{"SELECT CASE WHEN a = 1 THEN NULL ELSE 'x' END FROM t", "SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END FROM t"},
	{"UPDATE t SET a = a + 1, b = 'x' WHERE c BETWEEN 1 AND 2", "UPDATE t SET a = a + 2, b = NULL WHERE c BETWEEN 3 AND 4"},
	{"SELECT a FROM t WHERE b LIKE 'x%' ESCAPE '|'"},
	{"SELECT 1 UNION SELECT 2"},
	{"SELECT 1 UNION SELECT 2 UNION SELECT 3"},
	{"SELECT 1, 2, 3", "SELECT 1, 2"},
	{"SELECT 1 AS c"},
	{"DELETE FROM t WHERE a = 1 AND b = 'x'"},
	{"SET @a = 1", "SET @a = 'x'"},
	{"SET @b = 1"},
}

// finer are statements that MariaDB groups and this package distinguishes on purpose: section 8 of the
// specification.
var finer = map[[2]string]string{
	{"SET @a = 1", "SET @b = 1"}:   "the names of user variables count",
	{"SET @a = 'x'", "SET @b = 1"}: "the names of user variables count",
}

// TestMariaDBGroups runs statements on a real server: statements that its performance schema groups must be
// grouped here.
func TestMariaDBGroups(t *testing.T) {
	server := testmysql.Start(t, testmysql.WithPerformanceSchema(), testmysql.WithSetup(
		"CREATE DATABASE digests", "CREATE TABLE digests.t (a INT, b VARCHAR(100), c INT)",
		"UPDATE performance_schema.setup_consumers SET enabled = 'YES'"))
	cfg := server.Config(testmysql.RootUser)
	cfg.DBName = "digests"
	run, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	conn, err := run.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var id int64
	if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}

	type seen struct {
		sql, group, text string
		digest           sqldigest.Digest
	}
	var all []seen
	var d sqldigest.Digester
	for _, group := range grouped {
		for i, stmt := range group {
			if rows, err := conn.QueryContext(t.Context(), stmt); err == nil {
				rows.Close() // a statement that fails when it runs still has a digest
			}
			// The server records a statement after its response; once it has responded to the next command,
			// it has recorded it.
			if err := conn.PingContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := seen{sql: stmt, digest: d.Digest([]byte(stmt), 0)}
			err := run.QueryRowContext(t.Context(), `SELECT s.digest, s.digest_text
				FROM performance_schema.events_statements_history s JOIN performance_schema.threads USING (thread_id)
				WHERE processlist_id = ? AND s.digest IS NOT NULL ORDER BY s.event_id DESC LIMIT 1`, id).Scan(&s.group, &s.text)
			if err != nil {
				t.Fatalf("read the digest of %q: %v", stmt, err)
			}
			all = append(all, s)
			if first := d.Digest([]byte(group[0]), 0); first != s.digest {
				t.Errorf("statement %d of its list has another digest: %q", i, stmt)
			}
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			switch why, listed := finer[[2]string{b.sql, a.sql}]; {
			case a.group == b.group && a.digest != b.digest && !listed:
				t.Errorf("the server groups\n\t%s\n\t%s\nas %q; here they differ", b.sql, a.sql, a.text)
			case listed && (a.group != b.group || a.digest == b.digest):
				t.Errorf("%q and %q are not the difference they are listed as: %s", b.sql, a.sql, why)
			}
		}
	}
}
