package alter

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A replicating is how a product's servers replicate by GTIDs.
type replicating struct {
	options   []testmysql.Option
	fresh     []string // statements for a server that has executed nothing yet
	replicate string   // from a port
	stop      []string
	executed  string // selects the GTIDs of all transactions
	await     string // waits until GTIDs are executed; selects 0 if they are
}

var replications = map[string]replicating{
	"MariaDB": {
		options: []testmysql.Option{testmysql.WithBinlog(), testmysql.WithArgs("--log-slave-updates=ON", "--gtid-strict-mode=ON")},
		fresh:   []string{"RESET MASTER", "SET GLOBAL gtid_slave_pos = ''"},
		replicate: "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '" + testmysql.RootUser + "', MASTER_PASSWORD = '" + testmysql.Password +
			"', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_USE_GTID = slave_pos; START SLAVE",
		stop:     []string{"STOP SLAVE", "RESET SLAVE ALL"},
		executed: "SELECT @@gtid_binlog_pos",
		await:    "SELECT MASTER_GTID_WAIT('%s', 60)",
	},
	"MySQL": {
		options: []testmysql.Option{testmysql.WithBinlog(), testmysql.WithMySQL(), testmysql.WithArgs("--gtid-mode=ON", "--enforce-gtid-consistency=ON")},
		fresh:   []string{"RESET BINARY LOGS AND GTIDS"},
		replicate: "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, SOURCE_USER = '" + testmysql.RootUser + "', SOURCE_PASSWORD = '" + testmysql.Password +
			"', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
		stop:     []string{"STOP REPLICA", "RESET REPLICA ALL"},
		executed: "SELECT @@GLOBAL.gtid_executed",
		await:    "SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', 60)",
	},
}

// newPair returns a schema on a server, and the same on its replica.
func newPair(t *testing.T, product string) (primary, replica *database) {
	t.Helper()
	how := replications[product]
	var pair [2]*database
	for i := range pair {
		options := append([]testmysql.Option{testmysql.WithArgs(fmt.Sprintf("--server-id=%d", 81+i))}, how.options...)
		server := testmysql.StartOrSkip(t, options...)
		pair[i] = &database{t: t, server: server, product: product, schema: "failover"}
		pair[i].exec(how.fresh...)
	}
	primary, replica = pair[0], pair[1]
	replica.exec(strings.Split(fmt.Sprintf(how.replicate, primary.server.Port()), "; ")...)
	primary.exec("CREATE DATABASE failover CHARACTER SET utf8mb4")
	return primary, replica
}

// promote waits for the replica to have all transactions of the primary, which is stopped, and ends its replication.
func promote(primary, replica *database) {
	t := primary.t
	t.Helper()
	how := replications[primary.product]
	at := strings.ReplaceAll(primary.value(primary.connect(), how.executed), "\n", "")
	if late := replica.value(replica.connectTo("information_schema"), fmt.Sprintf(how.await, at)); late != "0" {
		status := ""
		if _, err := replica.connectTo("information_schema").Query(t.Context(), "SHOW REPLICA STATUS", func(row mysqlwire.TextRow) error {
			status = fmt.Sprintf("%q", row)
			return nil
		}); err != nil {
			status = err.Error()
		}
		t.Fatalf("the replica has not executed %s: %s", at, status)
	}
	if err := primary.server.Kill(); err != nil {
		t.Fatal(err)
	}
	replica.exec(how.stop...)
}

var allFailovers = flag.Bool("all-failovers", false, "TestFailover tries all moments on both servers")

// TestFailover ends runs on a primary, and has a run on its promoted replica complete them: while rows are copied, when the swap is due, when
// the tables are swapped but the way back is not recorded, and when the old table is kept.
func TestFailover(t *testing.T) {
	rnd := testseed.Rand(t)
	t.Parallel()
	ends := map[string]func(telemetry.Event) bool{
		"copying":   func(e telemetry.Event) bool { return e.Kind == telemetry.EventChunk },
		"caught-up": func(e telemetry.Event) bool { return e.Kind == telemetry.EventCaughtUp },
		"swapped":   func(e telemetry.Event) bool { return strings.Contains(e.Text, "has the name") },
	}
	moments := map[string]func(t *testing.T, primary, replica *database){
		"address": addressMoved,
		"kept":    revertedAfterFailover,
	}
	for name, end := range ends {
		moments[name] = func(_ *testing.T, primary, replica *database) { primary.failOver(replica, name == "swapped", end) }
	}
	names := slices.Sorted(maps.Keys(moments))
	one := rnd.IntN(len(names))
	for number, product := range slices.Sorted(maps.Keys(replications)) {
		for i, name := range names {
			if *allFailovers || i == (one+number)%len(names) {
				t.Run(product+"/"+name, func(t *testing.T) {
					primary, replica := newPair(t, product)
					moments[name](t, primary, replica)
				})
			}
		}
	}
}

// failOver ends a run at an event, has it resumed on the replica, and reverts that.
func (d *database) failOver(replica *database, swapped bool, at func(telemetry.Event) bool) {
	t := d.t
	d.fillForms("t", 200)
	was := d.create("t")
	w := d.write("t", 200, nil)
	o := d.options("t", "ADD COLUMN made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD INDEX by_n (n)")
	o.AlwaysCopy, o.ChunkBytes, o.Workers = true, 4<<10, 2
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	observe := o.Observe
	o.Observe = func(e telemetry.Event) {
		if observe(e); at(e) {
			cancel(errStop)
		}
	}
	if _, err := Run(ctx, o); err == nil {
		t.Fatal("the run has reached its end")
	}
	w.pause(d)
	promote(d, replica)

	w.start(replica, "t", 200)
	o.On, o.Observe = replica.config(), observe
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !swapped && report.Copy.Tables[0].Before == 0 {
		t.Errorf("no row of the first run is resumed: %+v", report.Copy.Tables[0])
	}
	if swapped && report.Copy.Report != nil {
		t.Error("the table is copied again")
	}
	if _, err := Revert(t.Context(), o); err != nil {
		t.Errorf("revert: %v", err)
	}
	w.end(replica, "t", "n")
	if now := replica.create("t"); now != was {
		t.Errorf("the definition is %s, want %s", now, was)
	}
}

func revertedAfterFailover(t *testing.T, primary, replica *database) {
	primary.fillForms("t", 50)
	was := primary.create("t")
	w := primary.write("t", 50, nil)
	o := primary.options("t", "ADD COLUMN added INT, ADD INDEX by_n (n)")
	o.AlwaysCopy, o.Workers = true, 2
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.pause(primary)
	promote(primary, replica)

	w.start(replica, "t", 50)
	o.On = replica.config()
	report, err := Revert(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Copy.Kept.State != KeptReverted {
		t.Errorf("the old table is %s", report.Copy.Kept.State)
	}
	w.end(replica, "t", "n")
	if now := replica.create("t"); now != was {
		t.Errorf("the definition is %s, want %s", now, was)
	}
}

// addressMoved has the address of a primary become that of its promoted replica, in the middle of a run.
func addressMoved(t *testing.T, primary, replica *database) {
	primary.fillForms("t", 200)
	w := primary.write("t", 200, nil)
	proxy := testproxy.Start(t, primary.server.Addr)
	o := primary.options("t", "ADD COLUMN added INT, ADD INDEX by_n (n)")
	o.On.Addr, o.AlwaysCopy, o.ChunkBytes, o.Workers, o.Patience = proxy.Addr, true, 4<<10, 2, 10*time.Second
	observe := o.Observe
	var once sync.Once
	o.Observe = func(e telemetry.Event) {
		if observe(e); e.Kind == telemetry.EventChunk {
			once.Do(func() {
				w.pause(primary)
				promote(primary, replica)
				proxy.SetUpstream(replica.server.Addr)
				proxy.Cut()
				w.start(replica, "t", 200)
			})
		}
	}
	_, err := Run(t.Context(), o)
	t.Logf("the run whose server was replaced: %v", err)
	if err != nil {
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	w.end(replica, "t", "n")
	if c := replica.connect(); replica.value(c, "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'failover' AND TABLE_NAME = 't' AND INDEX_NAME = 'by_n'") != "1" {
		t.Error("the table is not altered")
	}
}
