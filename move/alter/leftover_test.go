package alter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

var allLeftovers = flag.Bool("all-leftovers", false, "TestLeftRename lets the RENAME end at each packet of the next run")

// holdDDL are the statements that hold a RENAME of a table back in the server, and let it continue.
var holdDDL = map[string][2]string{
	"MariaDB": {"BACKUP LOCK %s", "BACKUP UNLOCK"},
	"MySQL":   {"LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"},
}

// TestLeftRename cuts an alteration, or a revert, off as a killed process is, while the server executes its RENAME. The RENAME ends at some packet
// of the next run, or once that waits for it. The next run completes the alteration, and no write is lost.
func TestLeftRename(t *testing.T) {
	seed := testseed.New(t)
	aloneOnBoth(t, func(t *testing.T, d *database) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		if *allLeftovers {
			for _, revert := range []bool{false, true} {
				for step := 1; d.leftRename(fmt.Sprintf("all_%d_%t", step, revert), revert, step); step++ {
				}
			}
			return
		}
		revert := rnd.IntN(2) == 0
		d.leftRename("at_first", revert, 1+rnd.IntN(12))
		d.leftRename("judged", false, 20+rnd.IntN(12)) // between the packets by which a run that does not wait judges and reads the tables
		d.leftRename("judged_back", true, 20+rnd.IntN(12))
	})
}

// leftRename lets the RENAME end at a packet of the next run. It returns false if that run has waited for the RENAME before, or
// the RENAME had ended.
func (d *database) leftRename(table string, revert bool, step int) bool {
	t := d.t
	const rows = 20
	d.fillForms(table, rows)
	o := d.options(table, "ADD COLUMN note VARCHAR(20) DEFAULT 'x'")
	o.AlwaysCopy, o.Workers, o.MaxLockWait, o.On.TLSMode = true, 1, time.Minute, mysqlconn.TLSDisabled // the proxy reads the statements
	alter, want := Run, "1"
	if revert {
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		alter, want = Revert, "0"
	}
	w := d.write(table, rows, nil)

	lock, renaming, watcher := d.connect(), d.connect(), d.connect()
	renames := func() bool {
		return d.value(renaming, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'RENAME TABLE%"+table+"%'") != "0"
	}
	hold := func() {
		sql := holdDDL[d.product][0]
		if strings.Contains(sql, "%s") {
			sql = fmt.Sprintf(sql, d.schema+"."+table)
		}
		if _, err := lock.Exec(t.Context(), sql); err != nil {
			t.Error(err)
		}
	}
	var once sync.Once
	executing := false
	let := func() {
		once.Do(func() {
			executing = renames() // MySQL gives up soon after its client has disconnected
			if _, err := lock.Exec(t.Context(), holdDDL[d.product][1]); err != nil {
				t.Error(err)
			}
			testwait.Until(t, "the RENAME to end", func() bool { return !renames() })
		})
	}
	p := testproxy.Start(t, o.On.Addr)
	isCut := make(chan struct{})
	cut := func() {
		testwait.Until(t, "the RENAME to wait", renames)
		p.SetUpstream("127.0.0.1:1")
		p.Cut()
		close(isCut)
	}
	if d.product == "MySQL" {
		p.At("RENAME TABLE `", false, func() {
			hold()
			go cut()
		})
	} else { // once the sentry is dropped
		p.At("UNLOCK TABLES", false, func() {
			hold()
			cut()
		})
	}
	cutOff := make(chan error, 1)
	go func() {
		killed := o
		killed.On.Addr, killed.Patience = p.Addr, time.Second
		_, err := alter(t.Context(), killed)
		cutOff <- err
	}()
	testwait.Receive(t, "the connections to be cut", isCut)

	next := testproxy.Start(t, d.server.Addr)
	left := step
	var reached atomic.Bool
	var at func()
	at = func() {
		if left--; left > 0 {
			next.At("", false, at)
			return
		}
		reached.Store(true)
		let()
	}
	next.At("", false, at)
	ended := make(chan error, 1)
	go func() {
		resumed := o
		resumed.On.Addr = next.Addr
		_, err := alter(t.Context(), resumed)
		ended <- err
	}()
	role := swapLock(&Statement{Schema: d.schema, Table: table}, "switcher")
	var err error
	done := false
	testwait.Until(t, "the next run to wait for the RENAME, or to end", func() bool {
		select {
		case err = <-ended:
			done = true
		default:
		}
		return done || d.value(watcher, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '%GET_LOCK(''"+role+"''%'") != "0"
	})
	let()
	if !done {
		err = testwait.Receive(t, "the next run to end", ended)
	}
	if testwait.Receive(t, "the run that was cut off to end", cutOff) == nil {
		t.Error("the run that was cut off has reached its end")
	}
	if err != nil {
		t.Errorf("step %d, revert %t: the next run: %v", step, revert, err)
	}
	w.end(d, table, "n")
	if n := d.value(watcher, "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = '"+table+"' AND COLUMN_NAME = 'note'"); n != want {
		t.Errorf("step %d, revert %t: the column was added: %s, want %s", step, revert, n, want)
	}
	return reached.Load() && executing
}

// TestKilledWhileDropping cuts an alteration off after each of its last statements, from the DROP of the old table on. The same command then reports that
// the table is altered, or, once the record is deleted, that the column exists.
func TestKilledWhileDropping(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for i, text := range []string{"DROP TABLE IF EXISTS `%s`.`_tare_old_", "DELETE FROM `_tare`.copy_epoch", "DELETE FROM `_tare`.copy_table", "DELETE FROM `_tare`.`alter_job`"} {
			table := fmt.Sprintf("d%d", i)
			d.fillForms(table, 20)
			o := d.options(table, "ADD COLUMN note INT DEFAULT 1")
			o.AlwaysCopy, o.KeepOld, o.Workers, o.On.TLSMode = true, 0, 1, mysqlconn.TLSDisabled // the proxy reads the statements
			p := testproxy.Start(t, o.On.Addr)
			killed := o
			killed.On.Addr, killed.Patience = p.Addr, time.Second
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, d.schema)
			}
			reached := make(chan struct{})
			observe := killed.Observe
			killed.Observe = func(e telemetry.Event) {
				observe(e)
				if strings.Contains(e.Text, "has the name") {
					p.At(text, true, func() {
						p.SetUpstream("127.0.0.1:1")
						p.Cut()
						close(reached)
					})
				}
			}
			if _, err := Run(t.Context(), killed); err == nil {
				t.Fatalf("%s: the run that was cut off has reached its end", text)
			}
			testwait.Receive(t, text, reached)
			report, err := Run(t.Context(), o)
			if i < 3 && (err != nil || report.Copy == nil || report.Copy.Kept.State != KeptDropped) || i == 3 && err != nil && !strings.Contains(err.Error(), "1060") {
				t.Errorf("after %s: %+v, %v", text, report, err)
			}
			if n := d.value(d.connect(), "SELECT COUNT(*) FROM "+table+" WHERE note = 1"); n != "20" {
				t.Errorf("after %s: %s rows have the column", text, n)
			}
			if n := d.value(d.connect(), "SELECT COUNT(*) FROM _tare.alter_job WHERE table_schema = '"+d.schema+"' AND table_name = '"+table+"'"); n != "0" {
				t.Errorf("after %s: a record is left", text)
			}
		}
	})
}

// TestSwapLocks ends the sessions that have the locks of a swap for a run that has ended.
func TestSwapLocks(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 5)
		var held []*mysqlconn.Client
		for _, role := range swapRoles {
			c := d.connect()
			if err := state.TakeLock(t.Context(), c, swapLock(&Statement{Schema: d.schema, Table: "t"}, role), time.Second); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy = true
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		for i, c := range held {
			if _, err := c.Exec(t.Context(), "DO 0"); err == nil {
				t.Errorf("the session of the %s was not ended", swapRoles[i])
			}
		}
	})
}
