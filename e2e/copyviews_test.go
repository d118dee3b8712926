//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var viewRounds = flag.Int("copyviews.rounds", 2, "rounds of TestCopyShortViews for each of two servers")

const (
	viewRows = 60_000

	// longestView is the maximum age of a transaction that reads rows, in seconds: views live for at most 1 s
	// here, and the rest allows for a busy machine.
	longestView = 10
)

// viewKinds are the kinds of copies.
var viewKinds = []copyKind{
	{"unique", []string{"--tables=flw.v"}, [][2]string{{"id, u, v, p) from flw.v", "id, u, v, p) from flw.v"}}},
	{"unique, parts", []string{"--tables=flw.v", "--where=flw.v: v < 6"}, [][2]string{{"id, u, v, p) from flw.v where v < 6", "id, u, v, p) from flw.v"}}},
}

// A viewWriter writes to a table with two unique keys: it exchanges values of the second one, changes keys,
// deletes and inserts.
type viewWriter struct {
	stop context.CancelFunc
	all  sync.WaitGroup
}

func startViewWriter(t *testing.T, s *testmysql.Server, seed uint64) *viewWriter {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &viewWriter{stop: cancel}
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	for n := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, n))
		w.all.Go(func() {
			pace := time.NewTicker(4 * time.Millisecond) // leaves the copy its part of a small machine
			defer pace.Stop()
			for ctx.Err() == nil {
				w.write(ctx, db, rnd)
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	t.Cleanup(func() { _ = db.Close() })
	return w
}

// write executes one transaction. Any statement may be refused, for a duplicate value or a deadlock.
func (w *viewWriter) write(ctx context.Context, db *sql.DB, rnd *rand.Rand) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return // the server is being restarted
	}
	defer func() { _ = tx.Rollback() }() // it is committed, or was rolled back by the server
	do := func(format string, a ...any) { _, _ = tx.ExecContext(ctx, fmt.Sprintf(format, a...)) }
	id := func() int { return 1 + rnd.IntN(viewRows) }
	for range 1 + rnd.IntN(4) {
		a, b := id(), id()
		switch rnd.IntN(6) {
		case 0: // exchange
			do("update flw.v set u = -%d where id = %d", a, a)
			do("update flw.v set u = %d where id = %d", a, b)
			do("update flw.v set u = %d where u = -%d", b, a)
		case 1: // reuse a value
			do("update flw.v set u = null, v = v + 1 where u = %d", a)
			do("update flw.v set u = %d where id = %d", a, b)
		case 2:
			do("update flw.v set id = id + %d, v = (v + 1) %% 10 where id = %d", viewRows, a)
		case 3:
			do("update flw.v set id = id - %d where id = %d", viewRows, a+viewRows)
		case 4:
			do("delete from flw.v where id between %d and %d", a, a+2)
		case 5:
			do("insert into flw.v values (%d, %d, %d, repeat('n', 200))", a, b, rnd.IntN(10))
		}
	}
	_ = tx.Commit() // the round compares the actual rows
}

func (w *viewWriter) end(t *testing.T) {
	t.Helper()
	w.stop()
	testwait.Group(t, "the writers to end", &w.all)
}

// watchViews records the maximum age of the user copier's transactions until the test ends.
func watchViews(t *testing.T, s *testmysql.Server) (oldest func() int) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	most, looks := 0, 0
	watching.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond) // the server refreshes its list every 0.1 s
		defer ticker.Stop()
		for ctx.Err() == nil {
			var age int
			err := db.QueryRowContext(ctx, "select coalesce(max(timestampdiff(second, trx_started, now())), 0) from information_schema.innodb_trx t"+
				" join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.user = 'copier'").Scan(&age)
			if err == nil { // otherwise it is restarting
				most, looks = max(most, age), looks+1
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return func() int {
		cancel()
		testwait.Group(t, "the watch to end", &watching)
		_ = db.Close()
		if looks == 0 {
			t.Error("the source's transactions were never seen")
		}
		return most
	}
}

// TestCopyShortViews copies and follows a table with a second unique key through views of at most 0.2 or 1 s,
// under writes that exchange unique values and change keys. At random times the copy, its connections, or a
// server is killed.
func TestCopyShortViews(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	shortViewRounds(t, source, target)
}

// TestMySQLCopyShortViews is TestCopyShortViews between two MySQL servers.
func TestMySQLCopyShortViews(t *testing.T) { shortViewRounds(t, mysqlGTID.get(t), mysqlPlain.get(t)) }

func shortViewRounds(t *testing.T, source, target *testmysql.Server) {
	t.Helper()
	rnd := testseed.Rand(t)
	for round := range *viewRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			shortViewRound(t, source, target, viewKinds[round%len(viewKinds)], rnd)
		})
	}
}

func shortViewRound(t *testing.T, source, target *testmysql.Server, kind copyKind, rnd *rand.Rand) {
	t.Helper()
	for _, s := range []*testmysql.Server{source, target} {
		must(t, s.Exec("drop database if exists flw", "drop database if exists _tare", "create database flw"))
	}
	must(t, source.Exec("create table flw.v (id int primary key, u int unique, v int not null, p varchar(300))",
		"create table flw.d (n int)", "insert into flw.d values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
		fmt.Sprintf("insert into flw.v select n, n, n %% 10, repeat('x', 200) from "+
			"(select 1 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n n from flw.d a, flw.d b, flw.d c, flw.d d, flw.d e) x where n <= %d", viewRows), "analyze table flw.v"))
	f := &followRound{source: source, kind: kind, from: open(t, source.Addr, ""), to: open(t, target.Addr, ""), kept: keepEvidence(t, source, target)}
	scan(t, f.from, sumOf(kind.same[0][0]), &f.before)
	args := copyArgs(source, target, append([]string{"--follow", "--max-view-age", []string{"200ms", "1s"}[rnd.IntN(2)], "--chunk-bytes", "64KiB", "--workers", fmt.Sprint(1 + rnd.IntN(4))}, kind.flags...)...)
	oldest := watchViews(t, source)
	writer := startViewWriter(t, source, rnd.Uint64())
	f.interrupt(t, target, args, rnd, func() {})
	// The rest is copied and followed under writes; then they stop, and both sides are compared.
	c, events := startCopyTo(t, args, f.kept.run(args))
	awaitText(t, c, events, `"caught-up"`, "")
	c.end(syscall.SIGTERM)
	writer.end(t)
	f.finish(t, args)
	age := oldest()
	t.Logf("the oldest transaction of the copy on the source was %d s old", age)
	if age > longestView {
		t.Errorf("a transaction of the copy on the source was %d s old, and views live for at most 1 s", age)
	}
}
