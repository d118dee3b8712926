package sqldigest_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/sqldigest"
)

// named are statements in which $ is a name; upper case outside of it are keywords.
var named = []string{
	"SELECT $ FROM b", "SELECT a, $, c FROM b WHERE $ = 1 AND b > $ ORDER BY $", "SELECT a FROM $ WHERE a = 1",
	"SELECT a FROM b JOIN $ ON a = $", "SELECT 1 AS $", "SELECT b.$, $.a FROM b", "INSERT INTO $ VALUES (1)", "INSERT INTO b ($) VALUES (1)",
	"INSERT INTO b (a) VALUES (1) ON DUPLICATE KEY UPDATE $ = 1", "UPDATE $ SET a = 1", "UPDATE b SET $ = 1, a = $ + 1 WHERE $ = 'x'",
	"DELETE FROM $ WHERE $ = 1", "REPLACE INTO $ VALUES (1)", "WITH $ AS (SELECT 1) SELECT * FROM $", "SELECT COUNT($) FROM b GROUP BY $",
	"CREATE TABLE $ (a INT)", "CREATE TABLE b ($ INT, a VARCHAR(10))", "ALTER TABLE $ ADD COLUMN a INT", "ALTER TABLE b ADD COLUMN $ INT",
	"ALTER TABLE b DROP COLUMN $", "DROP TABLE IF EXISTS $", "CREATE INDEX $ ON b (a)", "CREATE INDEX a ON $ (a)", "TRUNCATE TABLE $",
	"SELECT a FROM b WHERE a IN (SELECT $ FROM c)", "LOCK TABLES $ WRITE", "SHOW COLUMNS FROM $", "DESCRIBE $", "SELECT 1 FROM b AS $",
	"SELECT a FROM b FORCE INDEX ($)", "SELECT 1 LIMIT 1 OFFSET 2", "SELECT a FROM b WHERE a LIKE 'x' ESCAPE '!'",
	"SELECT a FROM b FOR UPDATE NOWAIT", "SELECT a FROM b FOR UPDATE SKIP LOCKED", "SELECT a FROM b LOCK IN SHARE MODE", "START TRANSACTION READ ONLY",
	"SELECT NOW() + INTERVAL 1 DAY", "SELECT a FROM b WHERE MATCH (a) AGAINST ('x' IN BOOLEAN MODE)", "SET SESSION autocommit = 1", "SET NAMES utf8mb4",
	"COMMIT WORK", "ROLLBACK TO SAVEPOINT x", "FLUSH STATUS", "SHOW GLOBAL STATUS", "SELECT a FROM b GROUP BY a WITH ROLLUP", "KILL QUERY 1",
	"CREATE TEMPORARY TABLE x (a DATETIME COMMENT 'y')", "SELECT CASE WHEN a THEN 1 ELSE 2 END FROM b", "EXPLAIN SELECT 1",
	"SHOW FULL PROCESSLIST", "SELECT SQL_NO_CACHE a FROM b", "SELECT sleep(0), a.f(1), f(a), concat_ws('a', 'b')",
}

// TestShownText has every word that is not reserved stand for a name: where the server takes
// it for one, the text shows its spelling, has keywords in upper case, parses, and has the
// statement's own digest.
func TestShownText(t *testing.T) {
	list, err := os.ReadFile("keywords.txt")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"myName"}
	for line := range strings.SplitSeq(string(list), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" && slices.Contains(f, "name") {
			words = append(words, strings.ToLower(f[0]))
		}
	}
	db, err := sql.Open("mysql", testmysql.Shared(t).DSN(testmysql.RootUser))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var d sqldigest.Digester
	accepted := 0
	for n, word := range words {
		for i, tmpl := range named {
			if strings.Contains(tmpl, "$") != (n > 0) && n > 0 || n > 0 && (n+i)%4 != 0 {
				continue // each word in a quarter of the places
			}
			stmt := strings.ReplaceAll(tmpl, "$", word)
			if !parses(t.Context(), t, conn, stmt) {
				continue // a name it is not, there
			}
			accepted++
			digest := d.Digest([]byte(foldKeywords(tmpl, word)), 0)
			shown := string(d.Text())
			if got := d.Digest([]byte(stmt), 0); got != digest && word != "schema" {
				t.Errorf("%s\nshown as %s\nin lower case as %s", stmt, shown, d.Text())
			}
			if n := strings.Count(tmpl, "$"); strings.Count(shown, word) < n {
				t.Errorf("%s\nshown as %s: %s is spelled in another way", stmt, shown, word)
			}
			again := expand(shown)
			if !parses(t.Context(), t, conn, again) {
				t.Errorf("%s\nshown as %s\ndoes not parse as %s", stmt, shown, again)
			}
			if got := d.Digest([]byte(again), 0); got != digest {
				t.Errorf("%s\nshown as %s\nwhich has another digest: %s", stmt, shown, d.Text())
			}
		}
	}
	if accepted < len(words) {
		t.Errorf("the server accepted %d statements with %d words", accepted, len(words))
	}
}

// foldKeywords is tmpl with everything in lower case and word for $.
func foldKeywords(tmpl, word string) string {
	return strings.ReplaceAll(strings.ToLower(tmpl), "$", word)
}

// expand is normalized text with literals for what stands for them.
func expand(text string) string {
	return strings.NewReplacer("(?), ...", "(1), (1)", "(...), ...", "(1, 1), (1, 1)", "?, ...", "1, 1", "(...)", "(1, 1)",
		"LIKE ?", "LIKE 'x'", "ESCAPE ?", "ESCAPE '!'", "COMMENT ?", "COMMENT 'x'", "AGAINST (?", "AGAINST ('x'", "?", "1").Replace(text)
}

// parses reports whether the server takes the statement for one of its language, whatever it
// refers to.
func parses(ctx context.Context, t *testing.T, conn *sql.Conn, stmt string) bool {
	t.Helper()
	prepared, err := conn.PrepareContext(ctx, stmt)
	var my *mysql.MySQLError
	switch {
	case err == nil:
		return prepared.Close() == nil
	case errors.As(err, &my):
		return my.Number != 1064
	}
	t.Fatalf("prepare %q: %v", stmt, err)
	return false
}
