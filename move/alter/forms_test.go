package alter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A form is a line of the table of forms.
type form struct {
	servers, clauses, refused string
	fails                     bool // a plain ALTER TABLE is refused for the same reason
}

// readForms returns the forms for a product.
func readForms(t *testing.T, product string) (forms []form) {
	text, err := os.ReadFile("../../e2e/testdata/alter-forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		servers, rest, _ := strings.Cut(line, " ")
		clauses, refused, _ := strings.Cut(rest, "=>")
		other, failure, fails := strings.Cut(rest, "=!")
		if fails {
			clauses, refused = other, failure
		}
		f := form{servers, strings.TrimSpace(clauses), strings.TrimSpace(refused), fails}
		mark := map[string]byte{"MariaDB": 'M', "MySQL": 'Y'}[product]
		if servers[0] == '*' || servers[0] == mark {
			forms = append(forms, f)
		}
	}
	if len(forms) == 0 {
		t.Fatal("there are no forms")
	}
	return forms
}

// sampleForms returns some forms for a product, by the test's seed: make e2e tries all.
func sampleForms(t *testing.T, rnd *rand.Rand, product string) []form {
	all := readForms(t, product)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	accepted, refused := 4, 2
	return slices.DeleteFunc(all, func(f form) bool {
		left := &accepted
		if f.refused != "" {
			left = &refused
		}
		*left--
		return *left < 0
	})
}

// formTable is the table that the forms alter.
const formTable = ` (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 0, small SMALLINT, big BIGINT UNSIGNED NOT NULL, price DECIMAL(8,2), f FLOAT, d DOUBLE,
  name VARCHAR(40) NOT NULL, lat VARCHAR(40) CHARACTER SET latin1, mb3 VARCHAR(40) CHARACTER SET utf8mb3, code CHAR(8), body TEXT, bin VARBINARY(20), blb BLOB,
  day DATE, at DATETIME, at3 DATETIME(3), ts TIMESTAMP NULL, tm TIME, kind ENUM('a','b','c'), flags SET('x','y','z'), y YEAR, bits BIT(5), js JSON,
  num VARCHAR(20), opt INT, gv INT AS (n * 2) VIRTUAL, gs INT AS (n + 1) STORED, u INT, UNIQUE KEY uu (u), KEY kn (n), KEY kname (name)
) ENGINE=InnoDB CHARACTER SET utf8mb4`

// formRow is a row of it.
func formRow(id int) string { return "(" + strings.Join(formValues(id), ", ") + ")" }

// formValues are the values of formNames in a row.
func formValues(id int) []string {
	return strings.Split(fmt.Sprintf("%d|0|%d|%d|%d.25|%d.5|%d.1e-3|'name %d'|_latin1 x'e9%02x'|'é%d'|'c%d'|REPEAT('b', %d)|x'ff%02x00'|x'%02x'|'2026-01-%02d'|'2026-01-31 10:%02d:00'|"+
		"'2026-01-31 10:00:00.%03d'|'2026-03-01 00:00:%02d'|'%02d:00:01'|'%s'|'%s'|%d|b'%b'|'{\"a\": %d}'|'%d'|%d|%d",
		id, id+300, uint64(1)<<63+uint64(id), id, id, id, id, 'a'+id%20, id, id, id%400, id%256, id%256, 1+id%28, id%60, id%1000, id%60, id%24,
		[]string{"a", "b", "c"}[id%3], []string{"", "x", "x,z", "y"}[id%4], 1990+id%50, id%32, id, id, id%100, id), "|")
}

const (
	formNames   = "id, n, small, big, price, f, d, name, lat, mb3, code, body, bin, blb, day, at, at3, ts, tm, kind, flags, y, bits, js, num, opt, u"
	formColumns = " (" + formNames + ") VALUES "
)

// fillForms creates the table with rows.
func (d *database) fillForms(table string, rows int) {
	d.t.Helper()
	values := make([]string, rows)
	for i := range values {
		values[i] = formRow(i + 1)
	}
	d.exec("CREATE TABLE "+d.schema+"."+table+formTable, "INSERT INTO "+d.schema+"."+table+formColumns+strings.Join(values, ", "))
}

// A writer writes to a table until it is stopped, and counts what the server has acknowledged.
type writer struct {
	counts  map[int]int // by id: the expected value of n
	gone    map[int]bool
	writes  atomic.Int64
	turns   int           // that have ended
	longest time.Duration // of a statement
	stop    chan struct{}
	done    sync.WaitGroup
	err     error

	altered *Statement // whose names are tried after those of formTable; nil: those alone
	news    bool       // the last statement had the new names
}

// write starts a writer: it counts up rows, and inserts and deletes others.
func (d *database) write(table string, rows int, altered *Statement) *writer {
	w := &writer{counts: make(map[int]int), gone: make(map[int]bool), altered: altered}
	w.start(d, table, rows)
	return w
}

// start starts the writer, which is new or was paused.
func (w *writer) start(d *database, table string, rows int) {
	c := d.connect()
	if w.altered != nil {
		if _, err := c.Exec(d.t.Context(), "SET SESSION sql_mode = ''"); err != nil { // added columns may have no default
			d.t.Fatal(err)
		}
	}
	w.stop = make(chan struct{})
	w.done.Go(func() {
		pace := time.NewTimer(0)
		defer pace.Stop()
		for ; w.err == nil; w.turns++ {
			select {
			case <-w.stop:
				return
			case <-pace.C:
			}
			began := time.Now()
			w.turn(d, c, table, w.turns, rows)
			took := time.Since(began)
			w.longest = max(w.longest, took)
			w.writes.Add(1)
			pace.Reset(min(2*time.Millisecond+3*took, 200*time.Millisecond)) // on a busy machine too, the CPU is for the copy
		}
	})
}

// pause stops the writer, which may be started again.
func (w *writer) pause(d *database) {
	d.t.Helper()
	close(w.stop)
	testwait.Group(d.t, "the client to end", &w.done)
	if w.err != nil {
		d.t.Errorf("a client: %v", w.err)
	}
}

// turn executes the statement number i.
func (w *writer) turn(d *database, c *mysqlconn.Client, table string, i, rows int) {
	id := 1 + i*7%rows
	switch {
	case i%5 == 3:
		id = rows + i
		if w.err = w.exec(d, c, func(s *Statement) string { return insertInto(table, id, s) }); w.err == nil {
			w.counts[id] = 0
		}
	case i%10 == 4:
		id = rows + i - 1
		if w.err = d.execOn(c, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id)); w.err == nil {
			delete(w.counts, id)
			w.gone[id] = true
		}
	case i%5 != 4:
		if w.err = w.exec(d, c, func(s *Statement) string {
			n := s.newName("n")
			return fmt.Sprintf("UPDATE %s SET %s = %[2]s + 1 WHERE id = %d", table, n, id)
		}); w.err == nil {
			w.counts[id]++
		}
	}
}

// exec executes a statement with the names of one definition, and if they are unknown with those of the other one.
func (w *writer) exec(d *database, c *mysqlconn.Client, sql func(*Statement) string) error {
	for try := range 10 {
		var s *Statement
		if w.news {
			s = w.altered
		}
		err := d.execOn(c, sql(s))
		var refused *mysqlconn.ServerError
		if w.altered == nil || try == 9 || !errors.As(err, &refused) || refused.Number != 1054 {
			return err
		}
		w.news = !w.news
	}
	panic("BUG: no try has returned")
}

// newName returns the name of a column after the statement; empty if it is dropped. s may be nil.
func (s *Statement) newName(column string) string {
	if s == nil {
		return column
	}
	for to, from := range s.renamed {
		if from == column {
			return to
		}
	}
	if s.dropped[column] {
		return ""
	}
	return column
}

// insertInto returns the statement that inserts a row, into the table with the old definition or that of a statement.
func insertInto(table string, id int, s *Statement) string {
	var names, values []string
	for i, name := range strings.Split(formNames, ", ") {
		if name := s.newName(name); name != "" {
			names, values = append(names, name), append(values, formValues(id)[i])
		}
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

func (d *database) execOn(c *mysqlconn.Client, sql string) error {
	_, err := c.Exec(d.t.Context(), sql)
	return err
}

// end stops the writer and checks that a table has all that it has written. n is the name of the counter.
func (w *writer) end(d *database, table, n string) {
	d.t.Helper()
	w.pause(d)
	if n == "" {
		return
	}
	seen := make(map[int]bool)
	if _, err := d.connect().Query(d.t.Context(), "SELECT id, "+n+" FROM "+table, func(row mysqlwire.TextRow) error {
		var id, count int
		_, err := fmt.Sscan(string(row[0])+" "+string(row[1]), &id, &count)
		seen[id] = true
		if want := w.counts[id]; count != want || w.gone[id] {
			d.t.Errorf("row %d: n is %d, want %d (deleted: %v)", id, count, want, w.gone[id])
		}
		return err
	}); err != nil {
		d.t.Error(err)
	}
	for id := range w.counts {
		if !seen[id] {
			d.t.Errorf("row %d is lost", id)
		}
	}
}

// create returns SHOW CREATE TABLE without the table's name and counter.
func (d *database) create(table string) string {
	d.t.Helper()
	text := ""
	if _, err := d.connect().Query(d.t.Context(), "SHOW CREATE TABLE "+table, func(row mysqlwire.TextRow) error {
		text = string(row[1])
		return nil
	}); err != nil {
		d.t.Error(err)
	}
	_, text, _ = strings.Cut(text, "(")
	return regexp.MustCompile(` AUTO_INCREMENT=\d+`).ReplaceAllString(text, "")
}

// rows returns all rows of a table as text.
func (d *database) rows(table string) (all []string) {
	d.t.Helper()
	if _, err := d.connect().Query(d.t.Context(), "SELECT * FROM "+table+" ORDER BY id", func(row mysqlwire.TextRow) error {
		all = append(all, fmt.Sprintf("%q", row))
		return nil
	}); err != nil {
		d.t.Error(err)
	}
	return all
}

// TestForms alters tables by copies while a client writes to them, and compares the result with a plain ALTER TABLE of the old table.
func TestForms(t *testing.T) {
	seed := testseed.New(t)
	onBoth(t, func(t *testing.T, d *database) {
		for i, f := range sampleForms(t, rand.New(rand.NewPCG(seed, 0)), d.product) {
			t.Run(f.clauses, func(t *testing.T) {
				t.Parallel()
				own := *d
				own.t = t
				own.form(f, fmt.Sprintf("t%d", i))
			})
		}
	})
}

// form runs a form on a new table. The swap is postponed until the client has stopped, so that the old table has the same rows.
func (d *database) form(f form, table string) {
	t := d.t
	const rows = 50
	d.fillForms(table, rows)
	w := d.write(table, rows, nil)
	o := d.options(table, f.clauses)
	o.AlwaysCopy, o.Postpone, o.Workers = true, true, 2
	o.Control = t.TempDir() + "/s"
	equal := make(chan struct{}, 1)
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventAlter && strings.Contains(e.Text, "postponed") {
			equal <- struct{}{}
		}
	}
	ended := make(chan error, 1)
	var report *Report
	go func() {
		var err error
		report, err = Run(t.Context(), o)
		ended <- err
	}()
	var err error
	select {
	case <-equal:
		w.end(d, table, "n")
		control := control.NewClient(o.Control)
		defer control.Close()
		if _, err := control.Proceed(t.Context()); err != nil {
			t.Error(err)
		}
		err = testwait.Receive(t, "the tables to be swapped", ended)
	case err = <-ended:
		w.end(d, table, "n")
	}
	if f.refused != "" {
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(f.refused)) {
			t.Errorf("got %v, want %q", err, f.refused)
		}
		plain := d.plainAlter(table, f.clauses)
		switch {
		case !f.fails && plain != nil:
			t.Errorf("a plain ALTER TABLE fails: %v", plain)
		case f.fails && (plain == nil || !strings.Contains(strings.ToLower(plain.Error()), strings.ToLower(f.refused))):
			t.Errorf("a plain ALTER TABLE: %v, want %q", plain, f.refused)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if report.Way != WayCopy || report.Copy.Tables[0].Verify.Mismatches() != 0 || report.Copy.Tables[0].Verify.Incomplete() {
		t.Errorf("report %+v: %+v", report, report.Copy.Tables[0].Verify)
	}
	twin := "_tare_old_" + table
	if err := d.plainAlter(twin, f.clauses); err != nil {
		t.Fatal(err)
	}
	if got, want := d.create(table), d.create(twin); got != want {
		t.Errorf("the definition is\n%s\nwant\n%s", got, want)
	}
	got, want := d.rows(table), d.rows(twin)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("row\n%s\nwant\n%s", got[i], want[i])
			break
		}
	}
	if len(got) != len(want) || len(got) < 50 {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// plainAlter executes an ALTER TABLE as a client would.
func (d *database) plainAlter(table, clauses string) error {
	c := d.connect()
	if err := d.execOn(c, "SET SESSION sql_mode = @@GLOBAL.sql_mode, time_zone = @@GLOBAL.time_zone"); err != nil {
		d.t.Fatal(err)
	}
	for {
		err := d.execOn(c, "ALTER TABLE "+table+" "+clauses)
		if refused, ok := errors.AsType[*mysqlconn.ServerError](err); !ok || refused.Number != mysqlwire.ErrnoDeadlock { // of the data dictionary's rows, with other tests
			return err
		}
	}
}

// TestSwapUnderLoad alters a table while clients write to it before, during and after the swap: nothing that was acknowledged is lost.
func TestSwapUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for _, table := range []string{"t", "Upper"} {
			name := "`" + table + "`"
			d.fillForms(name, 50)
			w := d.write(name, 50, nil)
			o := d.options(table, "MODIFY id BIGINT NOT NULL AUTO_INCREMENT, ADD COLUMN note VARCHAR(20) DEFAULT 'x'")
			o.AlwaysCopy = true
			report, err := Run(t.Context(), o)
			w.end(d, name, "n")
			if err != nil {
				t.Fatal(err)
			}
			if report.Copy.PauseSeconds <= 0 || report.Copy.Old != d.schema+"._tare_old_"+table {
				t.Errorf("report %+v", report.Copy)
			}
			c := d.connect()
			if left := d.value(c, "SELECT GROUP_CONCAT(TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND (TABLE_NAME LIKE '%sentry%' OR TABLE_NAME LIKE '%tare_new%')"); left != "" {
				t.Errorf("%s are left", left)
			}
			if r, err := Finish(t.Context(), d.options(table, "")); err != nil || r.Copy.Kept.State != KeptDropped {
				t.Errorf("finish: %+v, %v", r, err)
			}
			for _, records := range []string{"alter_job WHERE table_schema", "copy_table WHERE target_schema", "copy_chunk WHERE target_schema", "copy_definition WHERE target_schema"} {
				if left := d.value(c, "SELECT COUNT(*) FROM _tare."+records+" = '"+d.schema+"'"); left != "0" {
					t.Errorf("%s of %s are left", left, records)
				}
			}
		}
	})
}
