package copier_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/move/copier"
)

// TestWarnings copies and follows rows that raise allowed warnings, and rows that raise another one, by LOAD
// DATA and by INSERT.
func TestWarnings(t *testing.T) {
	onOneServer(t, "warn", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "SET sql_mode = ''",
			"CREATE TABLE a (k VARCHAR(20) CHARACTER SET utf8mb3, n INT, e ENUM('x', 'y') NOT NULL, PRIMARY KEY (k, n))",
			"INSERT IGNORE INTO a VALUES ('one', 1, ''), ('twö', 2, 'no member'), ('three', 3, 'x')")
		for _, how := range []string{"1", "0"} {
			sqlExec(t, p.target, "DROP DATABASE copied", "CREATE DATABASE copied", "DROP DATABASE IF EXISTS _tare", "SET GLOBAL local_infile = "+how)
			o := p.into("copied", "a")
			o.Follow, o.UntilCaughtUp, o.Verify = true, true, true
			if _, err := copier.Run(t.Context(), o); err != nil {
				t.Fatalf("local_infile %s: %v", how, err)
			}
			sqlExec(t, p.source, "INSERT IGNORE INTO a VALUES ('four', 4, '')", "UPDATE a SET k = CONCAT(k, '!')", "DELETE FROM a WHERE n = 4")
			report, err := copier.Run(t.Context(), o)
			if err != nil || report.Mismatches() > 0 {
				t.Errorf("follow after local_infile %s: %+v, %v", how, report, err)
			}

			// The server truncates digits.
			w := &state.Writer{Cfg: root(p.to)}
			c := connect(t, root(p.to))
			w.Conn, w.Warnings = c, 64
			sqlExec(t, c, "CREATE TABLE copied.b (id INT PRIMARY KEY, d DECIMAL(5,1) NOT NULL)")
			res, err := c.Exec(t.Context(), "REPLACE INTO copied.b VALUES (1, 100.25)")
			if err != nil || res.Warnings == 0 {
				t.Fatalf("the server raises no warning: %+v, %v", res, err)
			}
			err = w.Expected(t.Context(), &tabledef.Target{}, state.RowsWritten, res.Warnings)
			if err == nil || !strings.Contains(err.Error(), "the target did not take all rows unchanged: 1 warnings, 1 of them listed: 1265 ") {
				t.Errorf("a number that was cut off: %v", err)
			}
		}
		// A row violates a constraint that the target alone has. LOAD DATA skips it.
		for _, how := range []string{"1", "0"} {
			sqlExec(t, p.target, "DROP DATABASE copied", "CREATE DATABASE copied", "DROP DATABASE IF EXISTS _tare", "SET GLOBAL local_infile = "+how,
				"CREATE TABLE copied.a LIKE warn.a", "ALTER TABLE copied.a ADD CONSTRAINT few CHECK (n < 3)")
			if _, err := copier.Run(t.Context(), p.into("copied", "a")); err == nil || !strings.Contains(strings.ToLower(err.Error()), "constraint") || !strings.Contains(err.Error(), "few") {
				t.Errorf("a constraint with local_infile %s: %v", how, err)
			}
		}
	})
}
