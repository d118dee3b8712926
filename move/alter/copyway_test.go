package alter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var errStop = errors.New("the test ends the run")

// TestResume ends runs at several points while a client writes, and has the last one complete the copy.
func TestResume(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 200)
		w := d.write("t", 200, nil)
		const clauses = "ADD COLUMN made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, MODIFY small INT, DROP COLUMN body"
		o := d.options("t", clauses)
		o.AlwaysCopy, o.ChunkBytes, o.Workers = true, 4<<10, 2
		for _, at := range []telemetry.EventKind{telemetry.EventSnapshot, telemetry.EventChunk, telemetry.EventDone, telemetry.EventCaughtUp} {
			ctx, cancel := context.WithCancelCause(t.Context())
			o.Observe = func(e telemetry.Event) {
				if e.Kind == at {
					cancel(errStop)
				}
			}
			if _, err := Run(ctx, o); err == nil {
				t.Fatalf("a run that ends at %s has altered the table", at)
			}
			cancel(nil)
		}
		other := d.options("t", "DROP COLUMN n")
		if _, err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "repeat its command to resume it") {
			t.Errorf("other clauses: %v", err)
		}
		if _, err := Lint(t.Context(), other); err == nil || !strings.Contains(err.Error(), "repeat its command to resume it") {
			t.Errorf("lint of other clauses: %v", err)
		}
		o.Observe = nil
		report, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Judgement != nil || report.Copy.Tables[0].Before == 0 || report.Copy.Tables[0].Verify.Mismatches() != 0 {
			t.Errorf("report %+v %+v", report, report.Copy.Tables)
		}
		close(w.stop)
		testwait.Group(t, "the client to end", &w.done)
		c := d.connect()
		if made := d.value(c, "SELECT COUNT(DISTINCT made) FROM t WHERE id <= 200"); made != "1" {
			t.Errorf("an added column has %s values", made)
		}
		w.stop = make(chan struct{})
		w.err = nil // it could not insert the dropped column after the swap
		w.end(d, "t", "n")
		if old := d.value(c, "SELECT COUNT(*) >= 200 FROM _tare_old_t"); old != "1" {
			t.Error("the old table is not there")
		}
	})
}

// TestAlteredMeanwhile has the table altered by another client after a run was interrupted, and while one works: its change is not lost by a swap.
func TestAlteredMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for table, change := range map[string]string{"c": "ALTER TABLE c ADD COLUMN more INT DEFAULT 4", "i": "CREATE INDEX more ON i (n)"} {
			d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY, n INT)", "INSERT INTO "+d.schema+"."+table+" VALUES (1, 1), (2, 2)")
			o := d.options(table, "MODIFY n BIGINT")
			o.AlwaysCopy = true
			c := d.connect()
			for _, interrupted := range []bool{true, false} {
				ctx, cancel := context.WithCancelCause(t.Context())
				var once sync.Once
				var altering sync.WaitGroup
				o.Observe = func(e telemetry.Event) {
					if e.Kind != telemetry.EventDone {
						return
					}
					once.Do(func() {
						if interrupted {
							cancel(errStop)
							return
						}
						altering.Go(func() { // it may wait for the end of the snapshot
							if _, err := c.Exec(t.Context(), strings.ReplaceAll(change, "more", "more2")); err != nil {
								t.Error(err)
							}
						})
					})
				}
				o.Restart, o.Postpone = !interrupted, !interrupted // nothing but the change ends the second run
				if _, err := Run(ctx, o); err == nil || !interrupted && !strings.Contains(err.Error(), shadowLacks) {
					t.Errorf("%s, interrupted %t: %v", change, interrupted, err)
				}
				cancel(nil)
				testwait.Group(t, "the other client to alter the table", &altering)
				if interrupted {
					if _, err := c.Exec(t.Context(), change); err != nil {
						t.Fatal(err)
					}
				}
				o.Observe, o.Restart, o.Postpone = nil, false, false
				if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the table was altered by another client since the copy was started, "+shadowLacks) {
					t.Errorf("%s, the next run: %v", change, err)
				}
			}
			o.Restart = true
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			created := ""
			if _, err := c.Query(t.Context(), "SHOW CREATE TABLE "+table, func(row mysqlwire.TextRow) error {
				created = string(row[1])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"`n` bigint", "`more`", "`more2`"} {
				if !strings.Contains(created, want) {
					t.Errorf("no %s in %s", want, created)
				}
			}
		}
	})
}

// TestSwappedBefore has a run find the tables swapped by one that was killed before it could record that.
func TestSwappedBefore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "MariaDB")
	d.exec("CREATE TABLE "+d.schema+".t (id INT PRIMARY KEY, a INT)", "CREATE TABLE "+d.schema+"._tare_old_t (id INT PRIMARY KEY)")
	o := d.options("t", "ADD COLUMN a INT")
	c, err := connect(t.Context(), o.On)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := Parse(o.Schema, o.Table, o.Clauses)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CREATE DATABASE IF NOT EXISTS _tare"); err != nil {
		t.Fatal(err)
	}
	if err := jobRecords.save(t.Context(), c, s, &job{Clauses: o.Clauses}); err != nil {
		t.Fatal(err)
	}
	other := d.options("t", "ADD COLUMN b INT")
	if _, err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "is kept for tare alter revert") {
		t.Errorf("other clauses: %v", err)
	}
	if r, err := Run(t.Context(), o); err != nil || r.Way != WayCopy || r.Copy.Report != nil || !strings.Contains(r.Copy.Kept.NoWay, "no position") {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no position of the binary log") {
		t.Errorf("revert: %v", err)
	}
	if _, err := Finish(t.Context(), o); err != nil {
		t.Error(err)
	}
	if _, err := Finish(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no old table of "+d.schema+".t is kept") {
		t.Errorf("finish after finish: %v", err)
	}
	if r, err := Run(t.Context(), other); err != nil || r.Way != WayInstant {
		t.Errorf("the next one: %+v, %v", r, err)
	}
}

// TestGate has rows of the shadow changed by another client: the tables are not swapped, until the copy is discarded.
func TestGate(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "MariaDB")
	d.fillForms("t", 50)
	o := d.options("t", "MODIFY small INT")
	o.AlwaysCopy = true
	var once sync.Once
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventDone {
			once.Do(func() { d.exec("UPDATE " + d.schema + "._tare_new_t SET small = small + 1 WHERE id = 7") })
		}
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, verify.ErrDiffer) || !strings.Contains(err.Error(), "with other values 1,") {
		t.Errorf("got %v", err)
	}
	c := d.connect()
	if kind := d.value(c, "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = 't' AND COLUMN_NAME = 'small'"); kind != "smallint" {
		t.Errorf("the column is %s", kind)
	}
	o.Restart = true
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("with option restart: %v", err)
	}
}

// TestComparedAgain has rows of the shadow changed by another client while the swap is postponed: those of chunks in which the table changes too are found before the
// swap, and the others are not compared again.
func TestComparedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for i, tt := range []struct {
			key, changed, damaged string
			chunks                string
			differ                bool
		}{
			{"INT", "id = 1", "id = 2", "1 of ", true},
			{"INT", "id IN (1, 4000)", "id = 3999", "2 of ", true},
			{"INT", "id = 1", "id = 2000", "1 of ", false},
			{"INT", "id = -1", "id = 2000", "", false}, // there is none
			{"VARCHAR(20)", "id = '1'", "id = '2000'", "", true},
		} {
			table := fmt.Sprintf("t%d", i)
			values := make([]string, 4000)
			for n := range values {
				values[n] = fmt.Sprintf("('%d', 0, 0)", n+1)
			}
			d.exec("CREATE TABLE "+d.schema+"."+table+" (id "+tt.key+" PRIMARY KEY, small SMALLINT, n INT)", "INSERT INTO "+d.schema+"."+table+" VALUES "+strings.Join(values, ", "))
			o := d.options(table, "MODIFY small INT")
			o.AlwaysCopy, o.Postpone, o.Control, o.ChunkBytes = true, true, t.TempDir()+"/s", 8<<10
			again := ""
			steps := make(chan error, 2) // all rows are equal, and the end
			o.Observe = func(e telemetry.Event) {
				if strings.Contains(e.Text, "postponed") {
					steps <- nil
				} else if text, ok := strings.CutPrefix(e.Text, "comparing "); ok {
					again = text
				}
			}
			go func() {
				_, err := Run(t.Context(), o)
				steps <- err
			}()
			if err := testwait.Receive(t, "all rows to be equal", steps); err != nil {
				t.Fatal(err)
			}
			d.exec("UPDATE "+d.schema+"."+table+" SET n = 1 WHERE "+tt.changed, "UPDATE "+d.schema+"._tare_new_"+table+" SET small = 7 WHERE "+tt.damaged)
			control := control.NewClient(o.Control)
			if tt.changed != "id = -1" {
				testwait.Until(t, "the change to arrive", func() bool {
					return d.value(d.connect(), "SELECT MAX(n) FROM _tare_new_"+table) == "1"
				})
			}
			if _, err := control.Proceed(t.Context()); err != nil {
				t.Error(err)
			}
			control.Close()
			if err := testwait.Receive(t, "the run to end", steps); errors.Is(err, verify.ErrDiffer) != tt.differ || !tt.differ && err != nil {
				t.Errorf("%s, %s: %v", tt.key, tt.changed, err)
			}
			if !strings.HasPrefix(again, tt.chunks) || tt.changed == "id = -1" && again != "" {
				t.Errorf("%s, %s: compared %s", tt.key, tt.changed, again)
			}
		}
	})
}

// TestSwapWaits has a client hold the table's lock while the tables are swapped: nothing is swapped, and the next run resumes.
func TestSwapWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 50)
		holder := d.connect()
		o := d.options("t", "MODIFY small INT")
		o.AlwaysCopy, o.LockTries, o.MaxLockWait = true, 1, time.Second
		var once sync.Once
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventCaughtUp {
				once.Do(func() {
					for _, sql := range []string{"START TRANSACTION", "UPDATE t SET n = n + 1 WHERE id = 1"} {
						if _, err := holder.Exec(t.Context(), sql); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		if _, err := Run(t.Context(), o); !lockTimeout(err) {
			t.Errorf("got %v", err)
		}
		if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		o.LockTries, o.MaxLockWait = 0, 0 // a busy machine may need more than one try, and more than a second
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		if n := d.value(d.connect(), "SELECT n FROM t WHERE id = 1"); n != "1" {
			t.Errorf("n is %s", n)
		}
	})
}

// TestRefusesCopy has tables that are not copied.
func TestRefusesCopy(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".parent (id INT PRIMARY KEY)",
			"CREATE TABLE "+d.schema+".child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES "+d.schema+".parent (id))",
			"CREATE TABLE "+d.schema+".nokey (a INT)", "CREATE TABLE "+d.schema+".trig (id INT PRIMARY KEY)",
			"CREATE TRIGGER "+d.schema+".tr BEFORE INSERT ON "+d.schema+".trig FOR EACH ROW SET NEW.id = NEW.id",
			"CREATE TABLE "+d.schema+".again (id INT PRIMARY KEY)", "CREATE TABLE "+d.schema+"._tare_old_again (id INT PRIMARY KEY)",
			"CREATE TABLE "+d.schema+".checked (id INT PRIMARY KEY, CONSTRAINT positive CHECK (id > 0))")
		for table, want := range map[string]string{
			"parent": "foreign keys refer", "child": "foreign keys refer", "nokey": "no primary or unique key", "trig": "it has triggers (tr)",
			"again": "_tare_old_again exists",
		} {
			o := d.options(table, "ADD COLUMN note INT")
			o.AlwaysCopy = true
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", table, err, want)
			}
			if p, err := Lint(t.Context(), o); table != "again" && (err != nil || p.Way != WayNone || !strings.Contains(p.Why, want)) {
				t.Errorf("lint %s: %+v, %v, want %q", table, p, err, want)
			}
		}
		o := d.options("checked", "DROP CONSTRAINT positive")
		o.AlwaysCopy = true
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "names a constraint") {
			t.Errorf("a named constraint: %v", err)
		}
		if n := d.value(d.connect(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME LIKE '%tare_new%'"); n != "0" {
			t.Errorf("%s shadows are left", n)
		}
	})
}

// TestForeignKeys adds foreign keys: the dry run and the command name the reason and the ALTER TABLE of the server, which does it while writes are blocked, and which
// refuses to do it in place.
func TestForeignKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for i, clauses := range []string{"ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id)", "ADD COLUMN q INT REFERENCES parent (id)", "MODIFY a BIGINT, ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE"} {
			table := fmt.Sprintf("child%d", i)
			d.exec("CREATE TABLE IF NOT EXISTS "+d.schema+".parent (id INT PRIMARY KEY)", "CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY, a INT, p INT)")
			o := d.options(table, clauses)
			plain := "ALTER TABLE `" + d.schema + "`.`" + table + "` ALGORITHM=COPY, " + clauses
			p, err := Lint(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{foreignKeys, "rows without a parent would not be found", "the server does it by " + plain + ", and blocks writes meanwhile"} {
				if _, err := Run(t.Context(), o); p.Way != WayNone || !strings.Contains(p.Why, want) || err == nil || strings.HasPrefix(want, "the server does") && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: by %s: %s; %v; want %q", clauses, p.Way, p.Why, err, want)
				}
			}
			c := d.connect()
			if _, ok := unsupported(d.execOn(c, "ALTER TABLE "+table+" ALGORITHM=INPLACE, "+clauses)); !ok {
				t.Errorf("%s: the server does it in place", clauses)
			}
			if err := d.execOn(c, plain); err != nil {
				t.Errorf("%s: %v", plain, err)
			}
			if n := d.value(c, "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = '"+d.schema+"' AND TABLE_NAME = '"+table+"'"); n != "1" {
				t.Errorf("%s: %s foreign keys", clauses, n)
			}
			p, err = Lint(t.Context(), d.options(table, "MODIFY id BIGINT"))
			if err != nil || p.Way != WayNone || !strings.Contains(p.Why, "foreign keys refer from or to it") || !strings.Contains(p.Why, "; the server does it by ALTER TABLE `") {
				t.Errorf("a table with a foreign key: %+v, %v", p, err)
			}
		}
	})
}

// TestServersMode alters by a copy, and reverts, on a server whose sql_mode prints definitions in another dialect.
func TestServersMode(t *testing.T) {
	aloneOnBoth(t, func(t *testing.T, d *database) {
		modes := []string{"ANSI"}
		if d.product == "MariaDB" {
			modes = append(modes, "ORACLE", "MSSQL", "MYSQL40")
		}
		before := d.value(d.connect(), "SELECT @@GLOBAL.sql_mode")
		t.Cleanup(func() { d.exec("SET GLOBAL sql_mode = '" + before + "'") })
		for i, mode := range modes {
			table := fmt.Sprintf("t%d", i)
			d.fillForms(table, 20)
			d.exec("SET GLOBAL sql_mode = '" + mode + "'")
			o := d.options(table, "MODIFY small BIGINT")
			o.AlwaysCopy, o.LossyRevert = true, true
			if _, err := Run(t.Context(), o); err != nil {
				t.Errorf("%s: %v", mode, err)
			} else if _, err := Revert(t.Context(), o); err != nil {
				t.Errorf("%s: revert: %v", mode, err)
			}
			d.exec("SET GLOBAL sql_mode = '" + before + "'")
		}
	})
}
