package copier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// errInterrupted is the server's error for a statement of a session that is disconnected.
const errInterrupted = 1317

// writeXA writes rows in XA transactions, whose PREPARE and COMMIT a read-only MySQL accepts, until a statement fails.
func (w *handoverWriter) writeXA(ctx context.Context, cfg mysqlconn.Config) error {
	c, err := session.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its open transaction is rolled back
	for {
		w.mu.Lock()
		w.next++
		id := 1000000 + w.next
		w.mu.Unlock()
		xid := fmt.Sprintf("'split %d'", id)
		for _, sql := range []string{
			"XA START " + xid, fmt.Sprintf("INSERT INTO split.o VALUES (%d, %d, 'xa')", id, id%50), "XA END " + xid, "XA PREPARE " + xid, "XA COMMIT " + xid,
		} {
			if _, err = c.Exec(ctx, sql); err != nil {
				break
			}
		}
		var refused *mysqlconn.ServerError
		switch {
		case err == nil:
			w.mu.Lock()
			w.acked = append(w.acked, fmt.Sprintf(`["%d"]`, id))
			w.mu.Unlock()
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && (refused.Number == mysqlwire.ErrnoDeadlock || refused.Number == mysqlwire.ErrnoLockWaitTimeout):
			for _, sql := range []string{"XA END " + xid, "XA ROLLBACK " + xid} {
				_, _ = c.Exec(ctx, sql) // in other states
			}
		default: // refused or disconnected
			return nil
		}
	}
}

// TestSplitHandoverMySQL hands the tables of a MySQL over to three targets while clients write to it, with XA transactions too. A prepared one that no
// session has prevents it, and clients write on. In the end each acknowledged write is in exactly one target, and nothing is written to
// the source any more: neither by statements and commits that have waited for its lock, nor by XA PREPARE.
func TestSplitHandoverMySQL(t *testing.T) {
	testmysql.SkipIfOff(t)
	t.Parallel()
	rnd := testseed.Rand(t)
	from, to := servers.holdMySQL(t), servers.hold(t).to
	p := &pair{from: from, to: to, schema: "split", source: connect(t, root(from)), target: connect(t, root(to))}
	const numbers = "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 200) SELECT "
	sqlExec(t, p.source, "DROP DATABASE IF EXISTS split", "CREATE DATABASE split DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "USE split",
		"CREATE TABLE o (id INT PRIMARY KEY, customer BIGINT NOT NULL, note VARCHAR(20), KEY customer (customer))",
		"CREATE TABLE r (id INT PRIMARY KEY, at DATETIME)", "CREATE TABLE all_rows (id INT PRIMARY KEY, v INT)",
		"INSERT INTO o "+numbers+"seq, seq % 50, CONCAT('row ', seq) FROM n", "INSERT INTO r "+numbers+"seq, '2026-01-01' + INTERVAL seq DAY FROM n",
		"DROP USER IF EXISTS split_app", "CREATE USER split_app IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON split.* TO split_app",
		"DROP USER IF EXISTS split_copy", "CREATE USER split_copy IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON split.* TO split_copy",
		"GRANT RELOAD, REPLICATION CLIENT, REPLICATION SLAVE, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN ON *.* TO split_copy")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS split_0", "DROP DATABASE IF EXISTS split_1", "DROP DATABASE IF EXISTS split_2", "DROP DATABASE IF EXISTS _tare")
	t.Cleanup(func() {
		if err := from.Exec("SET GLOBAL read_only = 0", "DROP USER split_app, split_copy"); err != nil {
			t.Error(err)
		}
	})
	clauses := []string{"split.o: hash(customer)", "split.r: range(at, '2026-02-01', '2026-03-01')", "split.all_rows: all"}
	const longest = 20 * time.Second
	account := root(from)
	account.User = "split_copy"
	handOver := func(ctx context.Context, pause time.Duration, observe func(telemetry.Event)) ([]*copier.Report, error) {
		t.Helper()
		parts := splitOptions(t, p, clauses...)
		for i := range parts {
			parts[i].UntilCaughtUp, parts[i].Verify = false, false
		}
		s, err := copier.NewSplit(parts, "", observe)
		if err == nil {
			err = s.HandOver(cutover.HandoverOptions{Source: account, Lag: testwait.Limit, MaxPause: pause, Tries: 100})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.Run(ctx)
	}
	if _, err := handOver(t.Context(), longest, nil); err == nil || !strings.Contains(err.Error(), "must be permitted to do (PROCESS)") {
		t.Fatalf("without PROCESS: %v", err)
	}
	sqlExec(t, p.source, "GRANT PROCESS, XA_RECOVER_ADMIN ON *.* TO split_copy")

	app := root(from)
	app.User = "split_app"
	var w handoverWriter
	var writing sync.WaitGroup
	writers, stop := context.WithCancel(t.Context())
	defer stop()
	var failed error
	write := func() {
		writing.Go(func() {
			err := w.write(writers, app, rnd.Uint64())
			if refused := new(mysqlconn.ServerError); errors.As(err, &refused) && refused.Number != errInterrupted {
				failed = err // other errors are those of a session that was disconnected
			}
		})
	}
	writable := func() bool {
		return read(t, p.source, "SELECT @@GLOBAL.read_only + @@GLOBAL.super_read_only")[0] == `["0"]`
	}
	write()

	// A prepared transaction that no session has could be committed on a read-only server. It is prepared once the parts follow the source; until then
	// a locked table prevents the handover.
	prepared, parked := connect(t, app), connect(t, app)
	sqlExec(t, parked, "CREATE TABLE split.parked (id INT)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var caughtUp, found sync.Once
	var preparing sync.WaitGroup
	var snapshots atomic.Int32
	seen := false
	_, err := handOver(ctx, time.Second, func(e telemetry.Event) {
		switch {
		case e.Kind == telemetry.EventSnapshot && snapshots.Add(1) == 3: // a snapshot locks the source too
			sqlExec(t, parked, "LOCK TABLES split.parked WRITE")
		case e.Kind == telemetry.EventCaughtUp && e.To == "":
			caughtUp.Do(func() {
				preparing.Go(func() {
					sqlExec(t, prepared, "XA START 'left'", "INSERT INTO split.o VALUES (5001, 1, 'prepared')", "XA END 'left'", "XA PREPARE 'left'")
					_ = prepared.Close() // the transaction stays
					sqlExec(t, parked, "UNLOCK TABLES")
				})
			})
		case e.Kind == telemetry.EventCutover && strings.Contains(e.Text, "an XA transaction is prepared"):
			found.Do(func() {
				seen = true
				cancel()
			})
		}
	})
	testwait.Group(t, "the transaction to be prepared", &preparing)
	if !seen || !writable() {
		t.Fatalf("with a prepared transaction: %v, found: %v", err, seen)
	}
	if left := read(t, p.target, "SELECT phase FROM _tare.copy_cutover WHERE targets LIKE 'split%'"); len(left) > 0 {
		t.Errorf("records of a try that was rolled back: %v", left)
	}
	sqlExec(t, p.source, "XA COMMIT 'left'", "FLUSH BINARY LOGS")

	// A transaction and statements wait for the lock when the source becomes read-only.
	open, idle, other, watch := connect(t, app), connect(t, app), connect(t, app), connect(t, root(to))
	ended := make(chan error, 2)
	sqlExec(t, open, "BEGIN", "INSERT INTO split.o VALUES (5002, 1, 'open')")
	sqlExec(t, idle, "XA START 'idle'", "INSERT INTO split.o VALUES (5003, 1, 'idle')", "XA END 'idle'")
	var locked, following sync.Once
	reports, err := handOver(t.Context(), longest, func(e telemetry.Event) {
		switch {
		case e.Kind == telemetry.EventCaughtUp && e.To == "":
			following.Do(func() { writing.Go(func() { _ = w.writeXA(writers, app) }) })
		case e.Kind == telemetry.EventCutover && strings.Contains(e.Text, "are stopped"):
			locked.Do(func() {
				go func() {
					testwait.Until(t, "the source to be locked", func() bool {
						return len(read(t, watch, "SELECT 1 FROM _tare.copy_cutover WHERE targets LIKE 'split%'")) > 0
					})
					for c, sql := range map[*mysqlconn.Client]string{open: "COMMIT", other: "CREATE TABLE split.late (id INT)"} {
						go func() {
							_, err := c.Exec(t.Context(), sql)
							ended <- err
						}()
					}
				}()
			})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	testwait.Group(t, "the writers to be refused or disconnected", &writing)
	if failed != nil {
		t.Fatal(failed)
	}
	if _, err := idle.Exec(t.Context(), "XA PREPARE 'idle'"); err == nil {
		t.Error("a transaction was prepared on the read-only source: it could be committed")
	}
	for range 2 {
		if err := testwait.Receive(t, "a statement to be refused", ended); err == nil {
			t.Error("a statement that has waited for the lock was executed")
		}
	}
	for _, r := range reports {
		if r.Cutover.Phase != cutover.PhaseHanded {
			t.Errorf("cutover %+v", r.Cutover)
		}
	}
	if got := read(t, p.source, "SELECT @@GLOBAL.read_only + @@GLOBAL.super_read_only"); got[0] != `["2"]` {
		t.Errorf("read_only + super_read_only is %v", got)
	}
	w.acked = append(w.acked, `["5001"]`) // the prepared transaction
	compareSplit(t, p, w.acked...)
	t.Logf("%d transactions were acknowledged", len(w.acked))

	// The same command changes nothing. After an interruption before the point of no return, it makes the source writable.
	if reports, err = handOver(t.Context(), longest, nil); err != nil || reports[2].Cutover.Phase != cutover.PhaseHanded {
		t.Errorf("again: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_cutover SET phase = 'handing over' WHERE targets LIKE 'split%'")
	released := false
	var mu sync.Mutex
	reports, err = handOver(t.Context(), longest, func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == telemetry.EventCutover && strings.Contains(e.Text, "the source is writable again") {
			released = true
			write()
		}
	})
	if err != nil || !released || reports[0].Cutover.Phase != cutover.PhaseHanded {
		t.Fatalf("after a run that was killed: %v, the source was made writable: %v", err, released)
	}
	testwait.Group(t, "the writers to be refused or disconnected", &writing)
	compareSplit(t, p, w.acked...)
}
