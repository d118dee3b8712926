//go:build e2e

package e2e

import (
	"bufio"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var copyRounds = flag.Int("copy.rounds", 20, "rounds of TestCopyFollow, of three kinds in turn")

// A copyKind is a way to copy sysbench's tables: flags, and expressions that must have equal sums, as a pair
// for the source and for the target.
type copyKind struct {
	name  string
	flags []string
	same  [][2]string
}

var copyKinds = []copyKind{
	{"whole", []string{"--tables=flw.sbtest1,flw.sbtest2"}, [][2]string{
		{"id, k, c, pad) from flw.sbtest1", "id, k, c, pad) from flw.sbtest1"},
		{"id, k, c, pad) from flw.sbtest2", "id, k, c, pad) from flw.sbtest2"},
	}},
	{"parts", []string{
		"--tables=flw.sbtest1,flw.sbtest2", "--where=flw.sbtest1: k between 2000 and 3000 or id < 500", "--columns=flw.sbtest2: c as text, id",
	}, [][2]string{
		{"id, k, c, pad) from flw.sbtest1 where k between 2000 and 3000 or id < 500", "id, k, c, pad) from flw.sbtest1"},
		{"id, c) from flw.sbtest2", "id, text) from flw.sbtest2"},
	}},
	{"shard", []string{"--tables=flw.sbtest1", "--only-shard=flw.sbtest1: k=2/3"}, [][2]string{
		{"id, k, c, pad) from flw.sbtest1 where crc32(k) % 3 = 1", "id, k, c, pad) from flw.sbtest1"},
	}},
}

// sumOf returns a statement that sums rows.
func sumOf(what string) string {
	columns, from, _ := strings.Cut(what, ")")
	return "select concat(count(*), ' rows, ', coalesce(sum(crc32(concat_ws('#', " + columns + "))), 0)) " + from
}

// startCopy runs a copy and delivers its events.
func startCopy(t *testing.T, args []string) (c *child, events <-chan string) {
	t.Helper()
	return startCopyTo(t, args, io.Discard)
}

// startCopyTo is startCopy that also writes the events to w.
func startCopyTo(t *testing.T, args []string, to io.Writer) (c *child, events <-chan string) {
	t.Helper()
	return startCopyOf(t, binary, args, to)
}

// startCopyOf is startCopyTo with another binary.
func startCopyOf(t *testing.T, tare string, args []string, to io.Writer) (c *child, events <-chan string) {
	t.Helper()
	cmd := exec.Command(tare, args...)
	r, w := io.Pipe()
	cmd.Stdout = io.MultiWriter(to, w)
	reported := make(chan string, 1<<16)
	c = startChild(t, cmd, func([]byte) {})
	go func() {
		<-c.exited
		w.Close()
	}()
	go func() {
		defer close(reported)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 64<<20) // an inventory is one line
		for lines.Scan() {
			select {
			case reported <- lines.Text():
			default: // excess events are dropped
			}
		}
	}()
	return c, reported
}

// awaitEvents waits for some events, or for the copy's end.
func awaitEvents(t *testing.T, c *child, events <-chan string, n int) {
	t.Helper()
	limit := time.After(time.Minute)
	for range n {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case <-limit:
			t.Fatalf("the copy tells nothing:\n%s", c.text())
		}
	}
}

// TestCopyFollow copies tables under sysbench's oltp_read_write and follows them. At random times the copy,
// its connections to the source, or one of the servers is killed and started again. Then the writes stop, and
// both sides have the same rows.
func TestCopyFollow(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	rnd := testseed.Rand(t)
	for round := range *copyRounds {
		kind := copyKinds[round%len(copyKinds)]
		t.Run(fmt.Sprintf("%d %s", round, kind.name), func(t *testing.T) { copyFollowRound(t, source, target, kind, rnd) })
	}
}

// killCopier kills the connections of a server's user copier.
func killCopier(t *testing.T, s *testmysql.Server) {
	t.Helper()
	db := open(t, s.Addr, "")
	var version string
	scan(t, db, "select version()", &version)
	if strings.Contains(version, "MariaDB") {
		must(t, s.Exec("kill user copier"))
		return
	}
	root, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	defer root.Close()
	rows, err := root.QueryContext(t.Context(), "select id from performance_schema.processlist where user = 'copier'")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		must(t, rows.Scan(&id))
		_ = s.Exec("kill " + id) // it may be closed already
	}
	must(t, rows.Err())
}

// A followRound is a source under writes, and a target that has to become equal.
type followRound struct {
	source   *testmysql.Server
	kind     copyKind
	from, to *sql.DB
	before   string // previous state of the first table
	load     *exec.Cmd
	kept     *evidence // nil: none
}

func newFollowRound(t *testing.T, source, target *testmysql.Server, kind copyKind) *followRound {
	t.Helper()
	must(t, source.Exec("drop database if exists flw", "drop database if exists _tare", "create database flw")) // it may have been the target before
	must(t, target.Exec("drop database if exists flw", "drop database if exists _tare", "create database flw"))
	sysbench(t, "prepare", source.Addr, "flw", "oltp_read_write")
	if strings.Contains(strings.Join(kind.flags, " "), "--columns") {
		must(t, target.Exec("create table flw.sbtest2 (text char(120) not null, id int primary key)"))
	}
	f := &followRound{source: source, kind: kind, from: open(t, source.Addr, ""), to: open(t, target.Addr, "")}
	scan(t, f.from, sumOf(kind.same[0][0]), &f.before)
	return f
}

// write writes until the source is unreachable, or rest is called.
func (f *followRound) write(t *testing.T) {
	t.Helper()
	f.load = exec.CommandContext(t.Context(), "sysbench", append(sysbenchArgs(t, f.source.Addr, "flw", "oltp_read_write",
		"--threads=4", "--time=300", "--rate=200", "--mysql-ignore-errors=all"), "run")...)
	must(t, f.load.Start())
}

func (f *followRound) rest() {
	_ = f.load.Process.Kill() // it may have exited with its server
	_ = f.load.Wait()
}

// finish runs the copy until it has caught up, and compares both sides.
func (f *followRound) finish(t *testing.T, args []string) {
	t.Helper()
	last := append(args, "--follow-until", "caught-up")
	var said string
	for try := 0; ; try++ {
		stdout, stderr, err := command(t, "", binary, last...)
		if f.kept != nil {
			fmt.Fprint(f.kept.run(last), stdout, stderr)
		}
		if err == nil {
			said = stdout
			break
		}
		if try == 20 || !strings.Contains(stderr, "another tare copy") {
			t.Fatalf("the last run: %v\n%s\n%s", err, stderr, stdout)
		}
	}
	if !strings.Contains(said, `"caught_up":true`) {
		t.Errorf("the report does not say that it has caught up:\n%s", said)
	}
	for i, pair := range f.kind.same {
		var want, got string
		scan(t, f.from, sumOf(pair[0]), &want)
		scan(t, f.to, sumOf(pair[1]), &got)
		if want != got || strings.HasPrefix(want, "0 ") {
			t.Errorf("%s\nsource: %s\ntarget: %s", pair[0], want, got)
		}
		if i == 0 && want == f.before {
			t.Errorf("sysbench changed nothing: %s", want)
		}
	}
}

// interrupt starts the copy three times, and each time kills it, its connections, or a server. restarted runs after each
// restart of the source.
func (f *followRound) interrupt(t *testing.T, target *testmysql.Server, args []string, rnd *rand.Rand, restarted func()) {
	t.Helper()
	for range 3 {
		c, events := startCopyTo(t, args, f.kept.run(args))
		awaitEvents(t, c, events, 1+rnd.IntN(30))
		switch rnd.IntN(4) {
		case 0:
			c.end(syscall.SIGKILL)
		case 1:
			killCopier(t, f.source)
		case 2:
			must(t, target.Kill())
			must(t, target.Restart())
		case 3:
			must(t, f.source.Kill())
			must(t, f.source.Restart())
			restarted()
		}
		awaitEvents(t, c, events, 3)
		c.end(syscall.SIGTERM)
	}
}

func copyFollowRound(t *testing.T, source, target *testmysql.Server, kind copyKind, rnd *rand.Rand) {
	t.Helper()
	f := newFollowRound(t, source, target, kind)
	f.kept = keepEvidence(t, source, target)
	args := append([]string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + source.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + target.Addr,
		"--follow", "--json", "--chunk-bytes", "64KiB", "--workers", fmt.Sprint(1 + rnd.IntN(4)), "--patience", "30s", "--control-socket", "off",
	}, kind.flags...)
	f.write(t)
	f.interrupt(t, target, args, rnd, func() {
		f.rest()
		f.write(t)
	})
	f.rest()
	f.finish(t, args)
}
