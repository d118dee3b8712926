package gateway_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// BenchmarkModes compares two ways to track a session's modes: the gateway's query after a statement that may
// have changed them, and the server's session tracking, which is used directly here. It reports the CPU time
// of the server and this process, and the statements that the server runs, per statement of the client.
func BenchmarkModes(b *testing.B) {
	s := testmysql.Start(b)
	g := startGateway(b, s.Addr, func(o *gateway.Options) { o.Observers = nil })
	const track = "SET session_track_system_variables = 'character_set_client,sql_mode'"
	for _, c := range []struct {
		name, addr string
		caps       mysqlwire.Capability
		setup, sql string
	}{
		{"direct/DO", s.Addr, 0, "DO 0", "DO 0"},
		{"tracked/DO", s.Addr, mysqlwire.CapSessionTrack, track, "DO 0"},
		{"gateway/DO", g.addr, 0, "DO 0", "DO 0"},
		{"direct/SET", s.Addr, 0, "SET @mode = 'ANSI'", "SET sql_mode = @mode"},
		{"tracked/SET", s.Addr, mysqlwire.CapSessionTrack, track + ", @mode = 'ANSI'", "SET sql_mode = @mode"},
		{"gateway/SET", g.addr, 0, "SET @mode = 'ANSI'", "SET sql_mode = @mode"},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, err := mysqlconn.Dial(b.Context(), mysqlconn.Config{
				Addr: c.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}, Capabilities: c.caps,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			run := func(sql string) {
				if _, err := client.Exec(b.Context(), sql); err != nil {
					b.Fatal(err)
				}
			}
			run(c.setup)
			run(c.sql)
			statements, cpu := questions(b, s), cpuTime(b, s.Pid())
			for b.Loop() {
				run(c.sql)
			}
			used, ran := cpuTime(b, s.Pid())-cpu, questions(b, s)-statements-1
			b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(ran)/float64(b.N), "server-statements/op")
		})
	}
}

// questions returns the number of statements that the server has run.
func questions(b *testing.B, s *testmysql.Server) (n int) {
	b.Helper()
	c, err := mysqlconn.Dial(b.Context(), mysqlconn.Config{Network: "unix", Addr: s.Socket, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	_, err = c.Query(b.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'", func(r mysqlwire.TextRow) error {
		n, err = strconv.Atoi(string(r[1]))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// cpuTime returns the CPU time of a process and of this one.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	const tick = 10 * time.Millisecond // USER_HZ
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11]) // the kernel writes the line
	system, _ := strconv.Atoi(fields[12])
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system)*tick + time.Duration(own.Utime.Nano()+own.Stime.Nano())
}
