package copier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// handoverWriter writes transactions as an account without special privileges until the server is read-only, and records the ids whose
// insertion was acknowledged.
type handoverWriter struct {
	mu    sync.Mutex
	next  int
	acked []string
}

func (w *handoverWriter) write(ctx context.Context, cfg mysqlconn.Config, seed uint64) error {
	rnd := newRand(seed)
	c, err := session.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it has no open transaction that matters
	// A read lock on the server waits for a statement that waits for a row of a transaction whose next statement waits for the read lock.
	if _, err := c.Exec(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		return err
	}
	pace := time.NewTicker(10 * time.Millisecond) // at full speed the copy falls behind on a busy machine, and each comparison waits for it
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		w.mu.Lock()
		w.next++
		id := 1000000 + w.next
		w.mu.Unlock()
		statements := []string{
			"BEGIN", fmt.Sprintf("INSERT INTO split.o VALUES (%d, %d, 'new')", id, rnd.IntN(50)),
			fmt.Sprintf("UPDATE split.o SET customer = %d WHERE id = %d", rnd.IntN(50), 1+rnd.IntN(200)),
			fmt.Sprintf("DELETE FROM split.r WHERE id = %d", 1+rnd.IntN(200)), fmt.Sprintf("REPLACE INTO split.r VALUES (%d, '2026-02-%02d')", 1+rnd.IntN(200), 1+rnd.IntN(28)),
			fmt.Sprintf("REPLACE INTO split.all_rows VALUES (%d, %d)", rnd.IntN(20), rnd.IntN(50)), "COMMIT",
		}
		for _, sql := range statements {
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
		case errors.As(err, &refused) && refused.Number == 1290: // read-only
			return nil
		case errors.As(err, &refused) && (refused.Number == mysqlwire.ErrnoDeadlock || refused.Number == mysqlwire.ErrnoLockWaitTimeout):
			if _, err := c.Exec(ctx, "ROLLBACK"); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// TestSplitHandover hands tables over to three targets while clients write to the source: interrupted at random events, with a try that
// waits too long for a transaction, and in states that a killed run leaves. Clients write until the source is read-only. Each
// acknowledged write is then in exactly one target, and the targets are not changed again.
func TestSplitHandover(t *testing.T) {
	rnd := testseed.Rand(t)
	p := newPair(t, "split")
	sqlExec(t, p.source, "CREATE TABLE o (id INT PRIMARY KEY, customer BIGINT NOT NULL, note VARCHAR(20), KEY customer (customer))",
		"CREATE TABLE r (id INT PRIMARY KEY, at DATETIME)", "CREATE TABLE all_rows (id INT PRIMARY KEY, v INT)",
		"INSERT INTO o SELECT seq, seq % 50, CONCAT('row ', seq) FROM seq_1_to_200", "INSERT INTO r SELECT seq, '2026-01-01' + INTERVAL seq DAY FROM seq_1_to_200",
		"CREATE OR REPLACE USER split_app IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON split.* TO split_app")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS split_0", "DROP DATABASE IF EXISTS split_1", "DROP DATABASE IF EXISTS split_2")
	t.Cleanup(func() {
		if err := p.from.Exec("SET GLOBAL read_only = 0", "DROP USER split_app"); err != nil {
			t.Error(err)
		}
	})
	clauses := []string{"split.o: hash(customer)", "split.r: range(at, '2026-02-01', '2026-03-01')", "split.all_rows: all"}
	const longest = 20 * time.Second
	handOver := func(ctx context.Context, tries int, pause time.Duration, change func(*copier.Options), observe func(telemetry.Event)) ([]*copier.Report, error) {
		t.Helper()
		parts := splitOptions(t, p, clauses...)
		for i := range parts {
			parts[i].UntilCaughtUp = false
			if change != nil {
				change(&parts[i])
			}
		}
		return runSplit(t, func() ([]*copier.Report, error) {
			s, err := copier.NewSplit(parts, "", observe)
			if err == nil {
				err = s.HandOver(cutover.HandoverOptions{Source: root(p.from), Lag: testwait.Limit, MaxPause: pause, Tries: tries})
			}
			if err != nil {
				t.Fatal(err)
			}
			return s.Run(ctx)
		})
	}
	app := root(p.from)
	app.User = "split_app"
	var w handoverWriter
	var writing sync.WaitGroup
	writers, stop := context.WithCancel(t.Context())
	defer stop()
	failed := make([]error, 2)
	write := func() {
		for i := range failed {
			seed := rnd.Uint64()
			writing.Go(func() { failed[i] = errors.Join(failed[i], w.write(writers, app, seed)) })
		}
	}
	phases := func() []string {
		if len(read(t, p.target, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_tare' AND TABLE_NAME = 'copy_cutover'")) == 0 {
			return nil
		}
		return read(t, p.target, "SELECT phase FROM _tare.copy_cutover WHERE targets LIKE 'split%' ORDER BY targets")
	}
	writable := func() bool { return read(t, p.source, "SELECT @@GLOBAL.read_only + 0")[0] == `["0"]` }
	write()
	interrupts := 2
	if testing.Short() {
		interrupts = 1
	}
	for range interrupts {
		ctx, cancel := context.WithCancel(t.Context())
		at, n := 1+rnd.IntN(60), 0
		var mu sync.Mutex
		reports, err := handOver(ctx, 100, longest, nil, func(telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == at {
				cancel()
			}
		})
		cancel()
		if strings.Contains(strings.Join(phases(), ","), "handed over") {
			if err != nil { // interrupted past the point of no return: the same command completes that
				reports, err = handOver(t.Context(), 1, longest, nil, nil)
			}
			if err != nil || reports[0].Cutover.Phase != cutover.PhaseHanded {
				t.Fatalf("after the point of no return: %v", err)
			}
			testwait.Group(t, "the writers to be refused", &writing) // go back only then: a writer that has not tried meanwhile would write on
			sqlExec(t, p.target, "DELETE FROM _tare.copy_cutover")
			sqlExec(t, p.source, "SET GLOBAL read_only = 0")
			write()
			continue
		}
		if !writable() {
			t.Fatalf("interrupted (%v): the source is read-only, with records %v", err, phases())
		}
	}

	open := connect(t, app)
	sqlExec(t, open, "BEGIN", "INSERT INTO split.o VALUES (5000, 1, 'open')")
	_, err := handOver(t.Context(), 1, time.Second, func(o *copier.Options) { o.Verify = false }, nil)
	if err == nil || !strings.Contains(err.Error(), "against writes") || !writable() { // the server's or the handover's time may be over first
		t.Fatalf("with an open transaction: %v", err)
	}
	sqlExec(t, open, "COMMIT")
	if len(phases()) > 0 {
		t.Errorf("records of a try that was rolled back: %v", phases())
	}

	// A run was killed before the first target had recorded the handover: the source is made writable, and clients write on.
	for i, phase := range []string{"handing over", "handed over", "handing over"} {
		sqlExec(t, p.target, fmt.Sprintf("REPLACE INTO _tare.copy_cutover (id, version, source, targets, phase, source_position, target_position, noted) "+
			"SELECT id, version, source, targets, '%s', position, '', noted FROM _tare.copy_follow WHERE targets LIKE 'split\\_%d.%%'", phase, i))
	}
	if n := len(phases()); n != 3 {
		t.Fatalf("%d records", n)
	}
	sqlExec(t, p.source, "SET GLOBAL read_only = 1")
	testwait.Group(t, "the writers to be refused", &writing)
	released := false
	var mu sync.Mutex
	reports, err := handOver(t.Context(), 100, longest, nil, func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == telemetry.EventCutover && strings.Contains(e.Text, "the source is writable again") {
			released = true
			write()
		}
	})
	if err != nil || !released {
		t.Fatalf("after a run that was killed: %v, the source was made writable: %v", err, released)
	}
	testwait.Group(t, "the writers to be refused", &writing)
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Mismatches() != 0 || r.Cutover.Phase != cutover.PhaseHanded { // rows that change in each comparison are undecided
			t.Errorf("%d rows differ, cutover %+v", r.Mismatches(), r.Cutover)
		}
	}
	compareSplit(t, p, w.acked...)
	t.Logf("%d transactions were acknowledged", len(w.acked))

	// The same command changes nothing, even if the records of later targets are missing.
	sqlExec(t, p.target, "UPDATE _tare.copy_cutover SET phase = 'handing over' WHERE targets LIKE 'split\\_1.%'")
	reports, err = handOver(t.Context(), 1, longest, nil, nil)
	if err != nil || reports[2].Cutover.Phase != cutover.PhaseHanded || strings.Join(phases(), "") != `["handed over"]["handed over"]["handed over"]` {
		t.Errorf("again: %v, records %v", err, phases())
	}
	if _, err := handOver(t.Context(), 1, longest, func(o *copier.Options) { o.Restart = true }, nil); err == nil || !strings.Contains(err.Error(), "option restart would empty tables that clients write to") {
		t.Errorf("with option restart: %v", err)
	}
	s, err := copier.NewSplit(splitOptions(t, p, clauses...), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is recorded as handed over") {
		t.Errorf("without a cutover: %v", err)
	}
	sqlExec(t, p.source, "SET GLOBAL read_only = 0") // as after a restart
	if _, err := handOver(t.Context(), 1, longest, nil, nil); err == nil || !strings.Contains(err.Error(), "is not read-only, as after a restart of it") {
		t.Errorf("the source is writable: %v", err)
	}
	compareSplit(t, p, w.acked...)
}
