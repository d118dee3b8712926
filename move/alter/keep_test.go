package alter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// TestRevert alters tables by copies while a client writes to them, and reverts that.
func TestRevert(t *testing.T) {
	seed := testseed.New(t)
	onBoth(t, func(t *testing.T, d *database) {
		for i, f := range sampleForms(t, rand.New(rand.NewPCG(seed, 1)), d.product) {
			if f.refused != "" {
				continue
			}
			t.Run(f.clauses, func(t *testing.T) {
				t.Parallel()
				own := *d
				own.t = t
				own.revert(f.clauses, fmt.Sprintf("r%d", i), i)
			})
		}
	})
}

// revert alters and reverts a table, in one of several ways, and compares it with one that was never altered. It returns the state of the
// old table before the revert.
func (d *database) revert(clauses, table string, number int) Kept {
	t := d.t
	const rows = 50
	d.fillForms(table, rows)
	was := d.create(table)
	s, err := Parse(d.schema, table, clauses)
	if err != nil {
		t.Fatal(err)
	}
	w := d.write(table, rows, s)
	o := d.options(table, clauses)
	o.AlwaysCopy, o.Workers = true, 2
	if number%3 != 2 {
		o.RevertWindow, o.Control = time.Hour, t.TempDir()+"/s"
	}
	kept := d.alterAndStop(o, w, number)
	if kept.NoWay != "" {
		if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), kept.NoWay) {
			t.Errorf("no way back (%s): %v", kept.NoWay, err)
		}
		w.end(d, table, s.newName("n"))
		return kept
	}
	if len(kept.Lossy) > 0 {
		if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), "option lossy-revert reverts nevertheless") {
			t.Errorf("a revert with a loss (%s): %v", kept.Lossy, err)
		}
		o.LossyRevert = true
	}
	if number%2 == 1 { // the first try is stopped
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := o
		stopped.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventCaughtUp {
				cancel(errStop)
			}
		}
		if _, err := Revert(ctx, stopped); err == nil {
			t.Error("a run that was stopped has reverted the table")
		}
		cancel(nil)
	}
	report, err := Revert(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Copy.Kept.State != KeptReverted || report.Copy.PauseSeconds <= 0 {
		t.Errorf("report %+v", report.Copy)
	}
	d.awaitWrites(w, 20)
	w.end(d, table, "n")
	if is := d.create(table); is != was {
		t.Errorf("the definition is\n%s\nwas\n%s", is, was)
	}
	lossy := strings.Join(kept.Lossy, " ")
	if !strings.Contains(lossy, "is dropped") && !strings.Contains(lossy, "decimal(12,2) has values that varchar") { // '1' comes back as '1.00'
		d.sameAsNever(table, w, rows)
	}
	return kept
}

// alterAndStop alters the table, has the client write, and ends the run after the swap.
func (d *database) alterAndStop(o Options, w *writer, number int) (kept Kept) {
	t := d.t
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	swapped := make(chan Kept, 1)
	o.Swapped = func(r *Report) { swapped <- r.Copy.Kept }
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o)
		ended <- err
	}()
	select {
	case kept = <-swapped:
	case err := <-ended:
		t.Fatal(err)
	}
	d.awaitWrites(w, 30)
	if kept.State != KeptKept || kept.Until == "" {
		t.Errorf("kept %+v", kept)
	}
	if o.RevertWindow > 0 && kept.NoWay == "" {
		cancel(errStop)
	}
	if err := testwait.Receive(t, "the run to end", ended); o.RevertWindow > 0 && kept.NoWay == "" && !errors.Is(err, ErrNotFollowed) || kept.NoWay != "" && err != nil {
		t.Errorf("got %v", err)
	}
	d.awaitWrites(w, 10+number%10)
	return kept
}

// awaitWrites blocks until the client has executed some more statements.
func (d *database) awaitWrites(w *writer, n int) {
	d.t.Helper()
	from := w.writes.Load()
	testwait.Until(d.t, "the client to write", func() bool { return w.writes.Load() >= from+int64(n) })
}

// sameAsNever compares a table with one of the same rows that was never altered.
func (d *database) sameAsNever(table string, w *writer, rows int) {
	d.t.Helper()
	never := table + "_never"
	d.fillForms(never, rows)
	for id, n := range w.counts {
		if id > rows {
			d.exec(insertInto(d.schema+"."+never, id, nil))
		}
		d.exec(fmt.Sprintf("UPDATE %s.%s SET n = %d WHERE id = %d", d.schema, never, n, id))
	}
	got, want := d.rows(table), d.rows(never)
	if len(got) != len(want) {
		d.t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			d.t.Errorf("row\n%s\nwant\n%s", got[i], want[i])
			return
		}
	}
}

// TestRevertRunning reverts over the control socket of the run that follows changes back.
func TestRevertRunning(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 50)
		was := d.create("t")
		s, err := Parse(d.schema, "t", "ADD COLUMN note VARCHAR(20), DROP COLUMN body")
		if err != nil {
			t.Fatal(err)
		}
		w := d.write("t", 50, s)
		o := d.options("t", s.Text)
		o.AlwaysCopy, o.RevertWindow, o.Control = true, time.Hour, t.TempDir()+"/s"
		o.Monitor = &Monitor{}
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(o.Monitor)
		swapped, ended := make(chan *Report, 1), make(chan error, 1)
		o.Swapped = func(r *Report) { swapped <- r }
		var report *Report
		go func() {
			var err error
			report, err = Run(t.Context(), o)
			ended <- err
		}()
		first := testwait.Receive(t, "the swap", swapped)
		if len(first.Copy.Kept.Lossy) != 1 || !strings.Contains(first.Copy.Kept.Lossy[0], "column body is dropped") {
			t.Errorf("lossy: %q", first.Copy.Kept.Lossy)
		}
		if took := first.Copy.Durations; took.Rows <= 0 || took.CatchUp <= 0 || took.Compare <= 0 || took.Swap <= 0 || first.Seconds <= 0 || first.Copy.SwapPosition == "" {
			t.Errorf("%v s, durations %+v, position %q", first.Seconds, took, first.Copy.SwapPosition)
		}
		d.awaitWrites(w, 30)
		control := control.NewClient(o.Control)
		defer control.Close()
		testwait.Until(t, "the way back to be followed", func() bool {
			status, err := control.Status(t.Context())
			return err == nil && status.Phase == telemetry.RunReversing
		})
		if phase := phaseOf(t, metrics); phase != string(telemetry.RunReversing) {
			t.Errorf("the metrics have the phase %q", phase)
		}
		for name, s := range map[string]telemetry.Status{"control socket": *statusOf(t, control), "page": o.Monitor.Status()} {
			if a := s.Alter; a == nil || a.Step() != telemetry.StepBack || a.Old == nil || a.Old.State != string(KeptKept) || a.Old.Until == nil || len(a.Old.Lossy) != 1 || a.PauseSeconds <= 0 || s.Follow == nil {
				t.Errorf("the status of the %s: %+v, %+v", name, s, a)
			}
		}
		if n := testutil.CollectAndCount(o.Monitor, "tare_alter_swap_pause_seconds", "tare_alter_old_table_until_timestamp_seconds"); n != 2 {
			t.Errorf("%d metrics of the swap and the old table", n)
		}
		if _, err := control.Proceed(t.Context()); err == nil || !strings.Contains(err.Error(), "the tables are swapped") {
			t.Errorf("cutover: %v", err)
		}
		if _, err := control.Revert(t.Context(), false); err == nil || !strings.Contains(err.Error(), "column body is dropped") {
			t.Errorf("revert: %v", err)
		}
		if _, err := control.Revert(t.Context(), true); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, "the run to end", ended); err != nil {
			t.Fatal(err)
		}
		if k := report.Copy.Kept; k.State != KeptReverted || k.Altered != d.schema+"._tare_rev_t" || k.Changes == 0 {
			t.Errorf("kept %+v", k)
		}
		if a := o.Monitor.Status().Alter; a.Step() != telemetry.StepDone || a.Old.State != string(KeptReverted) || a.Old.Until != nil || a.LockTries < 2 {
			t.Errorf("the state after the revert: %+v", a)
		}
		w.end(d, "t", "n")
		if is := d.create("t"); is != was {
			t.Errorf("the definition is\n%s\nwas\n%s", is, was)
		}
		if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nothing to revert") {
			t.Errorf("revert again: %v", err)
		}
	})
}

// TestRevertReconnects has the connection that holds the lock of the table's alterations killed while changes are followed back.
func TestRevertReconnects(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 50)
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy, o.RevertWindow, o.Control = true, time.Hour, t.TempDir()+"/s"
		swapped, ended := make(chan *Report, 1), make(chan error, 1)
		o.Swapped = func(r *Report) { swapped <- r }
		go func() {
			_, err := Run(t.Context(), o)
			ended <- err
		}()
		testwait.Receive(t, "the swap", swapped)
		control := control.NewClient(o.Control)
		defer control.Close()
		testwait.Until(t, "the way back to be followed", func() bool {
			status, err := control.Status(t.Context())
			return err == nil && status.Phase == telemetry.RunReversing
		})
		d.exec("KILL " + d.value(d.connect(), "SELECT IS_USED_LOCK('"+lockName(&Statement{Schema: d.schema, Table: "t"})+"')"))
		if _, err := control.Revert(t.Context(), false); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, "the run to end", ended); err != nil {
			t.Fatal(err)
		}
		if n := d.value(d.connect(), "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = 't' AND COLUMN_NAME = 'note'"); n != "0" {
			t.Error("the table has the new definition")
		}
	})
}

// phaseOf returns the phase in the metrics of a copy.
// statusOf returns the status of a run.
func statusOf(t *testing.T, c *control.Client) *telemetry.Status {
	t.Helper()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func phaseOf(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "tare_copy_phase" && m.GetGauge().GetValue() == 1 {
				return m.GetLabel()[0].GetValue()
			}
		}
	}
	return ""
}

// TestKeepEnds has old tables dropped: at once, when the time is over, and on request.
func TestKeepEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for table, prepare := range map[string]func(o *Options, c *control.Client){
			"once":  func(o *Options, _ *control.Client) { o.KeepOld, o.RevertWindow = 0, 0 },
			"over":  func(o *Options, _ *control.Client) { o.KeepOld, o.RevertWindow = 2*time.Second, 2*time.Second },
			"asked": func(*Options, *control.Client) {},
		} {
			d.fillForms(table, 20)
			o := d.options(table, "MODIFY small INT")
			o.AlwaysCopy, o.RevertWindow, o.Control = true, time.Hour, t.TempDir()+"/s"
			control := control.NewClient(o.Control)
			defer control.Close()
			prepare(&o, control)
			swapped, ended := make(chan struct{}, 1), make(chan error, 1)
			o.Swapped = func(*Report) { swapped <- struct{}{} }
			var report *Report
			go func() {
				var err error
				report, err = Run(t.Context(), o)
				ended <- err
			}()
			testwait.Receive(t, "the swap", swapped)
			if table == "asked" {
				testwait.Until(t, "the old table to be finished", func() bool {
					_, err := control.Finish(t.Context())
					return err == nil
				})
			}
			if err := testwait.Receive(t, "the run to end", ended); err != nil {
				t.Fatal(err)
			}
			if k := report.Copy.Kept; k.State != KeptDropped {
				t.Errorf("%s: kept %+v", table, k)
			}
			if n := d.value(d.connect(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME LIKE '%tare%"+table+"'"); n != "0" {
				t.Errorf("%s: %s tables are left", table, n)
			}
		}
	})
}

// TestRevertWindow has the window for a revert end before the old table is dropped: the run ends, and a later one reverts from the binary log.
func TestRevertWindow(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 20)
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy, o.RevertWindow = true, 500*time.Millisecond
		report, err := Run(t.Context(), o)
		if err != nil || report.Copy.Kept.State != KeptKept {
			t.Fatalf("%+v, %v", report, err)
		}
		c := d.connect()
		if err := d.execOn(c, "UPDATE t SET n = 77 WHERE id = 3"); err != nil {
			t.Fatal(err)
		}
		o.RevertWindow = 0
		if report, err = Run(t.Context(), o); err != nil || report.Copy.Kept.State != KeptKept {
			t.Errorf("the same command again: %+v, %v", report, err)
		}
		if report, err = Revert(t.Context(), o); err != nil || report.Copy.Kept.State != KeptReverted {
			t.Fatalf("%+v, %v", report, err)
		}
		if n := d.value(c, "SELECT n FROM t WHERE id = 3"); n != "77" {
			t.Errorf("n is %s", n)
		}
		for window, keep := range map[time.Duration]time.Duration{-1: 1, 2: 1} {
			o.RevertWindow, o.KeepOld = window, keep
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a revert window of ") {
				t.Errorf("%v of %v: %v", window, keep, err)
			}
		}
	})
}

// TestWayCloses has rows written that the old definition cannot have, and the table altered by others: there is no way back any more.
func TestWayCloses(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for table, tt := range map[string]struct{ sql, want string }{
			"wide":  {"UPDATE wide SET small = 100000 WHERE id = 3", "Out of range value for column 'small'"},
			"other": {"ALTER TABLE other ADD COLUMN more INT", "was altered after the swap"},
			"index": {"CREATE INDEX more ON `index` (f)", "was altered after the swap"},
		} {
			d.fillForms("`"+table+"`", 20)
			o := d.options(table, "MODIFY small INT")
			o.AlwaysCopy = true
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if err := d.execOn(d.connect(), tt.sql); err != nil {
				t.Fatal(err)
			}
			o.LossyRevert = true
			if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "to resume") {
				t.Errorf("%s: got %v, want %q", table, err, tt.want)
			}
			if now := d.value(d.connect(), "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = '"+table+"' AND COLUMN_NAME = 'small'"); now != "int" {
				t.Errorf("%s: the column is %s", table, now)
			}
			if _, err := Finish(t.Context(), o); err != nil {
				t.Errorf("%s: %v", table, err)
			}
		}
	})
}

// TestAlteredWhileFollowed has another client alter the table while its changes are followed back: following ends before rows of another form reach the old
// table, and the state says why it cannot be reverted.
func TestAlteredWhileFollowed(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for table, sql := range map[string]string{
			"added":    "ALTER TABLE added ADD COLUMN more INT DEFAULT 5 FIRST",
			"moved":    "ALTER TABLE moved MODIFY big BIGINT AFTER note, MODIFY small SMALLINT AFTER big",
			"indexed":  "CREATE INDEX more ON indexed (note)",
			"unlogged": "SET SESSION sql_log_bin = 0; ALTER TABLE unlogged ADD COLUMN more INT; SET SESSION sql_log_bin = 1; INSERT INTO unlogged (id) VALUES (999)",
		} {
			c := d.connect()
			execute := func(statements ...string) {
				for _, statement := range statements {
					if err := d.execOn(c, statement); err != nil {
						t.Fatal(err)
					}
				}
			}
			execute("CREATE TABLE "+table+" (id INT PRIMARY KEY, small INT, big INT)", "INSERT INTO "+table+" VALUES (1, 1, 1)")
			o := d.options(table, "ADD COLUMN note INT")
			o.AlwaysCopy, o.RevertWindow, o.Control, o.Monitor = true, time.Hour, t.TempDir()+"/s", &Monitor{}
			swapped, ended := make(chan *Report, 1), make(chan error, 1)
			o.Swapped = func(r *Report) { swapped <- r }
			go func() {
				_, err := Run(t.Context(), o)
				ended <- err
			}()
			old := testwait.Receive(t, "the swap of "+table, swapped).Copy.Old
			execute("INSERT INTO " + table + " VALUES (2, 2, 2, 2)")
			testwait.Until(t, "a change in the old table of "+table, func() bool { return d.value(c, "SELECT COUNT(*) FROM "+old) == "2" })
			execute(strings.Split(sql, "; ")...)
			execute("INSERT INTO "+table+" (id) VALUES (1000)", "DELETE FROM "+table+" WHERE id = 1")
			err := testwait.Receive(t, "the run of "+table+" to end", ended)
			for _, want := range []string{"option restart", "option ignore-statement", "run the same command"} {
				if err != nil && strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", table, err)
				}
			}
			if !errors.Is(err, ErrNotFollowed) || !strings.Contains(err.Error(), "there is no way back any more") || !strings.Contains(err.Error(), old+" has the changes before that alone") {
				t.Errorf("%s: %v", table, err)
			}
			if a := o.Monitor.Status().Alter; a.Old == nil || a.Old.NoWay == "" {
				t.Errorf("%s: the status is %+v", table, a.Old)
			}
			if ids := d.value(c, "SELECT GROUP_CONCAT(id ORDER BY id) FROM "+old); ids != "1,2" {
				t.Errorf("%s: the old table has the rows %s", table, ids)
			}
			o.Swapped = nil
			if report, err := Run(t.Context(), o); err != nil || report.Copy.Kept.NoWay == "" {
				t.Errorf("%s: run again: %+v, %v", table, report, err)
			}
			if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), old+" has the changes before that alone, and tare alter finish drops it") {
				t.Errorf("%s: revert: %v", table, err)
			}
			if _, err := Finish(t.Context(), o); err != nil {
				t.Errorf("%s: %v", table, err)
			}
		}
	})
}

// TestOldDropped has another client drop the old table, and rows of a revert with a loss left: neither is passed over.
func TestOldDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 20)
		o := d.options("t", "MODIFY small INT")
		o.AlwaysCopy, o.LossyRevert = true, true
		report, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		d.exec("DROP TABLE " + report.Copy.Old)
		if _, err := Revert(t.Context(), o); err == nil || !strings.Contains(err.Error(), report.Copy.Old+" was dropped") {
			t.Errorf("revert without the old table: %v", err)
		}
		if report, err = Finish(t.Context(), o); err != nil || report.Copy.Kept.State != KeptDropped {
			t.Fatalf("finish without the old table: %+v, %v", report, err)
		}

		o.Clauses = "MODIFY small BIGINT"
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if report, err = Revert(t.Context(), o); err != nil || report.Copy.Kept.Altered == "" {
			t.Fatalf("a revert with a loss: %+v, %v", report, err)
		}
		left := report.Copy.Kept.Altered
		o.LossyRevert = false
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), left+" exists") {
			t.Errorf("the table of a revert is left: %v", err)
		}
		if n := d.value(d.connect(), "SELECT COUNT(*) FROM "+left); n != "20" {
			t.Errorf("the table of a revert has %s rows", n)
		}
		d.exec("DROP TABLE " + left)
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}

// TestOldTablesAreNotCopied copies a schema with tables of an alteration: they are left out, unless they are named.
func TestOldTablesAreNotCopied(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 5)
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy = true
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s := &Statement{Schema: d.schema, Table: "t"}
		d.exec("CREATE TABLE "+s.sqlName(s.shadow())+" (id INT PRIMARY KEY)", "CREATE TABLE "+s.sqlName(s.sentry())+" (id INT PRIMARY KEY)")
		for _, named := range []bool{false, true} {
			c := copier.Options{From: copier.FromServer(o.On), To: o.On}
			sel := inventory.Selection{Schemas: []string{d.schema}}
			if named {
				sel.Tables = []inventory.Pattern{{Schema: d.schema, Name: s.old()}, {Schema: d.schema, Name: "_tare*"}}
			}
			inv, err := copier.Resolve(t.Context(), &c, sel)
			if err != nil {
				t.Fatal(err)
			}
			fates := make(map[string]inventory.Fate)
			for _, obj := range inv.Objects {
				if obj.Kind == inventory.Table {
					fates[obj.Name] = obj.Fate
				}
			}
			want := map[string]inventory.Fate{"t": inventory.Copied, s.old(): inventory.LeftOut, s.shadow(): inventory.LeftOut, s.sentry(): inventory.LeftOut}
			if named {
				want[s.old()] = inventory.Copied
			}
			for name, fate := range want {
				if fates[name] != fate {
					t.Errorf("%s: %s, want %s", name, fates[name], fate)
				}
			}
		}
	})
}
