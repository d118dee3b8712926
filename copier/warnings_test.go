package copier

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// TestAllowedWarnings has warnings that pass, and ones that do not: of other numbers, statements and columns.
func TestAllowedWarnings(t *testing.T) {
	tt := &target{columns: []rowstream.Column{
		{Name: "id", Type: "int"}, {Name: "e", Type: "enum", Charset: "utf8mb4"}, {Name: "k", Type: "varchar", Charset: "utf8mb3"}, {Name: "v", Type: "varchar", Charset: "utf8"},
	}}
	const alias = "'utf8' is currently an alias for the character set UTF8MB3"
	for _, w := range []struct {
		class        statementClass
		number, text string
		passes       bool
	}{
		{rowsWritten, "1265", "Data truncated for column 'e' at row 3", true},
		{keysDeleted, "1265", "Data truncated for column 'e' at row 3", false},
		{rowsWritten, "1265", "Data truncated for column 'k' at row 3", false},
		{rowsWritten, "1265", "Data truncated for column 'id' at row 3 of 'e'", false},
		{rowsWritten, "1287", "'utf8mb3' is deprecated and will be removed in a future release. Please use utf8mb4 instead", true},
		{keysDeleted, "1287", "'utf8mb3' is deprecated and will be removed in a future release. Please use utf8mb4 instead", true},
		{keysDeleted, "1287", "'ucs2' is deprecated and will be removed in a future release", false},
		{rowsWritten, "1287", "'VALUES function' is deprecated", false},
		{keysDeleted, "3719", alias, true},
		{rowsWritten, "3719", "'NATIONAL' is currently an alias", false},
		{rowsWritten, "1264", "Out of range value for column 'e' at row 3", false},
		{rowsWritten, "1366", "Incorrect string value for column 'e' at row 3", false},
		{rowsWritten, "1592", "Unsafe statement written to the binary log", false},
		{rowsWritten, "9999", "Data truncated for column 'e' at row 3", false},
		{0, "1265", "Data truncated for column 'e' at row 3", false},
	} {
		row := mysqlwire.TextRow{[]byte("Warning"), []byte(w.number), []byte(w.text)}
		if got := tt.harmlessWarning(w.class, row); got != w.passes {
			t.Errorf("%d %s %s: passes %v", w.class, w.number, w.text, got)
		}
	}
	if tt.harmlessWarning(rowsWritten, mysqlwire.TextRow{[]byte("Warning"), []byte("1265")}) {
		t.Error("a warning without a text passes")
	}
}

// TestWarnings copies and follows rows that raise the warnings that pass, and rows that raise one that does not, by LOAD DATA and by
// INSERT.
func TestWarnings(t *testing.T) {
	onOneServer(t, "warn", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "SET sql_mode = ''",
			"CREATE TABLE a (k VARCHAR(20) CHARACTER SET utf8mb3, n INT, e ENUM('x', 'y') NOT NULL, PRIMARY KEY (k, n))",
			"INSERT IGNORE INTO a VALUES ('one', 1, ''), ('twö', 2, 'no member'), ('three', 3, 'x')")
		for _, how := range []string{"1", "0"} {
			sqlExec(t, p.target, "DROP DATABASE copied", "CREATE DATABASE copied", "DROP DATABASE IF EXISTS _tare", "SET GLOBAL local_infile = "+how)
			o := p.into("copied", "a")
			o.Follow, o.UntilCaughtUp, o.Verify = true, true, true
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatalf("local_infile %s: %v", how, err)
			}
			sqlExec(t, p.source, "INSERT IGNORE INTO a VALUES ('four', 4, '')", "UPDATE a SET k = CONCAT(k, '!')", "DELETE FROM a WHERE n = 4")
			report, err := Run(t.Context(), o)
			if err != nil || report.Mismatches() > 0 {
				t.Errorf("follow after local_infile %s: %+v, %v", how, report, err)
			}

			// The server cuts digits off.
			w := &writer{cfg: root(p.to)}
			c := connect(t, root(p.to))
			w.c, w.warnings = c, 64
			sqlExec(t, c, "CREATE TABLE copied.b (id INT PRIMARY KEY, d DECIMAL(5,1) NOT NULL)")
			res, err := c.Exec(t.Context(), "REPLACE INTO copied.b VALUES (1, 100.25)")
			if err != nil || res.Warnings == 0 {
				t.Fatalf("the server raises no warning: %+v, %v", res, err)
			}
			err = w.expected(t.Context(), &target{}, rowsWritten, res.Warnings)
			if err == nil || !strings.Contains(err.Error(), "the target did not take all rows unchanged: 1 warnings, 1 of them listed: 1265 ") {
				t.Errorf("a number that was cut off: %v", err)
			}
		}
	})
}
