//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var killRounds = flag.Int("copykill.rounds", 20, "rounds of TestCopyKilled")

// killTables are tables of many chunks: with indexes built at the end, a key of several columns under a
// collation, and rows of all sizes.
var killTables = []string{
	"create table kil.a (id int primary key, k int not null, c varchar(120) not null, key k (k), key ck (c, k))",
	"insert into kil.a select seq, seq * 7919 % 1009, concat('row ', repeat(char(97 + seq % 26), seq % 100)) from kil.seq_1_to_15000",
	"create table kil.b (name varchar(20) collate utf8mb4_general_ci, n int, v mediumtext, d double, primary key (name, n))",
	"insert into kil.b select concat(char(97 + seq % 26), if(seq % 2, 'É', 'e')), seq, if(seq % 7, repeat('v', seq % 3000), null), seq / 7 from kil.seq_1_to_3000",
	"analyze table kil.a, kil.b",
}

// TestCopyKilled copies tables. At random times the copy, its connections to the source, or the target server
// is killed and started again; the same command resumes. In the end both sides have the same definitions and
// rows.
func TestCopyKilled(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	must(t, source.Exec(append([]string{"create database kil"}, killTables...)...))
	rnd := testseed.Rand(t)
	wentOn := 0
	for round := range *killRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			if copyKilledRound(t, source, target, rnd) {
				wentOn++
			}
		})
	}
	if wentOn == 0 {
		t.Errorf("in none of %d rounds was there something to go on from", *killRounds)
	}
}

// copyKilledRound reports whether the last run found chunks that earlier ones had copied.
func copyKilledRound(t *testing.T, source, target *testmysql.Server, rnd *rand.Rand) (wentOn bool) {
	must(t, target.Exec("drop database if exists kil", "drop database if exists _tare"))
	kept := keepEvidence(t, source, target)
	args := []string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + source.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + target.Addr,
		"--tables", "kil.a,kil.b", "--json", "--chunk-bytes", "32KiB", "--workers", fmt.Sprint(1 + rnd.IntN(4)), "--patience", "30s", "--control-socket", "off",
	}
	for range 3 {
		c, events := startCopyTo(t, args, kept.run(args))
		awaitEvents(t, c, events, 1+rnd.IntN(25))
		switch rnd.IntN(3) {
		case 0:
			c.end(syscall.SIGKILL)
		case 1:
			must(t, source.Exec("kill user copier"))
		case 2:
			must(t, target.Kill())
			must(t, target.Restart())
		}
		awaitEvents(t, c, events, 2)
		c.end(syscall.SIGKILL)
	}
	var said string
	for try := 0; ; try++ {
		stdout, stderr, err := command(t, "", binary, args...)
		fmt.Fprint(kept.run(args), stdout, stderr)
		if err == nil {
			said = stdout
			break
		}
		if try == 20 || !strings.Contains(stderr, "another tare copy") { // the server notices a killed copy after a short time
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
	from, to := open(t, source.Addr, ""), open(t, target.Addr, "")
	for _, what := range []string{"id, k, c) from kil.a", "name, n, v, v is null, d) from kil.b"} {
		var want, got string
		scan(t, from, sumOf(what), &want)
		scan(t, to, sumOf(what), &got)
		if want != got || strings.HasPrefix(want, "0 ") {
			t.Errorf("%s\nsource: %s\ntarget: %s", what, want, got)
		}
	}
	for _, table := range []string{"kil.a", "kil.b"} {
		var name, want, got string
		scan(t, from, "show create table "+table, &name, &want)
		scan(t, to, "show create table "+table, &name, &got)
		if want != got {
			t.Errorf("%s\nsource: %s\ntarget: %s", table, want, got)
		}
	}
	return report.Tables[0].Before+report.Tables[1].Before > 0
}
