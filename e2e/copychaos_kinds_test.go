//go:build e2e

package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testmysql"
)

// A chaosProduct has the differences between the servers of TestCopyChaos.
type chaosProduct struct {
	name      string
	options   []testmysql.Option
	logArgs   []string
	reset     string // resets the log
	replicate func(source *testmysql.Server) []string
	startStop [2]string

	position string // of the log, by GTIDs
	await    string // that position, on a replica: returns 0 when it is reached
}

// The copier's privileges are revoked in this test, so replication uses another account.
var chaosMariaDB = chaosProduct{
	name: "MariaDB", logArgs: []string{"--log-slave-updates=ON"}, reset: "reset master",
	replicate: func(s *testmysql.Server) []string {
		return []string{"set global gtid_slave_pos = ''", fmt.Sprintf(
			"change master to master_host = '127.0.0.1', master_port = %d, master_user = '%s', master_password = '%s', master_ssl_verify_server_cert = 0, master_use_gtid = slave_pos",
			s.Port(), testmysql.RootUser, testmysql.Password)}
	},
	startStop: [2]string{"start slave", "stop slave"},
	position:  "select @@gtid_binlog_pos", await: "select master_gtid_wait('%s', 600)",
}

var chaosMySQL = chaosProduct{
	name: "MySQL", options: []testmysql.Option{testmysql.WithMySQL()}, reset: "reset binary logs and gtids",
	logArgs: []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"},
	replicate: func(s *testmysql.Server) []string {
		return []string{fmt.Sprintf(
			"change replication source to source_host = '127.0.0.1', source_port = %d, source_user = '%s', source_password = '%s', source_auto_position = 1, get_source_public_key = 1",
			s.Port(), testmysql.RootUser, testmysql.Password)}
	},
	startStop: [2]string{"start replica", "stop replica"},
	position:  "select @@global.gtid_executed", await: "select wait_for_executed_gtid_set('%s', 600)",
}

// A disturbance is a fault injected into a running copy or its surroundings.
type disturbance struct {
	name   string
	do     func(c *chaos)
	may    func(c *chaos) bool // nil: always
	stalls bool                // the copy must stop without a signal
}

// disturbances are all kinds. After each the copy is killed, unless it has stopped.
var disturbances = []disturbance{
	{name: "kill copy", do: func(*chaos) {}},
	{name: "kill source", do: func(c *chaos) { c.restart(c.source) }},
	{name: "kill target", do: func(c *chaos) { c.restart(c.target) }},
	{name: "kill rowstream", may: (*chaos).wired, do: func(c *chaos) {
		c.reader.c.end(syscall.SIGKILL)
		c.reader.start()
	}},
	{name: "cut network", do: func(c *chaos) {
		c.from.Cut()
		c.to.Cut()
		if c.wire != nil {
			c.wire.Cut()
		}
	}},
	{name: "stall source", do: func(c *chaos) { c.from.Stall() }, stalls: true},
	{name: "stall target", do: func(c *chaos) { c.to.Stall() }, stalls: true},
	{name: "stall rowstream", may: (*chaos).wired, do: func(c *chaos) { c.wire.Stall() }, stalls: true},
	{name: "purge", may: (*chaos).logged, do: (*chaos).purge},
	{name: "reset", may: (*chaos).logged, do: func(c *chaos) {
		c.exec(c.source, c.fromProduct.reset)
		c.lost = true
	}},
	{name: "failover", may: func(c *chaos) bool { return c.logged() && c.replica != nil }, do: (*chaos).failOver},
	{name: "full disk of target", may: (*chaos).diskful, do: func(c *chaos) {
		c.fill(c.disk)
		c.full = true
	}},
	{name: "full disk of control", may: (*chaos).diskful, do: func(c *chaos) {
		c.fillForGood(c.files)
		c.controlRefused()
	}},
	{name: "revoke on source", do: func(c *chaos) { c.revoke(c.source) }},
	{name: "revoke on target", do: func(c *chaos) { c.revoke(c.target) }},
}

// chaosKinds returns the disturbances that -copychaos.only names.
func chaosKinds(t *testing.T) (kinds []disturbance) {
	if *chaosOnly == "" {
		return disturbances
	}
	for name := range strings.SplitSeq(*chaosOnly, ",") {
		i := slices.IndexFunc(disturbances, func(d disturbance) bool { return d.name == name })
		if i < 0 {
			t.Fatalf("-copychaos.only: %q is no disturbance", name)
		}
		kinds = append(kinds, disturbances[i])
	}
	return kinds
}

func (c *chaos) wired() bool { return c.reader != nil }

func (c *chaos) diskful() bool { return c.disk != "" && c.files != "" }

// logged reports whether the log is complete: it is lost once per round, since nothing arrives from a replica
// that was reset.
func (c *chaos) logged() bool { return !c.lost }

func (c *chaos) restart(s *testmysql.Server) {
	c.do("the server to be killed and restarted", func() error { return errors.Join(s.Kill(), s.Restart()) })
}

func (c *chaos) revoke(s *testmysql.Server) {
	c.exec(s, "revoke all privileges, grant option from copier")
	killCopier(c.t, s)
}

func (c *chaos) purge() {
	c.exec(c.source, "flush binary logs", "flush binary logs")
	var file string
	root, err := sql.Open("mysql", c.source.DSN(testmysql.RootUser))
	must(c.t, err)
	defer root.Close()
	rows, err := root.QueryContext(c.t.Context(), "show binary logs")
	must(c.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(c.t, err)
	values := []any{&file, new(string), new(string)}
	for rows.Next() {
		must(c.t, rows.Scan(values[:len(columns)]...))
	}
	must(c.t, rows.Err())
	c.exec(c.source, "purge binary logs to '"+file+"'")
	c.lost = true
}

// failOver replaces the source by its replica, which has all committed transactions.
func (c *chaos) failOver() {
	p := c.fromProduct
	c.exec(c.replica, p.startStop[0])
	c.exec(c.source, "set global read_only = 1", "revoke all privileges, grant option from copier")
	c.from.Cut()
	var at string
	scan(c.t, open(c.t, c.source.Addr, ""), p.position, &at)
	var timedOut int
	scan(c.t, open(c.t, c.replica.Addr, ""), fmt.Sprintf(p.await, at), &timedOut)
	if timedOut != 0 {
		c.t.Fatalf("the replica has not reached %s", at)
	}
	reset := "reset slave all"
	if p.name == "MySQL" {
		reset = "reset replica all"
	}
	c.exec(c.replica, p.startStop[1], reset)
	c.exec(c.source, "grant all on *.* to copier")
	c.from.SetUpstream(c.replica.Addr)
	c.from.Cut()
	c.source, c.replica = c.replica, nil
	c.lost = true
}

// fillForGood fills a disk that stays full until release is called: a file that is removed, such as the socket
// of a copy that stops, keeps its inode while a descriptor of it is open.
func (c *chaos) fillForGood(disk string) {
	for more := true; more; {
		before := len(c.kept) + len(c.fillers)
		c.fill(disk)
		entries, err := os.ReadDir(disk)
		must(c.t, err)
		for _, e := range entries {
			name := filepath.Join(disk, e.Name())
			if _, ok := c.kept[name]; ok {
				continue
			}
			fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
			if errors.Is(err, unix.ENOENT) { // removed since
				continue
			}
			must(c.t, err)
			c.kept[name] = fd
		}
		more = len(c.kept)+len(c.fillers) > before
	}
}

// release closes the descriptors that fillForGood has opened.
func (c *chaos) release() {
	for _, fd := range c.kept {
		must(c.t, unix.Close(fd))
	}
	clear(c.kept)
}

// fill fills a disk, in bytes or in files.
func (c *chaos) fill(disk string) {
	full := func(err error) bool {
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			c.t.Fatal(err)
		}
		return err != nil
	}
	for {
		f, err := os.Create(filepath.Join(disk, fmt.Sprintf("filler-%d", len(c.fillers))))
		if full(err) {
			return
		}
		c.fillers = append(c.fillers, f.Name())
		for err == nil {
			_, err = f.Write(make([]byte, 64<<10))
		}
		_ = f.Close()
		if full(err) && disk == c.disk {
			return
		}
	}
}
