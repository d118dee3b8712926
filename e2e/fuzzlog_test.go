//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var (
	fuzzLogTime = flag.Duration("fuzzlog.duration", 30*time.Second, "how long TestFuzzLog starts new episodes, for each server")
	fuzzLogTare = flag.String("fuzzlog.tare", "", "another tare binary that TestFuzzLog runs")
)

// TestFuzzLog runs random statements of all kinds on a source whose tables are followed. After each round
// both sides have the same rows and columns, or the copy has stopped with a reason. An episode is repeated by
// its seed, which is in its name: TARE_TEST_SEED=n with -fuzzlog.duration=0.
func TestFuzzLog(t *testing.T) {
	seed := testseed.New(t)
	for _, name := range []string{"MariaDB", "MySQL"} {
		t.Run(name, func(t *testing.T) {
			f := &fuzzLog{maria: name == "MariaDB", stops: map[string]int{}, steps: map[string]int{}, binary: binary}
			if *fuzzLogTare != "" {
				f.binary = *fuzzLogTare
			}
			f.start(t)
			for n, begun := uint64(0), time.Now(); n == 0 || time.Since(begun) < *fuzzLogTime; n++ {
				if !t.Run(fmt.Sprint(seed+n), func(t *testing.T) { f.episode(t, seed+n) }) && *fuzzLogTare == "" {
					break
				}
			}
			f.budgets(t)
		})
	}
}

// A fuzzLog is the servers of TestFuzzLog, and the results of its steps.
type fuzzLog struct {
	binary         string
	maria          bool
	source, target *testmysql.Server
	from, to       *sql.DB
	steps, stops   map[string]int // by class
	reasons        []string
}

func (f *fuzzLog) start(t *testing.T) {
	account := testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	opts := []testmysql.Option{testmysql.WithBinlog(), account, testmysql.WithArgs("--log-bin-trust-function-creators=1")}
	if !f.maria {
		opts = append(opts, testmysql.WithMySQL())
	}
	f.source, f.target = testmysql.Start(t, opts...), testmysql.Start(t, opts...)
	must(t, f.source.Exec("set global local_infile = 1"))
	must(t, f.target.Exec("set global local_infile = 1"))
	mysql.RegisterReaderHandler("fuzz", func() io.Reader { return strings.NewReader("3\t33\n77\t78\n") })
	for _, s := range []struct {
		db **sql.DB
		at *testmysql.Server
	}{{&f.from, f.source}, {&f.to, f.target}} {
		db, err := sql.Open("mysql", s.at.DSN(testmysql.RootUser))
		must(t, err)
		db.SetMaxIdleConns(0) // each step is a session
		t.Cleanup(func() { _ = db.Close() })
		*s.db = db
	}
}

// run runs statements in a session. Those that fail change nothing.
func (f *fuzzLog) run(t *testing.T, sql ...string) {
	t.Helper()
	c, err := f.from.Conn(t.Context())
	must(t, err)
	defer c.Close()
	for _, s := range sql {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := c.ExecContext(ctx, s); err != nil {
			t.Logf("    %s -- %v", s, err)
		} else {
			t.Logf("    %s", s)
		}
		cancel()
	}
}

// A fuzzEpisode is a source and a target from their creation to a difference, a stop or the end.
type fuzzEpisode struct {
	*fuzzLog
	g      *fuzzGen
	tables []string // followed tables

	altered bool // the first step alters a table
}

func (f *fuzzLog) episode(t *testing.T, seed uint64) {
	e := &fuzzEpisode{fuzzLog: f, g: &fuzzGen{Rand: rand.New(rand.NewPCG(seed, 2)), maria: f.maria}, tables: []string{"fz.a", "fz.b", "fz.c"}}
	must(t, f.source.Exec(fuzzSchema...))
	must(t, f.target.Exec("drop database if exists fz", "drop database if exists _tare", "create database fz character set utf8mb4"))
	f.run(t, e.g.rows(12)...)
	first := e.command("--follow", "--follow-until=caught-up")
	switch e.g.IntN(6) {
	case 0: // no definition is recorded
		first = e.command()
		e.altered = true
	case 1: // tables are added later
		tables := e.tables
		e.tables = tables[:1]
		first = e.command("--follow", "--follow-until=caught-up")
		e.tables = tables
		e.altered = true
	case 2:
		e.prepared(t, first)
		first = nil
	}
	if first != nil {
		if out, stderr, err := command(t, "", f.binary, first...); err != nil {
			t.Fatalf("the first copy: %v\n%s%s", err, out, stderr)
		}
	}
	stop := f.noise(t)
	defer stop()
	for range 3 {
		if !e.round(t) || t.Failed() {
			return
		}
	}
}

func (e *fuzzEpisode) command(more ...string) []string {
	return copyArgs(e.source, e.target, append([]string{"--tables=" + strings.Join(e.tables, ",")}, more...)...)
}

// prepared starts the first copy while an XA transaction is prepared, which is committed when the copy has
// its snapshot, or waits for that.
func (e *fuzzEpisode) prepared(t *testing.T, args []string) {
	ctx := t.Context()
	c, err := e.from.Conn(ctx)
	must(t, err)
	defer c.Close()
	for _, sql := range []string{"xa start 'early'", "insert into fz.a (id, price) values (900, 900)", "xa end 'early'", "xa prepare 'early'"} {
		_, err := c.ExecContext(ctx, sql)
		must(t, err)
	}
	// It does not follow yet: it may exit before the commit.
	run, events := startCopyOf(t, e.binary, args, io.Discard)
	limit := time.After(2 * time.Second)
wait:
	for {
		select {
		case line, ok := <-events:
			if !ok || strings.Contains(line, "snapshot") {
				break wait
			}
		case <-limit:
			break wait
		}
	}
	_, err = c.ExecContext(ctx, "xa commit 'early'")
	must(t, err)
	testwait.Receive(t, "the copy's end", run.exited)
}

// noise writes to the log continuously.
func (f *fuzzLog) noise(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := f.from.Conn(ctx)
		if err != nil {
			return
		}
		defer c.Close()
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			_, _ = c.ExecContext(ctx, "insert into fzx.noise values (1)") // the table is dropped and created
		}
	}()
	return func() {
		cancel()
		testwait.Receive(t, "the end of the noise", done)
	}
}

// round runs some steps, lets the target catch up and compares. It reports whether the copy continues.
func (e *fuzzEpisode) round(t *testing.T) bool {
	var steps []fuzzStep
	for range 1 + e.g.IntN(4) {
		steps = append(steps, e.g.safe())
	}
	switch {
	case e.altered:
		steps = append(steps, e.g.reordered())
		e.altered = false
	case e.g.IntN(2) == 0:
		steps = append(steps, e.g.unsafe())
	}
	var live *child
	if e.g.IntN(2) == 0 {
		live, _ = startCopyOf(t, e.binary, e.command("--follow"), io.Discard)
	}
	for _, s := range steps {
		t.Logf("  %s:", s.class)
		e.run(t, s.sql...)
		e.steps[s.class]++
	}
	if live != nil {
		_ = live.cmd.Process.Signal(syscall.SIGTERM) // it may have stopped
		testwait.Receive(t, "the end of the live copy", live.exited)
	}
	last := steps[len(steps)-1]
	for try := 0; ; try++ {
		out, stderr, err := command(t, "", e.binary, e.command("--follow", "--follow-until=caught-up")...)
		if err == nil {
			e.compare(t)
			return true
		}
		t.Logf("  stopped: %s", strings.TrimSpace(stderr))
		if !explained(stderr) {
			t.Fatalf("it stopped without a reason: %v\n%s%s", err, out, stderr)
		}
		if try == 0 {
			e.stops[last.class]++
			if stopBudgets[last.class] == 0 {
				e.reasons = append(e.reasons, t.Name()+": "+last.class+": "+strings.TrimSpace(stderr))
			}
		}
		if try == 2 || strings.Contains(stderr, "--restart") && !strings.Contains(stderr, "run the same command") {
			return false
		}
		if try == 0 {
			for _, sql := range last.alter {
				if err := e.target.Exec(sql); err != nil {
					t.Logf("  target: %v", err)
				}
			}
		}
	}
}

// explained reports whether a message advises what to do.
func explained(stderr string) bool {
	return slices.ContainsFunc([]string{"--restart", "run the same command", "there is no such table", "anew", "foreign key", "differs", "drop it, or add it", "has no"}, func(s string) bool { return strings.Contains(stderr, s) })
}

// compare compares columns and rows.
func (e *fuzzEpisode) compare(t *testing.T) {
	t.Helper()
	for _, table := range e.tables {
		if diff := cmp.Diff(fuzzRows(t, e.from, table), fuzzRows(t, e.to, table)); diff != "" {
			t.Errorf("SILENT DIFFERENCE in %s, source against target:\n%s", table, diff)
		}
	}
}

// fuzzRows returns the columns of a table, from SHOW CREATE TABLE, and its rows, column by column.
func fuzzRows(t *testing.T, db *sql.DB, table string) (all []string) {
	t.Helper()
	var name, create string
	if err := db.QueryRowContext(t.Context(), "show create table "+table).Scan(&name, &create); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	var columns []string
	for line := range strings.Lines(create) {
		if strings.HasPrefix(line, "  `") {
			line = strings.Trim(line, ", \n")
			all = append(all, line)
			columns = append(columns, line[:strings.Index(line[1:], "`")+2])
		}
	}
	slices.Sort(all)
	slices.Sort(columns)
	sums := make([]string, len(columns))
	for i, c := range columns {
		sums[i] = "coalesce(hex(" + c + "), 'NULL')"
	}
	rows, err := db.QueryContext(t.Context(), "select concat_ws(' ', "+strings.Join(sums, ", ")+") from "+table+" order by 1")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var row string
		must(t, rows.Scan(&row))
		all = append(all, row)
	}
	must(t, rows.Err())
	return all
}

// budgets fails if steps of a class stopped the copy too often.
func (f *fuzzLog) budgets(t *testing.T) {
	for class, n := range f.steps {
		t.Logf("%-18s %5d steps, %4d stops", class, n, f.stops[class])
		if float64(f.stops[class]) > stopBudgets[class]*float64(n) {
			t.Errorf("%s: %d of %d steps stopped the copy, which may be %.0f %%", class, f.stops[class], n, 100*stopBudgets[class])
		}
	}
	for _, r := range f.reasons {
		fmt.Fprintln(os.Stderr, r)
	}
}
