package alter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
)

// nothingLeft checks that a table has its former definition, and that nothing of an alteration is left.
func (d *database) nothingLeft(table, was string) {
	d.t.Helper()
	if is := d.create(table); is != was {
		d.t.Errorf("the definition is\n%s\nwas\n%s", is, was)
	}
	c := d.connect()
	if left := d.value(c, "SELECT GROUP_CONCAT(TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME LIKE '%tare%'"); left != "" {
		d.t.Errorf("tables are left: %s", left)
	}
	for _, records := range []string{"alter_job WHERE table_schema", "copy_table WHERE target_schema", "copy_chunk WHERE target_schema", "copy_definition WHERE target_schema"} {
		if n := d.value(c, "SELECT COUNT(*) FROM _tare."+records+" = '"+d.schema+"'"); n != "0" {
			d.t.Errorf("%s of %s are left", n, records)
		}
	}
}

// A cancelledStep is a step in which an alteration is cancelled.
type cancelledStep struct {
	name    string
	event   func(telemetry.Event) bool
	prepare func(*Options)
	holds   bool // another session has used the table in a transaction
}

// TestCancel cancels alterations over their control sockets in each step, and without a process after they were stopped in it.
func TestCancel(t *testing.T) {
	trying := func(e telemetry.Event) bool { return strings.Contains(e.Text, "next try in") }
	onBoth(t, func(t *testing.T, d *database) {
		for _, step := range []cancelledStep{
			{name: "copying", event: func(e telemetry.Event) bool { return e.Kind == telemetry.EventChunk }},
			{name: "following", event: func(e telemetry.Event) bool { return e.Kind == telemetry.EventCaughtUp }},
			{name: "postponed", event: func(e telemetry.Event) bool { return strings.Contains(e.Text, "postponed") }, prepare: func(o *Options) { o.Postpone = true }},
			{name: "swapping", event: trying, holds: true},
			{name: "altering", event: trying, holds: true, prepare: func(o *Options) { o.AlwaysCopy = false }},
		} {
			for _, running := range []bool{true, false} {
				if !running && step.name == "altering" {
					continue // it has created nothing
				}
				t.Run(fmt.Sprintf("%s running %t", step.name, running), func(t *testing.T) {
					t.Parallel()
					newDatabase(t, d.product).cancel(&step, running)
				})
			}
		}
	})
}

// cancel cancels an alteration in a step.
func (d *database) cancel(step *cancelledStep, running bool) {
	t := d.t
	d.fillForms("t", 300)
	was := d.create("t")
	o := d.options("t", "ADD COLUMN note INT")
	o.AlwaysCopy, o.ChunkBytes, o.Control = true, 4<<10, t.TempDir()+"/s"
	if step.prepare != nil {
		step.prepare(&o)
	}
	c := d.connect()
	if step.holds {
		for _, sql := range []string{"START TRANSACTION", "SELECT COUNT(*) FROM t"} {
			if err := d.execOn(c, sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	control := control.NewClient(o.Control)
	defer control.Close()
	var once sync.Once
	there, gone := make(chan struct{}), make(chan struct{})
	o.Observe = func(e telemetry.Event) {
		if step.event(e) {
			once.Do(func() {
				close(there)
				if !running {
					stop(errStop)
				}
				<-gone
			})
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o)
		ended <- err
	}()
	testwait.Receive(t, "the step "+step.name, there)
	var err error
	if running {
		_, err = control.Cancel(t.Context())
	}
	close(gone)
	if err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, "the run to end", ended); running && !errors.Is(err, ErrCancelled) || !running && err == nil {
		t.Error(err)
	}
	if step.holds {
		if err := d.execOn(c, "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
	if !running {
		var own Listed
		testwait.Until(t, "the server to notice the end of the run's connection", func() bool {
			all, err := List(t.Context(), o)
			i := slices.IndexFunc(all, func(l Listed) bool { return l.Table == d.schema+".t" })
			if err != nil || i < 0 {
				t.Fatalf("listed %+v, %v", all, err)
			}
			own = all[i]
			return !own.Running
		})
		if own.State != ListedCopying || !strings.Contains(own.Text(), "no process works on it") {
			t.Errorf("listed %+v", own)
		}
		if clauses, err := Cancel(t.Context(), o); err != nil || clauses != o.Clauses {
			t.Errorf("cancelled %q, %v", clauses, err)
		}
	}
	d.nothingLeft("t", was)
	if _, err := Cancel(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nothing to cancel") {
		t.Errorf("cancelled twice: %v", err)
	}
}

// TestCancelTooLate cancels an alteration whose tables are swapped.
func TestCancelTooLate(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 20)
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy = true
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, err := Cancel(t.Context(), o); !errors.Is(err, errTooLate) {
			t.Error(err)
		}
	})
}

// TestCleanup drops the old tables whose time is over, and no others.
func TestCleanup(t *testing.T) {
	aloneOnBoth(t, func(t *testing.T, d *database) {
		for table, keep := range map[string]time.Duration{"over": time.Millisecond, "kept": time.Hour} {
			d.fillForms(table, 5)
			o := d.options(table, "ADD COLUMN note INT")
			o.AlwaysCopy, o.KeepOld = true, time.Hour
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if keep < time.Second { // the record says that it is over
				d.exec("UPDATE _tare.alter_job SET job = JSON_SET(CONVERT(job USING utf8mb4), '$.kept.until', '2020-01-01T00:00:00Z') WHERE table_schema = '" + d.schema + "' AND table_name = '" + table + "'")
			}
		}
		o := d.options("", "")
		dropped, err := Cleanup(t.Context(), o)
		if err != nil || len(dropped) != 1 || dropped[0].Table != d.schema+".over" || dropped[0].Alter != "ADD COLUMN note INT" {
			t.Errorf("dropped %+v, %v", dropped, err)
		}
		c := d.connect()
		if left := d.value(c, "SELECT GROUP_CONCAT(TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME LIKE '%tare%'"); left != "_tare_old_kept" {
			t.Errorf("%s are left", left)
		}
		all, err := List(t.Context(), o)
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		l := all[len(all)-1]
		if l.State != ListedKept || l.Expired || l.Running || l.Old != d.schema+"._tare_old_kept" || !strings.Contains(l.Text(), "is kept until ") {
			t.Errorf("listed %+v", l)
		}
	})
}

// TestHooks has a command executed for the events of alterations.
func TestHooks(t *testing.T) {
	t.Setenv("TARE_ON", "mysql://app:hunter2@db1")
	d := newDatabase(t, "MariaDB")
	d.fillForms("t", 20)
	file := t.TempDir() + "/events"
	run := func(clauses string, copies bool) error {
		o := d.options("t", clauses)
		o.AlwaysCopy, o.KeepOld, o.OnEvent = copies, time.Hour, "cat >> "+file+"; env | grep -c hunter2 >> "+file+"; true"
		_, err := Run(t.Context(), o)
		return err
	}
	if err := run("ADD COLUMN note INT", false); err != nil {
		t.Error(err)
	}
	if err := run("ADD COLUMN note INT", false); err == nil {
		t.Error("a column is added twice")
	}
	if err := run("MODIFY small INT", true); err != nil {
		t.Error(err)
	}
	o := d.options("t", "")
	o.LossyRevert, o.OnEvent = true, "cat >> "+file
	if _, err := Revert(t.Context(), o); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(string(text)) {
		if line == "0\n" {
			continue
		}
		var e hookEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, string(e.Event))
		switch {
		case e.Table != d.schema+".t" || e.Server != d.server.Addr || e.Time.IsZero():
			t.Errorf("event %+v", e)
		case e.Event == hookRowsCopied && e.Rows != 20, e.Event == hookFailed && !strings.Contains(e.Error, "1060"),
			e.Event == hookSwapped && (e.Old != d.schema+"._tare_old_t" || e.Until == "" || e.PauseSeconds <= 0 || e.Way != WayCopy || e.Alter != "MODIFY small INT"):
			t.Errorf("event %+v", e)
		}
	}
	if got, want := strings.Join(kinds, " "), "started altered started failed started rows_copied ready_to_swap swapped reverted"; got != want {
		t.Errorf("the events are\n%s\nwant\n%s", got, want)
	}

	// A command that fails is reported, and the alteration proceeds.
	var said []string
	var mu sync.Mutex
	o = d.options("t", "ADD COLUMN other INT")
	o.OnEvent = "echo no ticket; exit 3"
	o.Observe = func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, e.Text)
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if !strings.Contains(strings.Join(said, "\n"), "option on-event for started: exit status 3: no ticket; the alteration proceeds") {
		t.Errorf("said %q", said)
	}
}
