//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

var wireRounds = flag.Int("copywire.rounds", 6, "rounds of TestCopyWire, of the kinds of TestCopyFollow in turn")

// A rowReader is tare rowstream at a fixed address, across restarts.
type rowReader struct {
	t            *testing.T // the reader stops with it
	listen, from string
	c            *child
}

func newRowReader(t *testing.T, from string) *rowReader {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	r := &rowReader{t: t, listen: l.Addr().String(), from: from}
	r.start()
	return r
}

// start starts it and waits until it is ready; it retries while the source is unreachable.
func (r *rowReader) start() {
	r.t.Helper()
	var ready atomic.Bool
	testwait.UntilState(r.t, "tare rowstream to start", func() (string, bool) {
		cmd := exec.Command(binary, "rowstream", "--from", r.from, "--listen", r.listen, "--http", "off", "--drain-timeout", "1s", "--token", "wire", "--diag-format", "json")
		r.c = startChild(r.t, cmd, func(line []byte) {
			var said struct{ Msg string }
			if json.Unmarshal(line, &said) == nil && said.Msg == "rowstream is ready" {
				ready.Store(true)
			}
		})
		testwait.Until(r.t, "tare rowstream to be ready or to exit", func() bool {
			select {
			case <-r.c.exited:
				return true
			default:
				return ready.Load()
			}
		})
		return r.c.text(), ready.Load()
	})
}

// TestCopyWire copies tables under sysbench's oltp_read_write through tare rowstream and follows them. At
// random times the copy, the reader beside the source, its connections, or one of the servers is killed. Then
// the writes stop, and both sides have the same rows.
func TestCopyWire(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	reader := newRowReader(t, "mysql://copier:"+testmysql.Password+"@"+source.Addr)
	rnd := testseed.Rand(t)
	for round := range *wireRounds {
		kind := copyKinds[round%len(copyKinds)]
		t.Run(fmt.Sprintf("%d %s", round, kind.name), func(t *testing.T) {
			f := newFollowRound(t, source, target, kind)
			args := append([]string{
				"copy", "--from", "tare://" + reader.listen, "--from-token", "wire", "--compress", []string{"none", "zstd"}[rnd.IntN(2)],
				"--to", "mysql://copier:" + testmysql.Password + "@" + target.Addr,
				"--follow", "--json", "--chunk-bytes", "64KiB", "--workers", fmt.Sprint(1 + rnd.IntN(4)), "--patience", "30s", "--control-socket", "off",
			}, kind.flags...)
			f.write(t)
			for range 4 {
				c, events := startCopy(t, args)
				awaitEvents(t, c, events, 1+rnd.IntN(16))
				switch rnd.IntN(5) {
				case 0:
					c.end(syscall.SIGKILL)
				case 1:
					must(t, source.Exec("kill user copier"))
				case 2:
					must(t, target.Kill())
					must(t, target.Restart())
				case 3:
					must(t, source.Kill())
					must(t, source.Restart())
					f.rest()
					f.write(t)
				case 4:
					reader.c.end([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[rnd.IntN(2)])
					reader.start()
				}
				awaitEvents(t, c, events, 3)
				c.end(syscall.SIGTERM)
			}
			f.rest()
			f.finish(t, append(args, "--verify"))
		})
	}
}

// TestCopyWireAlone follows through a reader that is killed and stopped temporarily, twice: the copy itself
// continues.
func TestCopyWireAlone(t *testing.T) {
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	must(t, source.Exec("create database alone", "create table alone.t (id int primary key, n int)"))
	reader := newRowReader(t, "mysql://copier:"+testmysql.Password+"@"+source.Addr)
	c, events := startCopy(t, []string{
		"copy", "--from", "tare://" + reader.listen, "--from-token", "wire", "--to", "mysql://copier:" + testmysql.Password + "@" + target.Addr,
		"--tables", "alone.t", "--follow", "--json", "--control-socket", "off",
	})
	awaitText(t, c, events, `"caught-up"`, "")
	to := open(t, target.Addr, "")
	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		reader.c.end(signal)
		must(t, source.Exec(fmt.Sprintf("insert into alone.t values (%d, 1)", i)))
		reader.start()
		must(t, source.Exec(fmt.Sprintf("insert into alone.t values (%d, 2)", 10+i)))
		eventually(t, "the rows are there", func() bool {
			var n int
			scan(t, to, "select count(*) from alone.t", &n)
			return n == 2*(i+1)
		})
	}
	c.end(syscall.SIGTERM)
	if strings.Contains(c.text(), "token") {
		t.Errorf("it says:\n%s", c.text())
	}
}
