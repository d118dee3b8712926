//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// The workloads of sysbench that Tare must support.
var workloads = []string{"oltp_point_select", "oltp_read_only", "oltp_read_write", "bulk_insert"}

// sysbenchArgs returns a command line of sysbench up to its last word.
func sysbenchArgs(t *testing.T, addr, schema, workload string, more ...string) []string {
	args := []string{
		workload, "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-port=" + port(t, addr),
		"--mysql-user=" + testmysql.AppUser, "--mysql-password=" + testmysql.Password, "--mysql-db=" + schema,
	}
	if strings.HasPrefix(workload, "oltp_") {
		args = append(args, "--tables=2", "--table-size=5000")
	}
	return append(args, more...)
}

func sysbench(t *testing.T, verb, addr, schema, workload string, more ...string) string {
	t.Helper()
	return mustRun(t, "", "sysbench", append(sysbenchArgs(t, addr, schema, workload, more...), verb)...)
}

var (
	ignoredErrors = regexp.MustCompile(`ignored errors:\s+(\d+)`)
	reconnects    = regexp.MustCompile(`reconnects:\s+(\d+)`)
	queries       = regexp.MustCompile(`queries:\s+(\d+)`)
)

func figure(t *testing.T, re *regexp.Regexp, text string) int {
	t.Helper()
	m := re.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("sysbench does not tell %v:\n%s", re, text)
	}
	n, err := strconv.Atoi(m[1])
	must(t, err)
	return n
}

// TestSysbench runs each workload through Tare with four threads, with and without prepared statements.
// Errors that sysbench ignores must be deadlocks; the server counts those.
func TestSysbench(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	db := open(t, mariadb.Addr, "")
	deadlocks := func() (n int) {
		var name string
		scan(t, db, "show global status like 'Innodb_deadlocks'", &name, &n)
		return n
	}
	for _, workload := range workloads {
		for _, prepared := range []string{"auto", "disable"} {
			t.Run(workload+"/"+prepared, func(t *testing.T) {
				schema := newSchema(t, mariadb, "sb")
				options := []string{"--threads=4", "--db-ps-mode=" + prepared}
				sysbench(t, "prepare", p.addr, schema, workload, options...)
				before := deadlocks()
				out := sysbench(t, "run", p.addr, schema, workload, append(options, "--time=3")...)
				if n := figure(t, queries, out); n == 0 {
					t.Errorf("no queries:\n%s", out)
				}
				if n := figure(t, reconnects, out); n != 0 {
					t.Errorf("%d reconnects:\n%s", n, out)
				}
				if got, want := figure(t, ignoredErrors, out), deadlocks()-before; got != want {
					t.Errorf("%d errors, of which %d are deadlocks:\n%s", got, want, out)
				}
				sysbench(t, "cleanup", p.addr, schema, workload, options...)
			})
		}
	}
}

// TestSysbenchResults runs the same events of one thread directly and through Tare: the tables are equal
// afterwards.
func TestSysbenchResults(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	db := open(t, mariadb.Addr, "")
	sums := func(schema string) string {
		var all []string
		rows, err := db.QueryContext(t.Context(), "select table_name from information_schema.tables where table_schema = ? order by 1", schema)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var table, name string
			var sum, count int64
			must(t, rows.Scan(&table))
			scan(t, db, "checksum table "+schema+"."+table, &name, &sum)
			scan(t, db, "select count(*) from "+schema+"."+table, &count)
			all = append(all, fmt.Sprintf("%s: %d rows, sum %d", table, count, sum))
		}
		must(t, rows.Err())
		return strings.Join(all, "\n")
	}
	for _, workload := range []string{"testdata/repeatable.lua", "bulk_insert"} {
		for _, prepared := range []string{"auto", "disable"} {
			t.Run(workload+"/"+prepared, func(t *testing.T) {
				var got [2]string
				for i, addr := range []string{mariadb.Addr, p.addr} {
					schema := newSchema(t, mariadb, []string{"sbdirect", "sbthrough"}[i])
					options := []string{"--threads=1", "--db-ps-mode=" + prepared}
					sysbench(t, "prepare", addr, schema, workload, options...)
					before := sums(schema)
					sysbench(t, "run", addr, schema, workload, append(options, "--events=500", "--time=0")...)
					if got[i] = sums(schema); got[i] == before || got[i] == "" {
						t.Errorf("sysbench changed nothing: %s", got[i])
					}
				}
				if got[0] != got[1] {
					t.Errorf("through Tare:\n%s\ndirectly:\n%s", got[1], got[0])
				}
			})
		}
	}
}
