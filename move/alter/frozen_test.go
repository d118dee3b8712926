package alter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

var allFreezes = flag.Bool("all-freezes", false, "freeze swaps and reverts at each of their statements, on both servers")

// freezes are the statements of a swap at which a process is frozen, before the server has them or after.
var freezes = map[string][]string{
	"MariaDB": {"CREATE TABLE `", "LOCK TABLES `", "RENAME TABLE `", "DROP TABLE `", "UNLOCK TABLES"},
	"MySQL":   {"LOCK TABLES `", " WRITE, `", "UNLOCK TABLES", "RENAME TABLE `"},
}

// TestSwapFrozen freezes an alteration, and a revert, at the statements of the swap, as a stopped process or a network that has lost
// its packets does: clients write on before it thaws, since the server ends its sessions. Afterwards it completes the swap, or the
// same command does, and nothing that was acknowledged is lost.
func TestSwapFrozen(t *testing.T) {
	seed := testseed.New(t)
	onBoth(t, func(t *testing.T, d *database) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		type freeze struct {
			text          string
			after, revert bool
		}
		var all []freeze
		for _, text := range freezes[d.product] {
			for i := range 4 {
				all = append(all, freeze{text, i%2 == 1, i/2 == 1})
			}
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if !*allFreezes {
			all = all[:2]
		}
		for i, f := range all {
			t.Run(fmt.Sprintf("%s after %t revert %t", strings.Trim(f.text, " `,"), f.after, f.revert), func(t *testing.T) {
				t.Parallel()
				own := *d
				own.t = t
				own.frozen(fmt.Sprintf("f%d", i), f.text, f.after, f.revert)
			})
		}
	})
}

// frozen freezes an alteration of a new table, or its revert.
func (d *database) frozen(table, text string, after, revert bool) {
	t := d.t
	const rows = 50
	d.fillForms(table, rows)
	o := d.options(table, "ADD COLUMN note VARCHAR(20) DEFAULT 'x'")
	o.AlwaysCopy, o.Workers = true, 1
	alter := Run
	if revert {
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		alter = Revert
	}
	w := d.write(table, rows, nil)
	p := testproxy.Start(t, o.On.Addr)
	frozen := o
	frozen.On.Addr, frozen.On.TLSMode = p.Addr, mysqlconn.TLSDisabled // the proxy reads the statements
	reached := make(chan struct{})
	var writes atomic.Int64
	freeze := func() {
		p.Stall()
		writes.Store(w.writes.Load())
		close(reached)
	}
	if text == "CREATE TABLE `" || text == "DROP TABLE `" { // not those of the shadow
		text += d.schema + "`.`" + (&Statement{Table: table}).sentry()
	}
	p.At(text, after, freeze)
	ended := make(chan error, 1)
	go func() {
		_, err := alter(t.Context(), frozen)
		ended <- err
	}()
	testwait.Receive(t, "the statement "+text, reached)
	testwait.Until(t, "clients to write while the command is frozen", func() bool { return w.writes.Load() > writes.Load()+20 })
	p.Resume()
	if err := testwait.Receive(t, "the command to end", ended); err != nil {
		t.Logf("frozen: %v", err)
		if _, err := alter(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	w.end(d, table, "n")
	t.Logf("longest wait of a client: %v", w.longest)
	want := "1"
	if revert {
		want = "0"
	}
	if n := d.value(d.connect(), "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = '"+table+"' AND COLUMN_NAME = 'note'"); n != want {
		t.Errorf("the column was added: %s, want %s", n, want)
	}
}

// TestSwapBesideAnyText swaps tables while another client executes a statement with a character of four bytes, which MySQL's
// information_schema.PROCESSLIST cannot show.
func TestSwapBesideAnyText(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.fillForms("t", 50)
		c := d.connect()
		id := d.value(c, "SELECT CONNECTION_ID()")
		ended := make(chan error, 1)
		go func() {
			_, err := c.Exec(t.Context(), "SELECT SLEEP(3600), '\U0001F43B'")
			ended <- err
		}()
		watcher := d.connect()
		testwait.Until(t, "the statement to be executed", func() bool {
			state, _, err := session.State(t.Context(), watcher, id)
			if err != nil {
				t.Fatal(err)
			}
			return state == "User sleep"
		})
		o := d.options("t", "ADD COLUMN note INT")
		o.AlwaysCopy = true
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		d.exec("KILL " + id)
		_ = testwait.Receive(t, "the statement to end", ended)
	})
}
