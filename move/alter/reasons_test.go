package alter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/telemetry"
)

// manyRows returns rows of which two columns are the number, more than a sample has.
func manyRows(n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, %[1]d, 1)", i+1)
	}
	return strings.Join(rows, ", ")
}

// TestReasons alters tables with odd values by copies, as a plain ALTER TABLE does: where that succeeds, the copy has the same rows, or a refusal with
// the plain ALTER TABLE that does it.
func TestReasons(t *testing.T) {
	cases := []struct {
		create, rows, clauses string
		refused               string // by the copy alone
		fails                 string // by both
	}{
		{create: "e ENUM('a','b')", rows: "(1, 'a'), (2, 0), (3, NULL)", clauses: "MODIFY e ENUM('b','a','c')"},
		{create: "e ENUM('a','b')", rows: "(1, 'a'), (2, 0)", clauses: "MODIFY e ENUM('a','b','c')"},
		{create: "e ENUM('a','b')", rows: "(1, 'a'), (2, 0)", clauses: "MODIFY e VARCHAR(10)"},
		{create: "e ENUM('a','b')", rows: "(1, 'b'), (2, 'a')", clauses: "MODIFY e ENUM('a','c')", fails: "truncated"},
		{create: "e ENUM('a','b')", rows: "(1, 'a')", clauses: "MODIFY e ENUM('a','c')"},
		{create: "s VARCHAR(30)", rows: "(1, '2026/01/31'), (2, '2026-02-01'), (3, NULL)", clauses: "MODIFY s DATE"},
		{create: "s VARCHAR(30)", rows: "(1, '2026/01/31 10:11:12'), (2, '2026-02-01 00:00:00.5')", clauses: "MODIFY s DATETIME(1)"},
		{create: "s VARCHAR(30)", rows: "(1, '20260131'), (2, '2026^01^31 10+11+12')", clauses: "MODIFY s DATETIME"},
		{create: "s VARCHAR(30)", rows: "(1, 'x')", clauses: "MODIFY s DATE", fails: "Incorrect date"},
		{create: "k ENUM('a','b') NOT NULL, UNIQUE KEY (k)", rows: "(1, 'a')", clauses: "DROP PRIMARY KEY, DROP COLUMN id", refused: "cannot be dropped"},
		{create: "u INT, UNIQUE KEY un (u)", rows: "(1, NULL), (2, 5)", clauses: "ADD UNIQUE KEY u2 (u, id)"},
		{create: "u INT, v INT", rows: "(1, 7, 1), (2, 7, 1), (3, 8, NULL)", clauses: "ADD UNIQUE KEY dup (u, v)", fails: "Duplicate entry"},
		{create: "u INT, v INT", rows: manyRows(3000) + ", (5001, 7, 1), (5002, 7, 1)", clauses: "ADD UNIQUE KEY dup (u, v)", refused: "values of it are there more than once now, so that it cannot be added before they are corrected: '7', '1' (3 rows: id 7, 5001, 5002)", fails: "Duplicate entry"},
		{create: "u INT", rows: "(1, 7), (2, 8)", clauses: "ADD UNIQUE KEY fresh (u)", refused: "no value of it is there more than once now; the server does it by ALTER TABLE"},
	}
	onBoth(t, func(t *testing.T, d *database) {
		for i, tt := range cases {
			table, twin := fmt.Sprintf("t%d", i), fmt.Sprintf("twin%d", i)
			c := d.connect()
			for _, name := range []string{table, twin} {
				for _, sql := range []string{
					"SET SESSION sql_mode = ''", "CREATE TABLE " + name + " (id INT NOT NULL PRIMARY KEY, " + tt.create + ") CHARACTER SET utf8mb4", "INSERT INTO " + name + " VALUES " + tt.rows,
				} {
					if err := d.execOn(c, sql); err != nil {
						t.Fatal(err)
					}
				}
			}
			plain := d.plainAlter(twin, tt.clauses)
			o := d.options(table, tt.clauses)
			o.AlwaysCopy = true
			_, err := Run(t.Context(), o)
			switch {
			case (plain != nil) != (tt.fails != "") || plain != nil && !strings.Contains(plain.Error(), tt.fails):
				t.Errorf("%s: a plain ALTER TABLE: %v, want %q", tt.clauses, plain, tt.fails)
			case tt.refused != "":
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%s: %v, want %q", tt.clauses, err, tt.refused)
				}
			case tt.fails != "":
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("%s: %v, want %q", tt.clauses, err, tt.fails)
				}
			case err != nil:
				t.Errorf("%s: a plain ALTER TABLE does it, and the copy: %v", tt.clauses, err)
			default:
				same(t, tt.clauses, d.rows(table), d.rows(twin))
			}
		}
	})
}

// TestReasonsOfKeys names what each key of a table has that copies cannot have.
func TestReasonsOfKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		reasons := map[string]string{
			"k ENUM('a','b') PRIMARY KEY":                   "key PRIMARY has the column `k` of the type ENUM, which is sorted otherwise than SQL compares it",
			"u INT, UNIQUE KEY un (u)":                      "key un has the column `u`, which can be NULL",
			"s VARCHAR(50) NOT NULL, UNIQUE KEY pre (s(5))": "key pre is of a prefix, `s`(5)",
			"u INT": "it has no primary or unique key",
		}
		if d.product == "MariaDB" {
			reasons["k CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY"] = "key PRIMARY has the column `k` of the type CHAR, which is sorted otherwise than SQL compares it"
		}
		for definition, want := range reasons {
			d.exec("DROP TABLE IF EXISTS "+d.schema+".k", "CREATE TABLE "+d.schema+".k ("+definition+")")
			o := d.options("k", "ADD COLUMN note INT")
			o.AlwaysCopy = true
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the server does it by ALTER TABLE `"+d.schema+"`.`k` ALGORITHM=INSTANT, ADD COLUMN note INT, while writes continue") {
				t.Errorf("%s: %v, want %q", definition, err, want)
			}
		}
	})
}

// TestInvalidDates has a client write a day that the calendar lacks as text, while a copy makes dates of it: a plain ALTER TABLE refuses it, or has
// another date.
func TestInvalidDates(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".dates (id INT PRIMARY KEY, s VARCHAR(30))", "INSERT INTO "+d.schema+".dates VALUES (1, '2026-01-31'), (2, NULL)")
		o := d.options("dates", "MODIFY s DATE")
		o.AlwaysCopy = true
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventSnapshot {
				d.exec("INSERT INTO " + d.schema + ".dates VALUES (3, '2026-02-31')")
			}
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "rows differ between the two sides: missing 0, only in the target 0, with other values 1, of 3 rows") {
			t.Errorf("%v", err)
		}
	})
}
