//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestCopyPreparedXA follows an XA transaction that exceeds the memory bound, while copies are killed before
// and after its COMMIT, and the source is killed between PREPARE and COMMIT.
func TestCopyPreparedXA(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			if name == "MySQL" {
				mysqlPlain.get(t) // skips the test if there is none
			}
			opts := append(opts, testmysql.WithBinlog(), copierAccount)
			from, to := testmysql.Start(t, opts...), testmysql.Start(t, opts...)
			must(t, from.Exec("create database xal character set utf8mb4", "create table xal.t (id int primary key, v longblob)", "insert into xal.t values (1, 'before')"))
			args := copyArgs(from, to, "--tables=xal.t", "--follow")
			untilCaughtUp := func() {
				t.Helper()
				mustRun(t, "", binary, append(args, "--follow-until=caught-up")...)
			}
			source, target := open(t, from.Addr, ""), open(t, to.Addr, "")
			rows := func() (n int) {
				scan(t, target, "select count(*) from xal.t", &n)
				return n
			}
			untilCaughtUp()
			xa := []string{"xa start 'large'"}
			for id := range 48 {
				xa = append(xa, fmt.Sprintf("insert into xal.t values (%d, repeat('%c', 1 << 20))", 100+id, 'a'+id%26))
			}
			must(t, from.Exec(append(xa, "update xal.t set v = concat(v, '!') where id > 110", "delete from xal.t where id = 140", "xa end 'large'", "xa prepare 'large'")...))
			must(t, from.Exec("insert into xal.t values (2, 'meanwhile')"))
			run, events := startCopy(t, args)
			awaitText(t, run, events, `"caught-up"`, "")
			run.end(syscall.SIGKILL)
			if n := rows(); n != 2 {
				t.Errorf("%d rows before the commit, want 2", n)
			}
			must(t, from.Kill())
			must(t, from.Restart())
			run, events = startCopy(t, args)
			awaitText(t, run, events, `"caught-up"`, "")
			must(t, from.Exec("xa commit 'large'", "insert into xal.t values (3, 'behind it')"))
			awaitEvents(t, run, events, 1)
			run.end(syscall.SIGKILL)
			untilCaughtUp()
			var want, got string
			scan(t, source, sumOf("id, v) from xal.t"), &want)
			scan(t, target, sumOf("id, v) from xal.t"), &got)
			if want != got || !strings.HasPrefix(want, "50 ") {
				t.Errorf("source: %s\ntarget: %s", want, got)
			}
		})
	}
}
