//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
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

var (
	chaosRounds = flag.Int("copychaos.rounds", 4, "rounds of TestCopyChaos, of four pairs of servers in turn")
	chaosOnly   = flag.String("copychaos.only", "", "`names` of the disturbances of TestCopyChaos, separated by commas (all)")
)

const (
	// chaosLimit bounds each run of a copy that must exit without a signal: its patience is 30 s.
	chaosLimit = 5 * time.Minute

	// chaosNotice bounds the time until a stalled copy stops. tare rowstream has the default patience of a
	// minute.
	chaosNotice, chaosNoticeWire = time.Minute, 3 * time.Minute

	// chaosDisk is the disk of the target, chaosFiles that of the copy's files.
	chaosDisk, chaosFiles = "size=384m", "size=1m,nr_inodes=16"
)

// chaosPairs are the servers of a round's source and target, in turn.
var chaosPairs = []struct{ from, to chaosProduct }{
	{chaosMariaDB, chaosMariaDB}, {chaosMySQL, chaosMySQL}, {chaosMariaDB, chaosMySQL}, {chaosMySQL, chaosMariaDB},
}

// TestCopyChaos follows a table under writes, while copies, servers and tare rowstream are killed, networks
// stall, disks are full, logs are purged and reset, the source is replaced by its replica, and privileges are
// revoked. In the end, both sides have the same rows in all columns; a copy that cannot resume has to state
// the reason before it is restarted.
func TestCopyChaos(t *testing.T) {
	rnd := testseed.Rand(t)
	kinds := chaosKinds(t)
	done, waits := make(map[string]int), make(map[string][]time.Duration)
	for round := range *chaosRounds {
		pair := chaosPairs[round%len(chaosPairs)]
		wire := rnd.IntN(3) == 0
		name := fmt.Sprintf("%d %s to %s", round, pair.from.name, pair.to.name)
		if wire {
			name += " through rowstream"
		}
		t.Run(name, func(t *testing.T) {
			if why := os.Getenv("TARE_NO_MYSQL"); why != "" && pair.from.name+pair.to.name != "MariaDBMariaDB" {
				t.Skip(why)
			}
			c := newChaos(t, pair.from, pair.to, wire)
			c.kinds, c.done, c.waits = kinds, done, waits
			c.round(rnd)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(done)) {
		t.Logf("%-22s %4d", name, done[name])
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		w := slices.Sorted(slices.Values(waits[name]))
		t.Logf("%-40s %4d waits, median %.1f s, longest %.1f s", name, len(w), w[len(w)/2].Seconds(), w[len(w)-1].Seconds())
	}
}

// A chaos is a source with a replica, and a target, with a proxy in front of each.
type chaos struct {
	t                       *testing.T
	fromProduct, toProduct  chaosProduct
	source, replica, target *testmysql.Server
	from, to                *testproxy.Proxy
	reader                  *rowReader       // tare rowstream beside the source; nil: none
	wire                    *testproxy.Proxy // in front of it
	disk, files             string           // of the target, and of the copy's control socket; "": no small disks
	fillers                 []string         // files that fill disks
	kept                    map[string]int   // open descriptors of the files on a full disk, by name
	full                    bool             // the target's disk is
	args                    []string
	lost                    bool // the log from the copy's position may be purged
	kinds                   []disturbance
	done                    map[string]int // disturbances, by name
	waits                   map[string][]time.Duration
}

func newChaos(t *testing.T, from, to chaosProduct, wire bool) *chaos {
	c := &chaos{t: t, fromProduct: from, toProduct: to, kept: make(map[string]int)}
	var err error
	if c.disk, err = mountDisk(t, chaosDisk); err == nil {
		c.files, err = mountDisk(t, chaosFiles)
		t.Cleanup(c.release)
	}
	if err != nil {
		t.Logf("no disk is filled: %v", err)
	}
	account := testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	start := func(p chaosProduct, opts ...testmysql.Option) *testmysql.Server {
		return testmysql.Start(t, append(append(opts, account), p.options...)...)
	}
	log := func(id string) []testmysql.Option {
		return []testmysql.Option{testmysql.WithBinlog(), testmysql.WithArgs(append([]string{"--server-id=" + id}, from.logArgs...)...)}
	}
	c.source = start(from, log("81")...)
	c.exec(c.source, from.reset, "create database cha character set utf8mb4 collate utf8mb4_general_ci",
		"create table cha.a (id int auto_increment primary key, n int, v varchar(200), w double, key n (n))")
	c.exec(c.source, "insert into cha.a (n, v, w) with recursive s (seq) as (select 1 union all select seq + 1 from s where seq < 1000) "+
		"select (a.seq + b.seq) % 97, repeat(char(97 + a.seq % 26), a.seq % 200), a.seq / 7 from s a, s b where b.seq <= 8")
	c.replica = start(from, log("82")...)
	c.exec(c.replica, append([]string{from.reset}, from.replicate(c.source)...)...)
	c.target = start(to, testmysql.WithFilesIn(c.disk))
	c.from, c.to = testproxy.Start(t, c.source.Addr), testproxy.Start(t, c.target.Addr)
	source := "mysql://copier:" + testmysql.Password + "@" + c.from.Addr
	c.args = []string{
		"copy", "--from", source, "--to", "mysql://copier:" + testmysql.Password + "@" + c.to.Addr,
		"--tables", "cha.a", "--follow", "--json", "--chunk-bytes", "64KiB", "--patience", "5s",
	}
	if wire {
		c.reader = newRowReader(t, source)
		c.wire = testproxy.Start(t, c.reader.listen)
		c.args[2] = "tare://" + c.wire.Addr
		c.args = append(c.args, "--from-token", "wire")
	}
	control := "off"
	if c.files != "" {
		control = c.files + "/ctl"
	}
	c.args = append(c.args, "--control-socket", control)
	return c
}

// do performs an action on a server or a process, with a time limit.
func (c *chaos) do(what string, do func() error) {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	if err := testwait.Receive(c.t, what, done); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// exec runs statements as root.
func (c *chaos) exec(s *testmysql.Server, statements ...string) {
	c.t.Helper()
	c.do("the server to execute statements", func() error { return s.Exec(statements...) })
}

// write writes to the current source until the returned function is called.
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
				fmt.Sprintf("insert into a (n, v, w) select n + 1, reverse(v), w * 2 from a where n = %d and w < 1e100 limit 5", n),
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

// heal repairs the effects of a disturbance.
func (c *chaos) heal() {
	for _, f := range c.fillers {
		must(c.t, os.Remove(f))
	}
	c.fillers = nil
	c.release()
	if c.full { // the server may have stopped
		c.full = false
		c.restart(c.target)
	}
	for _, p := range []*testproxy.Proxy{c.from, c.to, c.wire} {
		if p != nil {
			p.Resume()
		}
	}
	c.exec(c.source, "grant all on *.* to copier")
	c.exec(c.target, "grant all on *.* to copier")
	if c.reader != nil {
		select {
		case <-c.reader.c.exited:
			c.reader.start()
		default:
		}
	}
}

func (c *chaos) round(rnd *rand.Rand) {
	stop := c.write(rand.New(rand.NewPCG(rnd.Uint64(), 0)))
	for range 4 {
		may := slices.DeleteFunc(slices.Clone(c.kinds), func(d disturbance) bool { return d.may != nil && !d.may(c) })
		if len(may) == 0 {
			break
		}
		d := may[rnd.IntN(len(may))]
		run, events := startCopy(c.t, c.args)
		awaitEvents(c.t, run, events, 1+rnd.IntN(25))
		c.t.Logf("%s", d.name)
		c.done[d.name]++
		d.do(c)
		if rnd.IntN(2) == 0 || d.stalls { // it must exit without a signal, within a time limit
			c.awaitExit(run, d)
		}
		run.end(syscall.SIGKILL)
		if text := run.text(); strings.Contains(text, "panic") || strings.Contains(text, "BUG") {
			c.t.Errorf("%s: the copy says:\n%s", d.name, text)
		}
		c.heal()
	}
	stop()
	c.finish()
}

// awaitExit waits for the end of a copy, which must stop if it is stalled.
func (c *chaos) awaitExit(run *child, d disturbance) {
	limit, begun := chaosNotice/6, time.Now()
	if d.stalls {
		if limit = chaosNotice; c.reader != nil {
			limit = chaosNoticeWire
		}
	}
	select {
	case <-run.exited:
		c.t.Logf("    it stopped after %.1f s", time.Since(begun).Seconds())
		c.waited("stop after "+d.name, begun)
	case <-time.After(limit):
		if d.stalls {
			c.t.Errorf("%s: the copy runs on for %v with a patience of 5 s:\n%s", d.name, limit, run.text())
		}
	}
}

// waited records the duration of a wait.
func (c *chaos) waited(name string, begun time.Time) {
	if c.waits == nil {
		c.waits = make(map[string][]time.Duration)
	}
	c.waits[name] = append(c.waits[name], time.Since(begun))
}

// finish runs the copy until it has caught up and verified all columns, and compares both sides.
func (c *chaos) finish() {
	args := append(slices.Clone(c.args), "--follow-until", "caught-up", "--verify", "--patience", "30s")
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.t.Context(), chaosLimit)
		begun := time.Now()
		out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
		late := ctx.Err()
		cancel()
		if err == nil {
			c.waited("final run", begun)
		}
		text := string(out)
		if err == nil {
			if !strings.Contains(text, `"caught_up":true`) {
				c.t.Errorf("the report does not say that it has caught up:\n%s", text)
			}
			break
		}
		last := strings.Split(strings.TrimSpace(text), "\n")
		switch {
		case late != nil:
			c.t.Fatalf("a run did not end within %v:\n%s", chaosLimit, text)
		case strings.Contains(text, "another tare copy") && try < 20:
		case strings.Contains(text, "rows differ between the two sides"): // found only by the comparison
			c.t.Fatalf("SILENT DIFFERENCE: the copy went on without what it had lost:\n%s", text)
		case c.lost && explained(text):
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
	want, got := sum(open(c.t, c.source.Addr, "")), sum(open(c.t, c.target.Addr, ""))
	if want != got || strings.HasPrefix(want, "0 ") {
		c.t.Errorf("source: %s\ntarget: %s", want, got)
	}
	c.t.Logf("equal: %s", got)
}

// controlRefused starts a copy whose control socket has no room: it must refuse to start.
func (c *chaos) controlRefused() {
	args := append(slices.Clone(c.args[:len(c.args)-1]), c.files+"/other")
	ctx, cancel := context.WithTimeout(c.t.Context(), chaosLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil || !strings.Contains(string(out), "control socket") {
		c.t.Errorf("without room for its control socket: %v, and it says:\n%s", err, out)
	}
}

// TestChaosControlDisk ends a copy after the disk of its control socket was filled: the room of its socket is not
// given to another copy. In one of 50 rounds of TestCopyChaos, a copy had stopped at that time, since its log
// was lost, and the control found room.
func TestChaosControlDisk(t *testing.T) {
	c := newChaos(t, chaosMariaDB, chaosMariaDB, false)
	if !c.diskful() {
		t.Skip("no small disk could be mounted")
	}
	run, events := startCopy(t, c.args)
	awaitEvents(t, run, events, 5)
	if _, err := os.Lstat(c.files + "/ctl"); err != nil {
		t.Fatalf("the copy runs without a control socket: %v; it says:\n%s", err, run.text())
	}
	c.fillForGood(c.files)
	run.end(syscall.SIGTERM)
	if _, err := os.Lstat(c.files + "/ctl"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the copy left its control socket: %v; it says:\n%s", err, run.text())
	}
	c.controlRefused()
	c.heal()
	c.finish()
}
