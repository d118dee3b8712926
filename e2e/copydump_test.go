//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var dumpRounds = flag.Int("dumpkill.rounds", 6, "rounds of TestDumpKilled")

// TestDumpKilled dumps tables to a directory and loads them. At random times the process, or its connections, are killed, and rows change
// before the same command resumes. In the end the target has the rows of the source.
func TestDumpKilled(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	must(t, source.Exec(append([]string{"create database kil"}, killTables...)...))
	rnd := testseed.Rand(t)
	dumped, loaded := 0, 0
	for round := range *dumpRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			d, l := dumpKilledRound(t, source, target, rnd)
			dumped, loaded = dumped+d, loaded+l
		})
	}
	if dumped == 0 || loaded == 0 {
		t.Errorf("in %d rounds %d chunks of dumps and %d of loads were there when the last run resumed", *dumpRounds, dumped, loaded)
	}
}

// dumpKilledRound returns the chunks of the dump and of the load that earlier runs had finished.
func dumpKilledRound(t *testing.T, source, target *testmysql.Server, rnd *rand.Rand) (dumped, loaded int) {
	must(t, target.Exec("drop database if exists kil", "drop database if exists _tare"))
	dir := filepath.Join(t.TempDir(), "backup")
	from := "mysql://copier:" + testmysql.Password + "@" + source.Addr
	workers := fmt.Sprint(1 + rnd.IntN(4))
	dump := []string{"copy", "--from", from, "--to", "file://" + dir, "--tables", "kil.a,kil.b", "--json", "--chunk-bytes", "32KiB", "--workers", workers, "--patience", "30s"}
	complete := func() bool {
		_, err := os.Stat(filepath.Join(dir, "manifest.json"))
		return err == nil
	}
	for range 3 {
		if complete() {
			break
		}
		c, events := startCopy(t, dump)
		awaitEvents(t, c, events, 1+rnd.IntN(120))
		if rnd.IntN(3) == 0 {
			must(t, source.Exec("kill user copier"))
			awaitEvents(t, c, events, 2)
		}
		c.end(syscall.SIGKILL)
		must(t, source.Exec(
			fmt.Sprintf("update kil.a set c = concat(c, '!') where id between %d and %[1]d + 300", rnd.IntN(15000)),
			fmt.Sprintf("delete from kil.b where n = %d", rnd.IntN(3000)), fmt.Sprintf("replace into kil.a values (%d, 1, 'new')", 15000+rnd.IntN(2000))))
	}
	if complete() {
		t.Log("the dump was complete before it was killed for the last time")
		must(t, os.RemoveAll(dir))
	}
	dumped = before(t, dump)
	load := []string{
		"copy", "--from", "file://" + dir, "--to", "mysql://copier:" + testmysql.Password + "@" + target.Addr, "--tables", "kil.a,kil.b", "--json",
		"--workers", workers, "--patience", "30s", "--control-socket", "off", "--verify",
	}
	for range 3 {
		c, events := startCopy(t, load)
		awaitEvents(t, c, events, 1+rnd.IntN(100))
		if rnd.IntN(3) == 0 {
			must(t, target.Kill())
			must(t, target.Restart())
			awaitEvents(t, c, events, 2)
		}
		c.end(syscall.SIGKILL)
	}
	loaded = before(t, load)
	here, there := open(t, source.Addr, ""), open(t, target.Addr, "")
	for _, what := range []string{"id, k, c) from kil.a", "name, n, v, v is null, d) from kil.b"} {
		var want, got string
		scan(t, here, sumOf(what), &want)
		scan(t, there, sumOf(what), &got)
		if want != got || strings.HasPrefix(want, "0 ") {
			t.Errorf("%s\nsource: %s\ntarget: %s", what, want, got)
		}
	}
	return dumped, loaded
}

// before runs a command until it succeeds, and returns the chunks that earlier runs had finished.
func before(t *testing.T, args []string) (chunks int) {
	t.Helper()
	var said string
	for try := 0; ; try++ {
		stdout, stderr, err := command(t, "", binary, args...)
		if err == nil {
			said = stdout
			break
		}
		if try == 20 || !strings.Contains(stderr, "another tare copy") { // the server notices a killed load after a short time
			t.Fatalf("the last run: %v\n%s\n%s", err, stderr, stdout)
		}
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	var report struct {
		Event  string
		Tables []struct{ Before int }
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil || report.Event != "report" || len(report.Tables) != 2 {
		t.Fatalf("%v: the last line is no report: %s", err, lines[len(lines)-1])
	}
	return report.Tables[0].Before + report.Tables[1].Before
}
