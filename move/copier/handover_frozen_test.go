package copier_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var allFreezes = flag.Bool("all-freezes", false, "freeze handovers at each of their statements, on both servers")

// handoverFreezes are texts of the statements of a handover at which a process is frozen, before the server has them or after.
// In MySQL the snapshot with which the copy begins is locked too.
var handoverFreezes = map[string][]string{
	"MariaDB": {"LOCK TABLES `frozen", "'handing over'", "DO 0", "SET GLOBAL read_only = 1", "'handed over'"},
	"MySQL": {
		"FLUSH TABLES WITH READ LOCK", "XA RECOVER", "'handing over'", "SET GLOBAL super_read_only = 1", "information_schema.innodb_trx WHERE",
		"'handed over'",
	},
}

// frozenWriter inserts rows until it is stopped, and measures how long a statement waits.
type frozenWriter struct {
	statements atomic.Int64 // that were executed or refused
	longest    time.Duration
	acked      []string
}

func (w *frozenWriter) write(ctx context.Context, c *mysqlconn.Client) error {
	pace := time.NewTicker(2 * time.Millisecond) // paces: at full speed the copy falls behind on a busy machine
	defer pace.Stop()
	for id := 1000; ; id++ {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		began := time.Now()
		_, err := c.Exec(context.WithoutCancel(ctx), fmt.Sprintf("INSERT INTO frozen.o VALUES (%d, %d)", id, id%7))
		w.longest = max(w.longest, time.Since(began))
		var refused *mysqlconn.ServerError
		switch {
		case err == nil:
			w.acked = append(w.acked, fmt.Sprintf(`["%d"]`, id))
		case !errors.As(err, &refused) || refused.Number != mysqlwire.ErrnoReadOnly:
			return err
		}
		w.statements.Add(1)
	}
}

// TestHandoverFrozen freezes a handover at its statements, as a stopped process or a network that has lost its packets does: clients
// write on, or are refused, before it thaws, since the server ends its session. Afterwards it completes the handover, or the same command
// does, and nothing that was acknowledged is lost.
func TestHandoverFrozen(t *testing.T) {
	seed := testseed.New(t)
	for _, product := range []string{"MariaDB", "MySQL"} {
		t.Run(product, func(t *testing.T) {
			testmysql.SkipIfOff(t)
			to := servers.hold(t).to
			from := servers.hold(t).from
			if product == "MySQL" {
				from = servers.holdMySQL(t)
			}
			type freeze struct {
				text            string
				after, snapshot bool
			}
			var all []freeze
			for _, text := range handoverFreezes[product] {
				all = append(all, freeze{text, false, false}, freeze{text, true, false})
			}
			if product == "MySQL" {
				for _, text := range []string{"FLUSH TABLES WITH READ LOCK", "DO 0"} {
					all = append(all, freeze{text, false, true}, freeze{text, true, true})
				}
			}
			rnd := rand.New(rand.NewPCG(seed, 2))
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if !*allFreezes {
				all = all[:1]
			}
			for _, f := range all {
				t.Run(fmt.Sprintf("%s after %t snapshot %t", strings.Trim(f.text, " `'"), f.after, f.snapshot), func(t *testing.T) {
					freezeHandover(t, from, to, f.text, f.after, f.snapshot)
				})
			}
		})
	}
}

// freezeHandover freezes a handover of one table to two targets, or the snapshot before it.
func freezeHandover(t *testing.T, from, to *testmysql.Server, text string, after, snapshot bool) {
	const bound = time.Second
	source, target := connect(t, root(from)), connect(t, root(to))
	sqlExec(t, source, "SET GLOBAL read_only = 0", "DROP DATABASE IF EXISTS frozen", "CREATE DATABASE frozen",
		"CREATE TABLE frozen.o (id INT PRIMARY KEY, customer BIGINT NOT NULL)", "INSERT INTO frozen.o VALUES (1, 1), (2, 2), (3, 3)",
		"DROP USER IF EXISTS frozen_app", "CREATE USER frozen_app IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON frozen.* TO frozen_app")
	t.Cleanup(func() {
		if err := from.Exec("SET GLOBAL read_only = 0", "DROP USER frozen_app"); err != nil {
			t.Error(err)
		}
	})
	sqlExec(t, target, "DROP DATABASE IF EXISTS frozen_0", "DROP DATABASE IF EXISTS frozen_1", "DROP DATABASE IF EXISTS _tare")

	fromProxy, toProxy := testproxy.Start(t, from.Addr), testproxy.Start(t, to.Addr)
	account, there := root(from), root(to)
	account.Addr, there.Addr = fromProxy.Addr, toProxy.Addr
	account.TLSMode, there.TLSMode = mysqlconn.TLSDisabled, mysqlconn.TLSDisabled // the proxies read the statements
	account.ServerKey.Request = true
	handOver := func(observe func(telemetry.Event)) ([]*copier.Report, error) {
		return runSplit(t, func() ([]*copier.Report, error) {
			s, err := copier.NewSplit(frozenParts(t, account, there), "", observe)
			if err == nil {
				err = s.HandOver(cutover.HandoverOptions{Source: account, Lag: testwait.Limit, MaxPause: bound, Tries: 1000, Patience: testwait.Limit})
			}
			if err != nil {
				t.Fatal(err)
			}
			return s.Run(t.Context())
		})
	}
	app := root(from)
	app.User = "frozen_app"
	var w frozenWriter
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := connect(t, app)
	var writing sync.WaitGroup
	var failed error
	writing.Go(func() { failed = w.write(ctx, client) })

	reached := make(chan struct{})
	var once sync.Once
	var statements int64
	freeze := func() {
		once.Do(func() {
			fromProxy.Stall()
			toProxy.Stall()
			statements = w.statements.Load()
			close(reached)
		})
	}
	arm := sync.OnceFunc(func() {
		fromProxy.At(text, after, freeze)
		toProxy.At(text, after, freeze)
	})
	if snapshot {
		arm()
	}
	type result struct {
		reports []*copier.Report
		err     error
	}
	ended := make(chan result, 1)
	go func() {
		reports, err := handOver(func(e telemetry.Event) {
			if e.Kind == telemetry.EventCutover && strings.HasPrefix(e.Text, "writes to the source's tables are stopped") {
				arm()
			}
		})
		ended <- result{reports, err}
	}()
	testwait.Receive(t, "the statement "+text, reached)
	testwait.Until(t, "statements of clients to end while the command is frozen", func() bool { return w.statements.Load() > statements+20 })
	fromProxy.Resume()
	toProxy.Resume()
	r := testwait.Receive(t, "the command to end", ended)
	if r.err != nil {
		t.Logf("frozen: %v", r.err)
		if r.reports, r.err = handOver(nil); r.err != nil {
			t.Fatal(r.err)
		}
	}
	stop()
	testwait.Group(t, "the writer to end", &writing)
	if failed != nil {
		t.Fatal(failed)
	}
	t.Logf("longest wait of a client: %v; %d rows were acknowledged", w.longest, len(w.acked))
	for _, r := range r.reports {
		if r.Cutover.Phase != cutover.PhaseHanded {
			t.Errorf("cutover %+v", r.Cutover)
		}
	}
	have := make(map[string]bool)
	for _, id := range read(t, target, "SELECT id FROM frozen_0.o UNION ALL SELECT id FROM frozen_1.o") {
		if have[id] {
			t.Errorf("row %s is in both targets", id)
		}
		have[id] = true
	}
	for _, id := range append(w.acked, `["1"]`, `["2"]`, `["3"]`) {
		if !have[id] {
			t.Errorf("row %s is in no target", id)
		}
	}
	if v, err := session.QueryValue(t.Context(), source, "SELECT @@GLOBAL.read_only + 0"); err != nil || v != "1" {
		t.Errorf("read_only is %s (%v)", v, err)
	}
}

// frozenParts returns the copies of frozen.o to its two targets.
func frozenParts(t *testing.T, from, to mysqlconn.Config) []copier.Options {
	t.Helper()
	specs := [][]tabledef.Spec{
		{{Schema: "frozen", Name: "o", ToSchema: "frozen_0"}}, {{Schema: "frozen", Name: "o", ToSchema: "frozen_1"}},
	}
	if err := tabledef.AddSplit(specs, "frozen.o: hash(customer)"); err != nil {
		t.Fatal(err)
	}
	parts := make([]copier.Options, len(specs))
	for i := range parts {
		parts[i] = copier.Options{From: copier.FromServer(from), To: to, Tables: specs[i], Tuning: copier.Tuning{Workers: 1, Patience: testwait.Limit}, Follow: true}
	}
	return parts
}
