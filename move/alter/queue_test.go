package alter

import (
	"context"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
)

// TestParseQueue parses queues, and has each line that is refused in the error.
func TestParseQueue(t *testing.T) {
	entries, err := ParseQueue("# nightly\n\n shop.orders: ADD COLUMN a INT COMMENT 'x: y'\nshop.items : DROP INDEX k, ADD INDEX k (a)\r\n")
	want := []QueueEntry{{3, "shop", "orders", "ADD COLUMN a INT COMMENT 'x: y'"}, {4, "shop", "items", "DROP INDEX k, ADD INDEX k (a)"}}
	if err != nil || len(entries) != 2 || entries[0] != want[0] || entries[1] != want[1] {
		t.Errorf("%+v, %v", entries, err)
	}
	for text, wants := range map[string][]string{
		"":       {"no alteration in it"},
		"# none": {"no alteration in it"},
		"shop.a ADD COLUMN b INT\nb: ADD COLUMN b INT\nshop.c: ADD COLUMN b INT\nshop.d: ADD COLUMN b INT, ALGORITHM=COPY\nshop.e:": {
			"line 1: want schema.table: clauses", `line 2: table "b"`, "line 4: ", "the algorithm and the lock are chosen", "line 5: ",
		},
	} {
		_, err := ParseQueue(text)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "line 3: ") {
			t.Errorf("line 3 is refused: %v", err)
		}
	}
}

// TestCheckQueue checks queues, one of which has an entry that is refused.
func TestCheckQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE " + d.schema + ".t (id INT PRIMARY KEY)")
		if report, err := CheckQueue(t.Context(), d.options("", ""), nil); err == nil || report != nil {
			t.Errorf("no entry: %v, %v", report, err)
		}
		report, err := CheckQueue(t.Context(), d.options("", ""), d.queueOf("t: ADD COLUMN a INT"))
		if err != nil || len(report.Items) != 1 || report.Seconds <= 0 {
			t.Errorf("%+v, %v", report, err)
		}
		report, err = CheckQueue(t.Context(), d.options("", ""), d.queueOf("t: ADD COLUMN a INT", "none: ADD COLUMN a INT"))
		if err == nil || !strings.Contains(err.Error(), "none") || report == nil || len(report.Items) != 2 {
			t.Errorf("a table that does not exist: %+v, %v", report, err)
		}
	})
}

// queueOf returns a queue over tables of the schema.
func (d *database) queueOf(lines ...string) []QueueEntry {
	d.t.Helper()
	entries, err := ParseQueue(d.schema + "." + strings.Join(lines, "\n"+d.schema+"."))
	if err != nil {
		d.t.Fatal(err)
	}
	return entries
}

// states returns the states of a report.
func states(r *QueueReport) string {
	var all []string
	for _, x := range r.Items {
		all = append(all, string(x.State))
	}
	return strings.Join(all, " ")
}

// runQueue runs a queue and returns its states, and its error as text.
func (d *database) runQueue(o Options, entries []QueueEntry) (report *QueueReport, is, text string) {
	d.t.Helper()
	finished := 0
	report, err := RunQueue(d.t.Context(), o, entries, func(x *QueueItem) {
		if finished++; x.State != telemetry.QueueDone && x.State != telemetry.QueueEarlier {
			d.t.Errorf("reported as finished: %+v", x)
		}
	})
	if report == nil {
		d.t.Fatal(err)
	}
	if n := report.Count(telemetry.QueueDone) + report.Count(telemetry.QueueEarlier); err == nil && n != finished || finished > n {
		d.t.Errorf("%d entries were reported as finished, %d are", finished, n)
	}
	if err != nil {
		text = err.Error()
	}
	return report, states(report), text
}

// TestQueue alters three tables by a queue whose second one fails at first, and repeats it.
func TestQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for _, table := range []string{"a", "b", "c"} {
			d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY, n INT, CONSTRAINT "+table+"_positive CHECK (n >= 0))", "INSERT INTO "+d.schema+"."+table+" VALUES (1, 1)")
		}
		o := d.options("", "")
		o.Monitor = &Monitor{}
		entries := d.queueOf("a: ADD COLUMN x INT", "b: MODIFY n BIGINT NOT NULL", "c: ADD INDEX k (n), ADD COLUMN z INT")

		checked, err := CheckQueue(t.Context(), o, entries)
		if err != nil || states(checked) != "waiting waiting waiting" || checked.Items[0].Plan.Way != WayInstant || checked.Items[1].Plan.Way != WayCopy {
			t.Fatalf("%s, %v", states(checked), err)
		}
		valid := entries[1]
		entries[1].Clauses = "ADD COLUMN y INT, DROP COLUMN missing"
		if _, is, text := d.runQueue(o, entries); is != "waiting refused waiting" || !strings.Contains(text, "line 2: "+d.schema+".b: ") || !strings.Contains(text, "missing") {
			t.Errorf("a clause that fails on the sample: %s, %s", is, text)
		}
		if strings.Contains(d.create("a"), "`x`") {
			t.Error("the first table was altered although the second was refused")
		}
		entries[1] = valid

		o.NeverCopy = true
		if _, is, text := d.runQueue(o, entries); is != "waiting refused waiting" || !strings.Contains(text, "option never-copy") {
			t.Errorf("never a copy: %s, %s", is, text)
		}
		o.NeverCopy = false

		holder := d.connect()
		for _, sql := range []string{"START TRANSACTION", "SELECT * FROM b"} {
			if _, err := holder.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		o.LockTries = 1
		report, is, text := d.runQueue(o, entries)
		if is != "done failed waiting" || !strings.Contains(text, "line 2: ") || report.Items[0].Report.Way != WayInstant || report.Items[1].Error == "" {
			t.Errorf("a lock that is held: %s, %s", is, text)
		}
		if q := o.Monitor.Status().Alter.Queue; len(q) != 3 || q[0].State != telemetry.QueueDone || q[1].State != telemetry.QueueFailed {
			t.Errorf("the status has the queue %+v", q)
		}
		if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		o.LockTries = 0
		if report, is, text = d.runQueue(o, entries); is != "earlier done done" || text != "" || !strings.Contains(report.Items[0].Why, "an earlier run has done it at") {
			t.Errorf("repeated: %s, %s, %q", is, text, report.Items[0].Why)
		}
		if k := report.Items[1].Report.Copy.Kept; k.State != KeptKept {
			t.Errorf("the old table of b: %+v", k)
		}
		if report, is, text = d.runQueue(o, entries); is != "earlier earlier earlier" || text != "" || !strings.Contains(report.Items[1].Why, "the old one is kept until") {
			t.Errorf("repeated when all is done: %s, %s, %q", is, text, report.Items[1].Why)
		}
		d.exec("ALTER TABLE " + d.schema + ".c DROP COLUMN z, DROP INDEX k")
		if _, is, text = d.runQueue(o, entries); is != "earlier earlier done" || text != "" {
			t.Errorf("after the third was undone: %s, %s", is, text)
		}
		d.exec("ALTER TABLE " + d.schema + ".c DROP COLUMN z")
		if _, is, text = d.runQueue(o, entries); is != "earlier earlier refused" || !strings.Contains(text, "the definition has changed since") {
			t.Errorf("after a part of the third was undone: %s, %s", is, text)
		}
	})
}

// TestQueueDuplicate refuses a table that occurs twice.
func TestQueueDuplicate(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE " + d.schema + ".a (id INT PRIMARY KEY)")
		_, is, text := d.runQueue(d.options("", ""), d.queueOf("a: ADD COLUMN x INT", "a: ADD COLUMN y INT"))
		if is != "waiting refused" || !strings.Contains(text, "the table is in line 1 too: join the clauses with commas") {
			t.Errorf("%s, %s", is, text)
		}
	})
}

// TestQueueKilled repeats a queue that was killed before and after the server has executed an entry.
func TestQueueKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE " + d.schema + ".a (id INT PRIMARY KEY AUTO_INCREMENT, n INT, CONSTRAINT positive CHECK (n > 0))")
		o, entries := d.options("", ""), d.queueOf("a: ADD COLUMN x INT")
		entry := entries[0]
		s, err := Parse(entry.Schema, entry.Table, entry.Clauses)
		if err != nil {
			t.Fatal(err)
		}
		c := d.connect()
		started := func() {
			t.Helper()
			one := o
			one.Table, one.Clauses = entry.Table, entry.Clauses
			r, err := open(t.Context(), &one)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			k := &queued{Clauses: s.Text, Before: definition(r.t.Create), After: bareDefinition(r.probed.Create)}
			if err := queueRecords.save(t.Context(), c, s, k); err != nil {
				t.Fatal(err)
			}
		}
		started()
		if _, is, text := d.runQueue(o, entries); is != "done" || text != "" {
			t.Errorf("killed before: %s, %s", is, text)
		}
		d.exec("ALTER TABLE " + d.schema + ".a DROP COLUMN x")
		started()
		d.exec("ALTER TABLE "+d.schema+".a ADD COLUMN x INT", "INSERT INTO "+d.schema+".a VALUES (7, 1, 1)")
		if report, is, text := d.runQueue(o, entries); is != "earlier" || text != "" || !strings.Contains(report.Items[0].Why, "was stopped when the server had done it") {
			t.Errorf("killed after: %s, %s, %+v", is, text, report.Items)
		}
		d.exec("ALTER TABLE " + d.schema + ".a ADD COLUMN other INT")
		if _, is, text := d.runQueue(o, entries); is != "refused" || !strings.Contains(text, "compare it by hand") {
			t.Errorf("altered by others too: %s, %s", is, text)
		}
	})
}

// TestQueueAbort aborts a queue over its control socket while a copy waits for ctl cutover, and repeats it.
func TestQueueAbort(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("a", 20)
		d.fillForms("b", 20)
		o, entries := d.options("", ""), d.queueOf("a: MODIFY small INT", "b: MODIFY small INT")
		o.AlwaysCopy, o.Postpone, o.Control, o.Monitor = true, true, t.TempDir()+"/s", &Monitor{}
		ended := make(chan error, 1)
		var report *QueueReport
		go func() {
			var err error
			report, err = RunQueue(context.WithoutCancel(t.Context()), o, entries, func(*QueueItem) {})
			ended <- err
		}()
		control := control.NewClient(o.Control)
		defer control.Close()
		testwait.Until(t, "the swap of the first to be postponed", func() bool {
			s, err := control.Status(t.Context())
			return err == nil && s.Alter.Step() == telemetry.StepPostponed && s.Alter.QueuePosition() == 1 && len(s.Alter.Queue) == 2
		})
		if _, err := control.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, "the queue to end", ended); err == nil || !strings.Contains(err.Error(), "ctl abort") || states(report) != "failed waiting" {
			t.Errorf("%v: %s", err, states(report))
		}
		o.Postpone = false
		if _, is, text := d.runQueue(o, entries); is != "done done" || text != "" {
			t.Errorf("repeated: %s, %s", is, text)
		}
	})
}
