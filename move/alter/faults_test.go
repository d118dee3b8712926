package alter

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var allFaults = flag.Bool("all-faults", false, "TestFaults has a fault at 40 packets of each alteration, otherwise at some")

// A faultyAlter is a use of the package whose packets have faults.
type faultyAlter struct {
	name    string
	clauses string
	options func(*Options)                             // nil: the defaults
	before  func(o Options) error                      // without a fault; nil: nothing is done before
	do      func(ctx context.Context, o Options) error // nil: Run

	changes bool // the definition
	cells   int  // unless all are tested
}

// faultyAlters are those of TestFaults.
func faultyAlters(d *database) []faultyAlter {
	run := func(ctx context.Context, o Options) error {
		_, err := Run(ctx, o)
		return err
	}
	copies := func(o *Options) { o.AlwaysCopy, o.ChunkBytes, o.Workers, o.KeepOld = true, 1<<10, 1, 0 }
	keeps := func(o *Options) {
		copies(o)
		o.KeepOld, o.LossyRevert = time.Hour, true
	}
	before := func(o Options) error { return run(d.t.Context(), o) }
	const clauses = "MODIFY n BIGINT NOT NULL"
	c := d.connect()
	left := func(prefix string, record *job) func(Options) error { // of an alteration that has ended
		return func(o Options) error {
			d.exec("CREATE TABLE " + o.Schema + "." + prefix + o.Table + " (id INT PRIMARY KEY)")
			s, err := Parse(o.Schema, o.Table, o.Clauses)
			if err != nil {
				return err
			}
			return jobRecords.save(d.t.Context(), c, s, record)
		}
	}
	return []faultyAlter{
		{name: "lint", clauses: clauses, options: copies, cells: 60, do: func(ctx context.Context, o Options) error {
			p, err := Lint(ctx, o)
			if err == nil && (p.Way != WayCopy || p.Judgement.CopyRefused != "" || p.Judgement.Whole.Error != "") {
				err = fmt.Errorf("it plans %+v", p)
			}
			return err
		}},
		{name: "instant", clauses: "ADD COLUMN note INT", changes: true, cells: 12},
		{name: "in place", clauses: "ADD INDEX by_n (n)", changes: true, cells: 4},
		{name: "copy", clauses: clauses, options: copies, changes: true, cells: 4},
		{name: "copy, old table kept", clauses: clauses, options: keeps, changes: true, cells: 2},
		{name: "revert", clauses: clauses, options: keeps, before: before, cells: 2, changes: true, do: func(ctx context.Context, o Options) error {
			_, err := Revert(ctx, o)
			return err
		}},
		{name: "finish", clauses: clauses, cells: 20, before: left("_tare_old_", &job{Clauses: clauses, Kept: &kept{Until: time.Now().Add(time.Hour)}}), do: func(ctx context.Context, o Options) error {
			_, err := Finish(ctx, o)
			return err
		}},
		{name: "cancel", clauses: clauses, cells: 20, before: left("_tare_new_", &job{Clauses: clauses}), do: func(ctx context.Context, o Options) error {
			_, err := Cancel(ctx, o)
			return err
		}},
		{name: "after a revert", clauses: "ADD COLUMN note INT", changes: true, cells: 20, before: left("_tare_rev_", &job{Clauses: clauses, Kept: &kept{Until: time.Now().Add(time.Hour)}})},
		{name: "queue", clauses: "ADD COLUMN note INT", changes: true, cells: 12, do: func(ctx context.Context, o Options) error {
			_, err := RunQueue(ctx, o, []QueueEntry{{Line: 1, Schema: o.Schema, Table: o.Table, Clauses: o.Clauses}}, func(*QueueItem) {})
			return err
		}},
	}
}

// A left is the state after an alteration.
type left struct {
	create, rows string
	others       string // tables beside it
	records      string
}

// find returns what there is of a table.
func (d *database) find(c *mysqlconn.Client, table string) left {
	d.t.Helper()
	l := left{rows: d.value(c, "SELECT GROUP_CONCAT(CONCAT(id, '=', n) ORDER BY id) FROM "+table)}
	if _, err := c.Query(d.t.Context(), "SHOW CREATE TABLE "+table, func(row mysqlwire.TextRow) error {
		l.create = faultyName.ReplaceAllString(string(row[1]), "t")
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	l.others = faultyName.ReplaceAllString(d.value(c, "SELECT COALESCE(GROUP_CONCAT(TABLE_NAME ORDER BY TABLE_NAME), '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME LIKE '%tare%"+table+"'"), "t")
	for _, records := range []string{"alter_job WHERE table_schema = '" + d.schema + "' AND table_name = '" + table + "'", "copy_table WHERE target_schema = '" + d.schema + "' AND target_table LIKE '%" + table + "'"} {
		n, err := session.QueryValue(d.t.Context(), c, "SELECT COUNT(*) FROM _tare."+records)
		if state.Absent(err) {
			n, err = "0", nil
		}
		if err != nil {
			d.t.Fatal(err)
		}
		l.records += n + " "
	}
	return l
}

// faultyName matches the names of tables of TestFaults.
var faultyName = regexp.MustCompile(`faulty_\d+_`)

// TestFaults has a fault of each kind at each packet of an alteration, in turn: the result is the one without a fault, or it fails with the cause;
// the table has one of the two definitions, and all rows. Repeated, it has the result, unless the server had done all of it.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a part of make long")
	}
	aloneOnBoth(t, func(t *testing.T, d *database) {
		rnd := testseed.Rand(t)
		proxy := testproxy.StartFaulty(t, d.server.Addr)
		c := d.connect()
		tables := 0
		outcomes, statements := make(map[string]int), make(map[string]bool)
		for _, a := range faultyAlters(d) {
			if a.do == nil {
				a.do = func(ctx context.Context, o Options) error {
					_, err := Run(ctx, o)
					return err
				}
			}
			var o Options
			fresh := func() {
				t.Helper()
				tables++
				table := fmt.Sprintf("faulty_%d_", tables)
				d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY, n INT NOT NULL, b VARCHAR(200))",
					"INSERT INTO "+d.schema+"."+table+" VALUES (1, 10, REPEAT('x', 200)), (2, 20, ''), (3, 30, REPEAT('x', 200)), (4, 40, ''), (5, 50, ''), (6, 60, REPEAT('x', 200)), (7, 70, '')")
				o = d.options(table, a.clauses)
				o.Observe, o.On.TLSMode, o.MaxLockWait = nil, mysqlconn.TLSDisabled, 4*time.Second // on a busy machine a shorter one takes several tries
				if a.options != nil {
					a.options(&o)
				}
				if a.before != nil {
					if err := a.before(o); err != nil {
						t.Fatalf("%s: %v", a.name, err)
					}
				}
			}
			through := func() Options {
				o := o
				o.On.Addr = proxy.Addr
				return o
			}
			fresh()
			was := d.find(c, o.Table)
			proxy.Set(0, "")
			err := a.do(t.Context(), through())
			packets := proxy.Packets()
			if err != nil {
				t.Fatalf("%s without a fault: %v", a.name, err)
			}
			want := d.find(c, o.Table)
			if a.changes == (want.create == was.create) || want.rows != was.rows {
				t.Fatalf("%s without a fault: %+v, was %+v", a.name, want, was)
			}
			cells := testproxy.AllFaults(packets, max(1, len(packets)/40))
			if !*allFaults {
				cells = testproxy.SomeFaults(rnd, packets, statements)
				rnd.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
				cells = cells[:min(a.cells, len(cells))]
			}
			proxy.Each(cells, fresh, func() error { return a.do(t.Context(), through()) }, func(cell testproxy.Cell, err error) {
				place := a.name + ", " + cell.String()
				got := d.find(c, o.Table)
				if err == nil {
					outcomes[string(cell.Fault)+": done"]++
					if got != want {
						t.Errorf("%s: %+v, want %+v", place, got, want)
					}
					return
				}
				outcomes[string(cell.Fault)+": failed"]++
				switch {
				case cell.Fault == testproxy.Delayed:
					t.Errorf("%s: %v", place, err)
				case cell.Fault == testproxy.Refused && !strings.Contains(err.Error(), testproxy.RefusedText),
					cell.Fault == testproxy.Deadlock && !strings.Contains(err.Error(), "the proxy reports a deadlock"),
					cell.Fault != testproxy.Refused && cell.Fault != testproxy.Deadlock && !state.IsUnreachable(err):
					t.Errorf("%s: it failed without the cause: %v", place, err)
				}
				if got.rows != was.rows || got.create != was.create && got.create != want.create {
					t.Errorf("%s: it failed, and left %+v", place, got)
				}
				err = a.do(t.Context(), o)
				if again := d.find(c, o.Table); again != want || err != nil && got != want {
					t.Errorf("%s, repeated: %v, %+v, want %+v", place, err, again, want)
				}
			})
		}
		t.Log(outcomes)
		if len(outcomes) < 2 {
			t.Error("too few faults")
		}
	})
}
