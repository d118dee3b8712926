package copier_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// TestFollowRefuses checks that tables which cannot be followed are refused before any row is copied.
func TestFollowRefuses(t *testing.T) {
	p := newPair(t, "refused")
	sqlExec(t, p.source, "CREATE TABLE a (id INT, x INT, y VARCHAR(9) COLLATE utf8mb4_general_ci, PRIMARY KEY (id, x), UNIQUE KEY `odd``key` (y(3), x))")
	sqlExec(t, p.target, "CREATE DATABASE refused")
	table := func(columns, more string) string {
		return "CREATE TABLE refused.a (" + columns + ", PRIMARY KEY (id, x)" + more + ")"
	}
	const all = "id INT, x INT, y VARCHAR(9) COLLATE utf8mb4_general_ci"
	for _, tt := range []struct {
		name, target string
		change       func(*copier.Options)
		want         string // empty: it is followed
	}{
		{
			"the key is not copied", "CREATE TABLE refused.a (id INT PRIMARY KEY)", func(o *copier.Options) { o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "id", To: "id"}} },
			"column x of refused.a is of its key and is not copied: to follow changes, the target must know which row they are about; add it to option columns",
		},
		{"a unique key more", table(all, ", UNIQUE KEY y (y)"), nil, "the target has the unique key (y) and the source does not"},
		{"another prefix", table(all, ", UNIQUE KEY y (y(4), x)"), nil, "the target has the unique key (y(4), x) and the source does not"},
		{"a column's name", table("`k``1` INT, id INT, x INT", ", UNIQUE KEY (`k``1`)"), func(o *copier.Options) {
			o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "id", To: "id"}, {From: "x", To: "x"}, {From: "y", To: "k`1"}}
		}, "is varchar(9) in the source and int(11) in the target"},
		{
			"no key", "CREATE TABLE refused.a (id INT NOT NULL, x INT NOT NULL)", func(o *copier.Options) {
				o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "id", To: "id"}, {From: "x", To: "x"}}
			},
			"the target has no unique key (id, x), which identifies rows in the source",
		},
		{"a foreign key", table(all, ", KEY (x), FOREIGN KEY (x) REFERENCES refused.parent (id)"), nil, ""},
		{"a condition", table(all, ""), func(o *copier.Options) { o.Tables[0].Where = "y = 'a'" }, "only the server can compare text under utf8mb4_general_ci"},
		{"the same keys", table(all, ", UNIQUE KEY other (Y(3), x)"), nil, ""},
		{"names that are not the source's", "CREATE TABLE refused.a (n INT, m INT, PRIMARY KEY (m, n))", func(o *copier.Options) {
			o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "x", To: "n"}, {From: "id", To: "m"}}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sqlExec(t, p.target, "DROP TABLE IF EXISTS refused.a, refused.parent", "CREATE TABLE refused.parent (id INT PRIMARY KEY)", tt.target)
			o := p.options("a")
			o.Follow = true
			if tt.change != nil {
				tt.change(&o)
			}
			_, err := copier.Plan(t.Context(), o)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFollowLater follows a copy that was made without following, whose recorded position has no GTID.
func TestFollowLater(t *testing.T) {
	p := newPair(t, "later")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20), KEY k (c))", "INSERT INTO a SELECT seq, 'old' FROM seq_1_to_50")
	if _, err := copier.Run(t.Context(), p.options("a")); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET position = SUBSTRING_INDEX(position, ' gtid', 1)")
	sqlExec(t, p.source, "UPDATE a SET c = 'new' WHERE id < 10", "DELETE FROM a WHERE id > 40", "INSERT INTO a VALUES (99, 'more')")
	o := p.options("a")
	o.Follow, o.UntilCaughtUp = true, true
	for _, changes := range []int64{20, 0} { // recorded changes are not applied again
		report, err := copier.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		p.same(t, "a")
		if f := report.Follow; f.Inserts+f.Updates+f.Deletes != changes || !f.CaughtUp {
			t.Errorf("%+v, want %d changes", f, changes)
		}
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_follow SET version = 99")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("written by another version of Tare (form 99, this one supports %d)", state.StateVersion)) {
		t.Errorf("a later form: got %v", err)
	}
	o.Restart = true
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Errorf("begun anew: %v", err)
	}
	p.same(t, "a")
}

// TestFollowFinish follows until finish is requested: everything written before that is in the target, in
// whole transactions, including one that is larger than a batch.
func TestFollowFinish(t *testing.T) {
	p := newPair(t, "finish")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(500))", "INSERT INTO a VALUES (0, 'first')")
	o := p.options("a")
	o.Follow, o.Control = true, filepath.Join(t.TempDir(), "control")
	caughtUp := make(chan struct{})
	once := sync.OnceFunc(func() { close(caughtUp) }) // a run that has lost its lease is followed by another
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventCaughtUp {
			once()
		}
	}
	var running sync.WaitGroup
	var report *copier.Report
	var err error
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		report, err = copier.Run(t.Context(), o)
	})
	select {
	case <-caughtUp:
	case <-ended:
		t.Fatal(err)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the copy to catch up")
	}
	sqlExec(t, p.source, "INSERT INTO a SELECT seq, REPEAT('x', 500) FROM seq_1_to_30000", "UPDATE a SET c = 'y' WHERE id % 2 = 0", "DELETE FROM a WHERE id % 3 = 0")
	control := control.NewClient(o.Control)
	defer control.Close()
	status, controlErr := control.Finish(t.Context())
	testwait.Group(t, "the copy to finish", &running)
	if err != nil || controlErr != nil {
		t.Fatal(err, controlErr)
	}
	p.same(t, "a")
	if status.Follow == nil || !status.Follow.CaughtUp {
		t.Errorf("status: %+v", status.Follow)
	}
	if f := report.Follow; f.Inserts != 30000 || f.Updates != 15001 || f.Deletes != 10001 {
		t.Errorf("%+v", f)
	}
}
