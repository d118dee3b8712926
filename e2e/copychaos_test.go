//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var chaosRounds = flag.Int("copychaos.rounds", 3, "rounds of TestCopyChaos")

// chaosLimit bounds each run of a copy that is to end by itself: its patience is 5 s.
const chaosLimit = 90 * time.Second

// TestCopyChaos follows a table that is written to, while servers and copies are killed, networks stall, logs are
// purged and reset, the source is replaced by its replica, and privileges are revoked. In the end, both sides have the
// same rows in all columns; a copy that cannot resume has to say why before it is restarted.
func TestCopyChaos(t *testing.T) {
	rnd := testseed.Rand(t)
	for round := range *chaosRounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { newChaos(t).round(rnd) })
	}
}

// A chaos is a source with a replica, and a target, with a proxy before each.
type chaos struct {
	t                       *testing.T
	source, replica, target *testmysql.Server
	from, to                *testproxy.Proxy
	args                    []string
	lost                    bool // the log from the copy's position on may be gone
}

func newChaos(t *testing.T) *chaos {
	c := &chaos{t: t}
	account := testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	c.source = testmysql.Start(t, testmysql.WithBinlog(), account, testmysql.WithArgs("--server-id=81"))
	must(t, c.source.Exec("reset master", "create database cha", "create table cha.a (id int auto_increment primary key, n int, v varchar(200), w double, key n (n))",
		"insert into cha.a (n, v, w) select seq % 97, repeat(char(97 + seq % 26), seq % 200), seq / 7 from cha.seq_1_to_20000"))
	c.replica = testmysql.Start(t, testmysql.WithBinlog(), account, testmysql.WithArgs("--server-id=82", "--log-slave-updates=ON"))
	must(t, c.replica.Exec("reset master", "set global gtid_slave_pos = ''", fmt.Sprintf(
		"change master to master_host = '127.0.0.1', master_port = %d, master_user = '%s', master_password = '%s', master_ssl_verify_server_cert = 0, master_use_gtid = slave_pos",
		c.source.Port(), testmysql.RootUser, testmysql.Password))) // the copier's privileges are revoked
	c.target = testmysql.Start(t, account)
	c.from, c.to = testproxy.Start(t, c.source.Addr), testproxy.Start(t, c.target.Addr)
	c.args = []string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + c.from.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + c.to.Addr,
		"--tables", "cha.a", "--follow", "--json", "--chunk-bytes", "64KiB", "--patience", "5s", "--control-socket", "off",
	}
	return c
}

// write writes to the source, wherever that is, until the returned function is called.
func (c *chaos) write(rnd *rand.Rand) (stop func()) {
	db := open(c.t, c.from.Addr, "cha")
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			n := rnd.IntN(97)
			for _, s := range []string{
				fmt.Sprintf("insert into a (n, v, w) select n + 1, reverse(v), w * 2 from a where n = %d limit 5", n),
				fmt.Sprintf("update a set v = concat('u', left(v, 100)), w = w + 1 where n = %d limit 5", n),
				fmt.Sprintf("delete from a where n = %d order by id desc limit 3", n),
			} {
				_, _ = db.ExecContext(ctx, s) // the server may be disconnected
			}
			cancel()
		}
	})
	return func() {
		close(done)
		testwait.Group(c.t, "the writer to stop", &writing)
	}
}

// disturbances are what happens to a copy, by name.
var disturbances = []struct {
	name string
	do   func(c *chaos)
}{
	{"kill source", func(c *chaos) { c.must(c.source.Kill(), c.source.Restart()) }},
	{"kill target", func(c *chaos) { c.must(c.target.Kill(), c.target.Restart()) }},
	{"cut network", func(c *chaos) { c.from.Cut(); c.to.Cut() }},
	{"stall source", func(c *chaos) { c.from.Stall() }},
	{"stall target", func(c *chaos) { c.to.Stall() }},
	{"purge", func(c *chaos) {
		var file string
		c.must(c.source.Exec("flush binary logs", "flush binary logs"))
		db, err := sql.Open("mysql", c.source.DSN(testmysql.RootUser))
		c.must(err)
		defer func() { c.must(db.Close()) }()
		rows, err := db.QueryContext(c.t.Context(), "show binary logs")
		c.must(err)
		for rows.Next() {
			c.must(rows.Scan(&file, new(int64)))
		}
		c.must(rows.Err(), rows.Close())
		c.must(c.source.Exec("purge binary logs to '" + file + "'"))
		c.lost = true
	}},
	{"reset", func(c *chaos) {
		c.must(c.source.Exec("reset master"))
		c.lost = true
	}},
	{"failover", func(c *chaos) {
		c.must(c.replica.Exec("start slave"))
		db := open(c.t, c.replica.Addr, "")
		from := open(c.t, c.source.Addr, "")
		c.must(c.source.Exec("set global read_only = 1", "revoke all privileges, grant option from copier"))
		c.from.Cut()
		var at string
		scan(c.t, from, "select @@gtid_binlog_pos", &at)
		var timedOut int
		scan(c.t, db, "select master_gtid_wait('"+at+"', 60)", &timedOut)
		if timedOut != 0 {
			c.t.Fatalf("the replica has not reached %s", at)
		}
		c.must(c.replica.Exec("stop slave", "reset slave all"), c.source.Exec("grant all on *.* to copier"))
		c.from.SetUpstream(c.replica.Addr)
		c.from.Cut()
		c.source, c.replica = c.replica, nil
		c.lost = true
	}},
	{"revoke on source", func(c *chaos) { c.revoke(c.source) }},
	{"revoke on target", func(c *chaos) { c.revoke(c.target) }},
}

func (c *chaos) revoke(s *testmysql.Server) {
	c.must(s.Exec("revoke all privileges, grant option from copier", "kill user copier"))
}

func (c *chaos) must(errs ...error) {
	c.t.Helper()
	must(c.t, errors.Join(errs...))
}

// heal ends what a disturbance has left.
func (c *chaos) heal() {
	c.from.Resume()
	c.to.Resume()
	for _, s := range []*testmysql.Server{c.source, c.target} {
		c.must(s.Exec("grant all on *.* to copier"))
	}
}

func (c *chaos) round(rnd *rand.Rand) {
	stop := c.write(rand.New(rand.NewPCG(rnd.Uint64(), 0)))
	for range 4 {
		d := disturbances[rnd.IntN(len(disturbances))]
		if c.replica == nil && d.name == "failover" || c.lost && (d.name == "reset" || d.name == "purge" || d.name == "failover") {
			continue // the log is lost already, and of a replica that was reset nothing arrives
		}
		run, events := startCopyTo(c.t, c.args, io.Discard)
		awaitEvents(c.t, run, events, 1+rnd.IntN(25))
		c.t.Logf("%s", d.name)
		d.do(c)
		if rnd.IntN(2) == 0 || strings.HasPrefix(d.name, "stall") { // it notices by itself, in a bounded time
			select {
			case <-run.exited:
			case <-time.After(4 * 5 * time.Second):
				if strings.HasPrefix(d.name, "stall") {
					c.t.Errorf("%s: the copy runs on with a patience of 5 s:\n%s", d.name, run.text())
				}
			}
		}
		run.end(syscall.SIGKILL)
		c.heal()
	}
	stop()
	c.finish()
}

// finish runs the copy until it has caught up, and compares both sides.
func (c *chaos) finish() {
	args := append(c.args, "--follow-until", "caught-up")
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.t.Context(), chaosLimit)
		out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
		late := ctx.Err()
		cancel()
		text := string(out)
		if err == nil {
			if !strings.Contains(text, `"caught_up":true`) {
				c.t.Errorf("the report does not say that it has caught up:\n%s", text)
			}
			break
		}
		switch {
		case late != nil:
			c.t.Fatalf("a run did not end within %v:\n%s", chaosLimit, text)
		case strings.Contains(text, "another tare copy") && try < 20:
		case c.lost && explained(text):
			last := strings.Split(strings.TrimSpace(text), "\n")
			c.t.Logf("the log is lost: %s", last[len(last)-1])
			args, c.lost = append(args, "--restart"), false
		default:
			c.t.Fatalf("the last run: %v\n%s", err, text)
		}
	}
	sum := func(db *sql.DB) (s string) {
		scan(c.t, db, sumOf("id, n, v, w) from cha.a"), &s)
		return s
	}
	if want, got := sum(open(c.t, c.source.Addr, "")), sum(open(c.t, c.target.Addr, "")); want != got || strings.HasPrefix(want, "0 ") {
		c.t.Errorf("source: %s\ntarget: %s", want, got)
	}
}
