//go:build e2e

package e2e

import (
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var cutoverRounds = flag.Int("cutover.rounds", 3, "rounds of TestCopyCutover")

// TestCopyCutover moves sysbench's tables from one server to another while oltp_read_write runs through a
// gateway: the copy follows, has the gateway switch, and applies later changes back to the source. Around the
// switch the copy is killed repeatedly, at random times. Sysbench receives no errors except deadlocks, and in
// the end both servers have the same rows.
func TestCopyCutover(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	servers := []*testmysql.Server{testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, testmysql.WithBinlog(), account)}
	rnd := testseed.Rand(t)
	for round := range *cutoverRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { cutoverRound(t, servers[round%2], servers[1-round%2], rnd) })
	}
}

func cutoverRound(t *testing.T, from, to *testmysql.Server, rnd *rand.Rand) {
	for _, s := range []*testmysql.Server{from, to} {
		must(t, s.Exec("drop database if exists cut", "drop database if exists _tare", "create database cut"))
	}
	accounts := filepath.Join(t.TempDir(), "accounts.yaml")
	must(t, os.WriteFile(accounts, []byte(testmysql.AppUser+": "+testmysql.Password+"\n"), 0o600))
	gateway := startTare(t, from.Addr, "--standby", "mysql://"+to.Addr, "--standby-accounts", accounts)
	sysbench(t, "prepare", from.Addr, "cut", "oltp_read_write")
	deadlocks := func() (n int) { return deadlocksOf(t, from) + deadlocksOf(t, to) }
	before := deadlocks()
	load := exec.CommandContext(t.Context(), "sysbench", append(sysbenchArgs(t, gateway.addr, "cut", "oltp_read_write", "--threads=4", "--time=20", "--rate=100"), "run")...)
	var said bytes.Buffer
	load.Stdout, load.Stderr = &said, &said
	must(t, load.Start())

	socket := filepath.Join(t.TempDir(), "control.sock")
	args := []string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + from.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + to.Addr,
		"--tables=cut.sbtest1,cut.sbtest2", "--follow", "--cutover", "--gateway", gateway.http, "--cutover-hold", "5s", "--json", "--patience", "30s",
		"--control-socket", socket,
	}
	const moment = 15 * time.Millisecond // approximate duration of a pause, a switch and its records
	for range 4 {
		c, events := startCopy(t, args)
		awaitText(t, c, events, "the gateway holds all commands", "back to the source")
		select { // a random time, unless it ends before
		case <-time.After(time.Duration(rnd.Int64N(int64(moment)))):
		case <-c.exited:
		}
		c.end(syscall.SIGKILL)
	}
	c, events := startCopy(t, args)
	awaitText(t, c, events, "back to the source: the target has caught up", "")
	if err := load.Wait(); err != nil {
		t.Fatalf("sysbench: %v\n%s", err, &said)
	}
	if n := figure(t, reconnects, said.String()); n != 0 {
		t.Errorf("%d reconnects:\n%s", n, &said)
	}
	if got, most := figure(t, ignoredErrors, said.String()), deadlocks()-before; got > most {
		t.Errorf("%d errors, of which at most %d are deadlocks:\n%s", got, most, &said)
	}
	mustRun(t, "", binary, "copy", "ctl", "finish", "--socket", socket)
	testwait.Receive(t, "the copy to exit", c.exited)
	var last string
	for text := range events {
		last = text
	}
	if !strings.Contains(last, `"phase":"done"`) {
		t.Errorf("the copy ended with %s\n%s", last, c.text())
	}
	_, route := get(t, gateway.http+"/api/v1/route")
	if !strings.Contains(route, `"address":"`+to.Addr+`"`) {
		t.Errorf("clients are not at the target: %s", route)
	}
	for _, table := range []string{"sbtest1", "sbtest2"} {
		var here, there string
		scan(t, open(t, from.Addr, ""), sumOf("id, k, c, pad) from cut."+table), &here)
		scan(t, open(t, to.Addr, ""), sumOf("id, k, c, pad) from cut."+table), &there)
		if here != there || strings.HasPrefix(here, "0 ") {
			t.Errorf("%s: the source has %s\nthe target has %s", table, here, there)
		}
	}
	_, metrics := get(t, gateway.http+"/metrics")
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "tare_route_hold_seconds_") && !strings.Contains(line, "bucket") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// deadlocksOf returns the number of transactions that a server has rolled back because of deadlocks.
func deadlocksOf(t *testing.T, s *testmysql.Server) (n int) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	var name string
	err = db.QueryRowContext(t.Context(), "show global status like 'Innodb_deadlocks'").Scan(&name, &n)
	if errors.Is(err, sql.ErrNoRows) { // MySQL
		err = db.QueryRowContext(t.Context(), "select count from information_schema.innodb_metrics where name = 'lock_deadlocks'").Scan(&n)
	}
	must(t, err)
	return n
}

// awaitText waits for an event with one of two texts, or for the copy's end.
func awaitText(t *testing.T, c *child, events <-chan string, text, other string) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case event, ok := <-events:
			if !ok {
				t.Fatalf("the copy ended before it told %q:\n%s", text, c.text())
			}
			if strings.Contains(event, `"cutover"`) {
				t.Log(event)
			}
			if strings.Contains(event, text) || other != "" && strings.Contains(event, other) {
				return
			}
		case <-limit:
			t.Fatalf("the copy does not tell %q:\n%s", text, c.text())
		}
	}
}
