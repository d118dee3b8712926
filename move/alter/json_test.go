package alter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// jsonScalars are expressions of JSON values, by the type that MySQL reports of them, most of which text does not have.
var jsonScalars = []func(*rand.Rand) string{
	func(r *rand.Rand) string {
		return fmt.Sprintf("CAST('%d.%02d' AS DECIMAL(7,2))", r.IntN(10000), r.IntN(100))
	},
	func(r *rand.Rand) string { return fmt.Sprintf("CAST('%d' AS DECIMAL(30,0))", r.Int64()) },
	func(r *rand.Rand) string { return "CAST('1.5' AS DECIMAL(2,1))" },
	func(r *rand.Rand) string {
		return fmt.Sprintf("DATE '20%02d-%02d-%02d'", r.IntN(100), 1+r.IntN(12), 1+r.IntN(28))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("TIME '-%02d:%02d:01.%06d'", r.IntN(800), r.IntN(60), r.IntN(1000000))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("TIMESTAMP '20%02d-02-03 04:05:06.%06d'", r.IntN(100), r.IntN(1000000))
	},
	func(r *rand.Rand) string { return fmt.Sprintf("CAST(x'%04x' AS BINARY)", r.IntN(1<<16)) },
	func(r *rand.Rand) string { return fmt.Sprintf("b'%b'", r.IntN(256)) },
	func(r *rand.Rand) string { return fmt.Sprintf("CAST(%d AS UNSIGNED)", r.IntN(1000)) },
	func(r *rand.Rand) string { return "18446744073709551615" },
	func(r *rand.Rand) string { return fmt.Sprintf("CAST(%d AS YEAR)", 1990+r.IntN(50)) },
	func(r *rand.Rand) string { return fmt.Sprintf("%d", r.IntN(1000)-500) },
	func(r *rand.Rand) string { return fmt.Sprintf("%d.5e0", r.IntN(1000)) },
	func(r *rand.Rand) string { return fmt.Sprintf("'text \\\"%d\\' 💡'", r.IntN(1000)) },
	func(r *rand.Rand) string { return "NULL" },
	func(r *rand.Rand) string { return "CAST('true' AS JSON)" },
	func(r *rand.Rand) string { return "ST_GeomFromText('POINT(1 2)')" },
}

// jsonParts is how many values a document of randomJSON has: each is a scalar, or a scalar in an object or array.
const jsonParts = 5

// randomJSON returns an expression of a document.
func randomJSON(r *rand.Rand) string {
	parts := make([]string, jsonParts)
	for i := range parts {
		scalar := jsonScalars[r.IntN(len(jsonScalars))](r)
		parts[i] = []string{scalar, "JSON_OBJECT('k', " + scalar + ")", "JSON_ARRAY(" + scalar + ")"}[r.IntN(3)]
	}
	if r.IntN(8) == 0 {
		return "JSON_EXTRACT(JSON_ARRAY(" + jsonScalars[r.IntN(len(jsonScalars))](r) + "), '$[0]')" // a scalar
	}
	return "JSON_ARRAY(" + strings.Join(parts, ", ") + ")"
}

// jsonRows returns the documents of a table with the types of all of their values.
func (d *database) jsonRows(table, js string) []string {
	var types strings.Builder
	types.WriteString("JSON_TYPE(" + js + ")")
	for i := range jsonParts {
		for _, path := range []string{"", ".k", "[0]"} {
			fmt.Fprintf(&types, ", JSON_TYPE(JSON_EXTRACT(%s, '$[%d]%s'))", js, i, path)
		}
	}
	d.exec("CREATE OR REPLACE VIEW " + d.schema + ".typed AS SELECT CAST(id AS CHAR) AS id, CAST(" + js + " AS CHAR) AS text, CONCAT_WS(' ', " + types.String() + ") AS types, n FROM " + d.schema + "." + table)
	defer d.exec("DROP VIEW " + d.schema + ".typed")
	return d.rows("typed")
}

// TestTypedJSON alters and reverts tables with documents of typed values by copies, while they change: each value keeps its type.
func TestTypedJSON(t *testing.T) {
	t.Parallel()
	rnd := testseed.Rand(t)
	d := newDatabase(t, "MySQL")
	for number, tt := range []struct{ key, clauses string }{
		{"id INT NOT NULL PRIMARY KEY", "MODIFY small INT, ADD COLUMN note JSON, RENAME COLUMN other TO another, RENAME COLUMN another_one TO other"},
		{"id VARCHAR(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci NOT NULL PRIMARY KEY", "MODIFY id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL"},
		{"id INT NOT NULL, part INT NOT NULL DEFAULT 1, PRIMARY KEY (part, id DESC)", "MODIFY id BIGINT NOT NULL, ADD INDEX by_n (n)"},
	} {
		table := fmt.Sprintf("t%d", number)
		d.exec("CREATE TABLE " + d.schema + "." + table + " (" + tt.key + ", n INT NOT NULL DEFAULT 0, js JSON NOT NULL, other JSON, another_one JSON, small SMALLINT, CHECK (JSON_TYPE(js) <> 'x'))")
		w := &jsonWriter{d: d, c: d.connect(), rnd: rnd, table: table}
		for range 100 {
			w.insert()
		}
		o := d.options(table, tt.clauses)
		o.AlwaysCopy, o.Postpone, o.ChunkBytes, o.Workers, o.LossyRevert, o.Control = true, true, 4<<10, 2, true, t.TempDir()+"/s"
		var was []string
		steps := make(chan error, 2) // all rows are equal, and the end
		o.Observe = func(e telemetry.Event) {
			switch {
			case e.Kind == telemetry.EventChunk || e.Kind == telemetry.EventFollow || e.Kind == telemetry.EventCaughtUp:
				w.change(5)
			case strings.Contains(e.Text, "postponed"):
				w.change(20)
				w.mu.Lock()
				was = d.jsonRows(table, "js")
				w.stopped = true
				w.mu.Unlock()
				steps <- nil
			}
		}
		go func() {
			_, err := Run(t.Context(), o)
			steps <- err
		}()
		if err := testwait.Receive(t, "all rows to be equal", steps); err != nil {
			t.Fatal(err)
		}
		control := control.NewClient(o.Control)
		if _, err := control.Proceed(t.Context()); err != nil {
			t.Error(err)
		}
		control.Close()
		if err := testwait.Receive(t, "the swap", steps); err != nil {
			t.Fatal(err)
		}
		same(t, table, d.jsonRows(table, "js"), was)
		if number == 1 {
			continue // values of its key are equal by other rules now, so that there is no way back
		}
		if w.stopped = false; number == 0 {
			same(t, "renamed", d.jsonRows(table, "another"), d.jsonRows("_tare_old_"+table, "other"))
			w.renamed = true
		}
		w.change(60)
		was = d.jsonRows(table, "js")
		o.Observe, o.Control, o.Postpone = func(telemetry.Event) {}, "", false
		if _, err := Revert(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		same(t, table+" reverted", d.jsonRows(table, "js"), was)
		if len(was) < 90 || !strings.Contains(strings.Join(was, " "), "DECIMAL") || !strings.Contains(strings.Join(was, " "), "UNSIGNED INTEGER") {
			t.Errorf("%d rows without typed values", len(was))
		}
	}
}

// same reports the first row that differs.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: row\n%s\nwant\n%s", what, got[i], want[i])
			return
		}
	}
}

// A jsonWriter changes a table with documents.
type jsonWriter struct {
	d     *database
	c     *mysqlconn.Client
	table string

	mu      sync.Mutex
	rnd     *rand.Rand
	rows    int
	stopped bool
	renamed bool
}

func (w *jsonWriter) insert() {
	other := "other"
	if w.renamed {
		other = "another"
	}
	value := "NULL"
	if w.rnd.IntN(2) == 0 {
		value = randomJSON(w.rnd)
	}
	w.exec(fmt.Sprintf("INSERT INTO %s (id, js, %s) VALUES ('%d', %s, %s)", w.table, other, w.rows, randomJSON(w.rnd), value))
	w.rows++
}

func (w *jsonWriter) exec(sql string) {
	if err := w.d.execOn(w.c, sql); err != nil {
		w.d.t.Errorf("%s: %v", sql, err)
	}
}

// change changes some rows.
func (w *jsonWriter) change(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	for range n {
		id := w.rnd.IntN(w.rows)
		switch w.rnd.IntN(6) {
		case 0:
			w.insert()
		case 1:
			w.exec(fmt.Sprintf("DELETE FROM %s WHERE id = '%d' AND id %% 7 = 0", w.table, id))
		case 2, 3:
			w.exec(fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = '%d'", w.table, id))
		default:
			w.exec(fmt.Sprintf("UPDATE %s SET js = %s WHERE id = '%d'", w.table, randomJSON(w.rnd), id))
		}
	}
}
