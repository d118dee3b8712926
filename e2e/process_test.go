//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// get returns a page's status and text.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// TestDrainUnderLoad sends SIGTERM while sysbench runs: transactions finish, sysbench receives the reason for
// the end, and Tare exits gracefully.
func TestDrainUnderLoad(t *testing.T) {
	p := startTare(t, mariadb.Addr, "--drain-timeout=20s")
	schema := newSchema(t, mariadb, "drain")
	sysbench(t, "prepare", p.addr, schema, "oltp_read_write")
	load := exec.CommandContext(t.Context(), "sysbench", append(sysbenchArgs(t, p.addr, schema, "oltp_read_write", "--threads=8", "--time=120"), "run")...)
	var said bytes.Buffer
	load.Stdout, load.Stderr = &said, &said
	must(t, load.Start())
	eventually(t, "under load", func() bool {
		_, text := get(t, p.http+"/api/v1/live")
		var live struct {
			Statements uint64  `json:"statements"`
			PerSecond  float64 `json:"statements_per_second"`
		}
		must(t, json.Unmarshal([]byte(text), &live))
		return live.Statements > 1000 || live.PerSecond > 100
	})
	if code := p.end(t); code != 0 {
		t.Errorf("exit code %d, want 0: no session was cut off; log:\n%s", code, p.text())
	}
	if err := load.Wait(); err == nil {
		t.Errorf("sysbench ended well without a server:\n%s", &said)
	}
	if text := said.String(); !strings.Contains(text, "1053") && !strings.Contains(text, "Server shutdown in progress") {
		t.Errorf("sysbench was not told of the shutdown:\n%s", text)
	}
	if !strings.Contains(p.text(), `"msg":"shutting down"`) {
		t.Errorf("the log does not tell of the shutdown:\n%s", p.text())
	}
	db := open(t, mariadb.Addr, schema)
	var n int
	scan(t, db, "select count(*) from sbtest1", &n)
	if n != 5000 {
		t.Errorf("%d rows, want 5000: a transaction was applied by half", n)
	}
}

// TestDrainLimit sends SIGTERM while a statement runs that takes too long: its client gets an error with the
// reason, and the exit code is that of a partial success.
func TestDrainLimit(t *testing.T) {
	p := startTare(t, mariadb.Addr, "--drain-timeout=200ms")
	db := open(t, p.addr, "")
	const text = "select sleep(60) as drained"
	result := make(chan error, 1)
	go func() {
		var n int
		result <- db.QueryRowContext(t.Context(), text).Scan(&n)
	}()
	running(t, open(t, mariadb.Addr, ""), text)
	if code := p.end(t); code != 3 {
		t.Errorf("exit code %d, want 3; log:\n%s", code, p.text())
	}
	if e, ok := errors.AsType[*mysql.MySQLError](testwait.Receive(t, "the statement's result", result)); !ok || e.Number != 1053 {
		t.Errorf("the client got %v, want error 1053", e)
	}
	if !strings.Contains(p.text(), "did not finish within --drain-timeout") {
		t.Errorf("the log does not tell of the session that was ended:\n%s", p.text())
	}
}

// clean reports whether a driver can interpret the error of a lost server: an error packet, or a closed
// connection.
func clean(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case 1158, 1927, 1053, 1040:
			return strings.Contains(e.Message, "backend") || e.Number == 1927 || e.Number == 1053
		}
		return false
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// TestBackendKilled kills MariaDB under load and restarts it: clients get errors that name the backend,
// acknowledged rows exist, and Tare recovers automatically.
func TestBackendKilled(t *testing.T) {
	s := testmysql.Start(t)
	must(t, s.Exec("create table test.acked (id int primary key)"))
	p := startTare(t, s.Addr)
	db := open(t, p.addr, "test")
	db.SetMaxOpenConns(8)

	var next, after atomic.Int64
	var acked sync.Map
	var restarted atomic.Bool
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	faults := make(chan error, 1<<16)
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				id := next.Add(1)
				_, err := db.Exec("insert into acked values (?)", id)
				if err != nil {
					select {
					case faults <- err:
					default: // excess values are dropped
					}
					continue
				}
				acked.Store(id, true)
				if restarted.Load() {
					after.Add(1)
				}
			}
		})
	}
	eventually(t, "under load", func() bool { return next.Load() > 500 })
	must(t, s.Kill())
	eventually(t, "told of the fault", func() bool { return len(faults) > 20 })
	if status, text := get(t, p.http+"/-/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("ready without a backend: %d %s", status, text)
	}
	if status, text := get(t, p.http+"/-/healthy"); status != http.StatusOK {
		t.Errorf("not healthy without a backend: %d %s", status, text)
	}
	must(t, s.Restart())
	restarted.Store(true)
	eventually(t, "serving again", func() bool { return after.Load() > 100 })
	stop()
	testwait.Group(t, "the clients to stop", &wg)
	close(faults)
	kinds := make(map[string]int)
	for err := range faults {
		if !clean(err) {
			t.Errorf("a client got %v", err)
		}
		kinds[err.Error()]++
	}
	t.Logf("errors: %v", kinds)
	if status, text := get(t, p.http+"/-/ready"); status != http.StatusOK {
		t.Errorf("not ready with the backend back: %d %s", status, text)
	}

	there := make(map[int64]bool)
	rows, err := open(t, s.Addr, "test").Query("select id from acked")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		must(t, rows.Scan(&id))
		there[id] = true
	}
	must(t, rows.Err())
	acked.Range(func(id, _ any) bool {
		if !there[id.(int64)] {
			t.Errorf("row %d was acknowledged and is not there", id)
		}
		return true
	})
}

// TestThousandConnections opens a thousand clients, all of which then send a query concurrently.
func TestThousandConnections(t *testing.T) {
	const clients = 1000
	p := startTare(t, mariadb.Addr)
	db := open(t, p.addr, "")
	db.SetMaxIdleConns(clients)
	conns := make([]*sql.Conn, clients)
	var wg sync.WaitGroup
	const dialers = 16 // MariaDB's backlog is 80
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < clients; i += dialers {
				c, err := db.Conn(t.Context())
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				conns[i] = c
			}
		})
	}
	testwait.Group(t, "the clients to connect", &wg)
	if t.Failed() {
		return
	}
	ids := make([]int64, clients)
	for i, c := range conns {
		wg.Go(func() {
			var respond string
			err := c.QueryRowContext(t.Context(), "select connection_id(), concat('client ', ?)", i).Scan(&ids[i], &respond)
			if err != nil || respond != fmt.Sprint("client ", i) {
				t.Errorf("client %d: %q, %v", i, respond, err)
			}
		})
	}
	testwait.Group(t, "the responses", &wg)
	distinct := make(map[int64]bool)
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) != clients {
		t.Errorf("%d different connection ids, want %d", len(distinct), clients)
	}
	for _, c := range conns {
		c.Close()
	}
	db.Close()
	// Their backend connections are closed too.
	direct := open(t, mariadb.Addr, "")
	direct.SetMaxOpenConns(1)
	eventually(t, "all connections closed", func() bool {
		var name string
		var n int
		scan(t, direct, "show status like 'Threads_connected'", &name, &n)
		return n <= 5
	})
}

// TestGarbage sends invalid packets beside sessions that continue.
func TestGarbage(t *testing.T) {
	p := startTare(t, mariadb.Addr, "--handshake-timeout=500ms")
	db := open(t, p.addr, "")
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", "\xff\xff\xff\x01", "\x00\x00\x00\x01", ""} {
		nc, err := net.Dial("tcp", p.addr)
		must(t, err)
		_, err = nc.Write([]byte(garbage))
		must(t, err)
		must(t, nc.SetReadDeadline(time.Now().Add(20*time.Second)))
		if _, err := io.Copy(io.Discard, nc); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v, want the connection closed", garbage, err)
		}
		nc.Close()
	}
	var one int
	must(t, conn.QueryRowContext(t.Context(), "select 1").Scan(&one))
}
