//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// hugeRowMiB is the size of the row of TestCopyHugeRow.
const hugeRowMiB = 64

// TestCopyHugeRow follows a row of 64 MiB whose bytes need escapes in statements: the resident memory of the
// process grows by at most three times the row and a few buffers, whatever happens to the row.
func TestCopyHugeRow(t *testing.T) {
	const row, slack = hugeRowMiB << 20, 24 << 20
	for _, product := range []chaosProduct{chaosMariaDB, chaosMySQL} {
		t.Run(product.name, func(t *testing.T) {
			if why := os.Getenv("TARE_NO_MYSQL"); why != "" && product.name == "MySQL" {
				t.Skip(why)
			}
			start := func(opts ...testmysql.Option) *testmysql.Server {
				return testmysql.Start(t, append(append(opts, product.options...), testmysql.WithArgs("--max-allowed-packet=1G"),
					testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))...)
			}
			source, target := start(testmysql.WithBinlog()), start()
			must(t, source.Exec("create database huge", "create table huge.t (id int primary key, n int, v longblob)", "insert into huge.t values (1, 1, 'x')"))
			at := func(s *testmysql.Server) string { return "mysql://copier:" + testmysql.Password + "@" + s.Addr }
			run, events := startCopy(t, []string{"copy", "--from", at(source), "--to", at(target), "--tables", "huge.t", "--follow", "--json", "--control-socket", "off"})
			testwait.Until(t, "the copy to catch up", func() bool {
				select {
				case line, ok := <-events:
					if !ok {
						t.Fatalf("the copy has stopped:\n%s", run.text())
					}
					return strings.Contains(line, `"event":"caught-up"`)
				default:
					return false
				}
			})
			pid := run.cmd.Process.Pid
			base := residentPeak(t, pid)
			from, to := open(t, source.Addr, ""), open(t, target.Addr, "")
			for _, step := range []struct{ name, sql string }{
				{"insert", fmt.Sprintf("insert into huge.t values (2, 1, repeat(unhex('ff00275c'), %d))", row/4)},
				{"update", "update huge.t set v = concat('u', v) where id = 2"},
				{"second update", "update huge.t set v = concat('w', v), n = 2 where id = 2"},
				{"change of key", "update huge.t set id = 3 where id = 2"},
				{"delete", "delete from huge.t where id = 3"},
			} {
				must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)) // resets the peak
				must(t, source.Exec(step.sql))
				var want string
				const sum = "select concat(count(*), ' ', coalesce(sum(crc32(concat(id, ' ', n, ' ', v))), 0)) from huge.t"
				scan(t, from, sum, &want)
				testwait.Until(t, step.name+" to be applied", func() bool {
					var got string
					scan(t, to, sum, &got)
					return got == want
				})
				peak := residentPeak(t, pid)
				t.Logf("%-14s %4d MiB above %d MiB, %.2f times the row", step.name, (peak-base)>>20, base>>20, float64(peak-base)/row)
				if peak-base > 3*row+slack {
					t.Errorf("%s: resident memory grew by %d MiB, more than three times the row of %d MiB and %d MiB", step.name, (peak-base)>>20, hugeRowMiB, slack>>20)
				}
			}
			run.end(syscall.SIGTERM)
		})
	}
}

// residentPeak returns the peak of the resident memory of a process.
func residentPeak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, found := bytes.Cut(text, []byte("VmHWM:"))
	number, _, _ := bytes.Cut(rest, []byte("kB"))
	kb, err := strconv.ParseInt(string(bytes.TrimSpace(number)), 10, 64)
	if !found || err != nil {
		t.Fatalf("no peak of resident memory: %v in\n%s", err, text)
	}
	return kb << 10
}
