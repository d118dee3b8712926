package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestStatementsFail has the server fail to execute each statement of each operation in turn: the operation fails with the cause.
func TestStatementsFail(t *testing.T) {
	server := testmysql.Start(t, testmysql.WithBinlog())
	proxy := testproxy.StartFaulty(t, server.Addr)
	cfg := mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	direct := dialed(t, server, testmysql.RootUser)
	c, err := OpenReader(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	id := strconv.FormatUint(uint64(c.ConnectionID), 10)
	const settings = "SELECT VERSION(), CONNECTION_ID()," // repeated without variables that the server does not have
	for name, do := range map[string]func() error{
		"QueryValue":      func() error { _, err := QueryValue(t.Context(), c, "SELECT 1"); return err },
		"Variable":        func() error { _, err := Variable(t.Context(), c, "port"); return err },
		"InSnapshot":      func() error { return InSnapshot(t.Context(), c, func() error { return nil }) },
		"ReadPosition":    func() error { _, err := ReadPosition(t.Context(), c); return err },
		"CurrentPosition": func() error { _, err := CurrentPosition(t.Context(), c); return err },
		"ReadLogging":     func() error { _, err := ReadLogging(t.Context(), c); return err },
		"LimitLocks":      func() error { return LimitLocks(t.Context(), c, time.Second, time.Minute) },
		"ServerIdentity":  func() error { _, err := ServerIdentity(t.Context(), c); return err },
		"SameServer":      func() error { _, err := SameServer(t.Context(), c, querier{c}); return err },
		"IsServer":        func() error { _, err := IsServer(t.Context(), direct, cfg, proxy.Addr); return err },
		"State":           func() error { _, _, err := State(t.Context(), c, id); return err },
		"watchdog of one": func() error {
			w, err := OpenWatchdog(t.Context(), cfg, direct)
			if err == nil {
				w.Close()
			}
			return err
		},
		"isAtWork": func() error {
			if err := isAtWork(t.Context(), cfg, id); err != nil && !strings.Contains(err.Error(), "responded already") {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { proxy.EachFails(t, do, settings, "SELECT ID, COALESCE(STATE") })
	}
	proxy.SetAt(func(sql string) bool { return strings.HasPrefix(sql, "SELECT ID, COALESCE") }, testproxy.Failed)
	if _, exists, err := State(t.Context(), c, id); err != nil || !exists || proxy.Sent() == "" {
		t.Errorf("by SHOW PROCESSLIST: %t, %v", exists, err)
	}
	proxy.Set(0, "")
}

// TestReads reads values, positions, settings and states of servers.
func TestReads(t *testing.T) {
	for product, opts := range map[string][]testmysql.Option{
		"MariaDB": {testmysql.WithBinlog(), testmysql.WithArgs("--binlog-ignore-db=left", "--binlog-ignore-db=out", "--log-slave-updates", "--read-only")},
		"no log":  {testmysql.WithArgs("--skip-log-bin")},
		"MySQL":   {testmysql.WithMySQL(), testmysql.WithArgs("--gtid-mode=ON", "--enforce-gtid-consistency", "--log-bin", "--server-id=7", "--binlog-do-db=a")},
	} {
		t.Run(product, func(t *testing.T) {
			server := testmysql.StartOrSkip(t, opts...)
			c := dialed(t, server, testmysql.RootUser)
			if _, err := c.Exec(t.Context(), "CREATE DATABASE a"); err != nil {
				t.Fatal(err)
			}
			for sql, want := range map[string]string{"SELECT 1": "1", "SELECT 1 FROM mysql.db WHERE FALSE": "", "SELECT NULL": ""} {
				if got, err := QueryValue(t.Context(), c, sql); got != want || err != nil {
					t.Errorf("%s: %q, %v", sql, got, err)
				}
			}
			if got, err := Variable(t.Context(), c, "port"); err != nil || !strings.HasSuffix(server.Addr, ":"+got) {
				t.Errorf("port: %q, %v", got, err)
			}
			position, err := ReadPosition(t.Context(), c)
			if again, _ := CurrentPosition(t.Context(), c); err != nil || again != position {
				t.Errorf("%q, %q, %v", position, again, err)
			}
			var fields []string
			for _, sql := range []string{"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"} {
				_, _ = c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
					fields = []string{string(row[0]), string(row[1])}
					if product == "MySQL" {
						fields = append(fields, GTIDMark+string(row[4]))
					}
					return nil
				})
			}
			if position != strings.Join(fields, " ") || (position == "") != (product == "no log") || product == "MySQL" && !strings.Contains(position, " gtid="+"") {
				t.Errorf("%q, want %q", position, fields)
			}
			l, err := ReadLogging(t.Context(), c)
			got := fmt.Sprint(l.On, l.updates, l.readOnly, l.exact, l.Channels, l.ChannelsErr, l.doDB, l.ignoreDB, l.filtersErr, err)
			want := map[string]string{
				"MariaDB": "true true true true [] <nil> [] [left out] <nil> <nil>", "no log": "false false false true [] <nil> [] [] <nil> <nil>", "MySQL": "true true false true [] <nil> [a] [] <nil> <nil>",
			}[product]
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if product == "no log" {
				return
			}
			primary, shown := "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'x'", "{127.0.0.1 1 false}"
			if product == "MySQL" {
				primary = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'x'"
			}
			if _, err := c.Exec(t.Context(), primary); err != nil {
				t.Fatal(err)
			}
			l, err = ReadLogging(t.Context(), c)
			if err != nil || fmt.Sprint(l.Channels) != "["+shown+"]" || l.IsReplica() != (product == "MariaDB") {
				t.Errorf("%v, %t, %v", l.Channels, l.IsReplica(), err)
			}
			if _, err := c.Exec(t.Context(), map[string]string{"MariaDB": "START SLAVE SQL_THREAD", "MySQL": "START REPLICA SQL_THREAD"}[product]); err != nil {
				t.Fatal(err)
			}
			if l, err = ReadLogging(t.Context(), c); err != nil || !l.IsReplica() {
				t.Errorf("running: %+v, %v", l, err)
			}
			if product == "MariaDB" {
				// The account may see nothing of it.
				plain := dialed(t, server, testmysql.AppUser)
				l, err = ReadLogging(t.Context(), plain)
				if err != nil || l.ChannelsErr == nil || l.filtersErr == nil || !errors.Is(l.CheckLogged(nil), ErrLogUnseen) {
					t.Errorf("%+v, %v", l, err)
				}
				if position, err := CurrentPosition(t.Context(), plain); position != "" || err != nil {
					t.Errorf("%q, %v", position, err)
				}
				if _, err := ReadPosition(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "SHOW MASTER STATUS: ") {
					t.Error(err)
				}
			}
		})
	}
}

// TestFirst has variables and statements that a server has and others that it has not.
func TestFirst(t *testing.T) {
	c := dialed(t, testmysql.Shared(t).Server, testmysql.AppUser)
	for _, tt := range []struct {
		names []string
		fails bool
	}{{[]string{"no_such", "log_bin"}, false}, {[]string{"log_bin", "no_such"}, false}, {[]string{"no_such", "none"}, true}, {[]string{"no.", "log_bin"}, true}} {
		if value, err := firstVariable(t.Context(), c, tt.names...); (err != nil) != tt.fails || !tt.fails && value != "0" {
			t.Errorf("%q: %q, %v", tt.names, value, err)
		}
	}
	for _, tt := range []struct {
		statements []string
		rows, err  string
	}{
		{[]string{"SELEC 1", "SELECT 2", "SELECT 3"}, "[2]", ""},
		{[]string{"SELECT 1", "SELECT 2"}, "[1]", ""},
		{[]string{"SELECT 1 FROM no.no", "SELECT 2"}, "[]", "SELECT 1 FROM no.no: "},
		{[]string{"SELEC 1", "SELEC 2"}, "[]", "SELEC 1: "},
	} {
		var rows []string
		err := queryFirst(t.Context(), c, func(row mysqlwire.TextRow) error { rows = append(rows, string(row[0])); return nil }, tt.statements...)
		if fmt.Sprint(rows) != tt.rows || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%q: %s, %v", tt.statements, rows, err)
		}
	}
}

// TestInSnapshot reads rows before and after another session changes them.
func TestInSnapshot(t *testing.T) {
	server := testmysql.Shared(t).Server
	c, other := dialed(t, server, testmysql.AppUser), dialed(t, server, testmysql.AppUser)
	exec := func(c *mysqlconn.Client, sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(other, "CREATE OR REPLACE TABLE test.t (a INT PRIMARY KEY)")
	count := func() string {
		n, err := QueryValue(t.Context(), c, "SELECT CONCAT(COUNT(*), ' ', @@in_transaction) FROM test.t")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	failed := errors.New("failed")
	for i, want := range []error{nil, failed} {
		err := InSnapshot(t.Context(), c, func() error {
			exec(other, fmt.Sprintf("INSERT INTO test.t VALUES (%d)", i))
			if got := count(); got != fmt.Sprint(i, " 1") {
				t.Errorf("in the snapshot: %s", got)
			}
			if _, err := c.Exec(t.Context(), "INSERT INTO test.t VALUES (9)"); err == nil {
				t.Error("a snapshot is written to")
			}
			return want
		})
		if got := count(); !errors.Is(err, want) || got != fmt.Sprint(i+1, " 0") {
			t.Errorf("after it: %s, %v", got, err)
		}
	}
}

// TestAtWork queries whether a server executes a command of a connection, and fails the commands of those that it does not know.
func TestAtWork(t *testing.T) {
	server := testmysql.Shared(t).Server
	proxy := testproxy.Start(t, server.Addr)
	cfg := mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, Patience: 300 * time.Millisecond}
	c, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Conn.Close()
	direct := dialed(t, server, testmysql.RootUser)
	id := func(c *mysqlconn.Client) string { return strconv.FormatUint(uint64(c.ConnectionID), 10) }
	for of, want := range map[string]string{id(c): "it has responded already", "1000000": "the connection is unknown to it"} {
		if err := isAtWork(t.Context(), cfg, of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", of, err, want)
		}
	}
	nowhere := cfg
	nowhere.Addr = "127.0.0.1:1"
	if err := isAtWork(t.Context(), nowhere, id(c)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	// For longer than the patience the statement is executed.
	if got, err := QueryValue(t.Context(), c, "SELECT SLEEP(0.7)"); got != "0" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	sleeping := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.WithoutCancel(t.Context()), "SELECT SLEEP(100)")
		sleeping <- err
	}()
	testwait.Until(t, "the statement", func() bool {
		state, exists, err := State(t.Context(), direct, id(c))
		return err == nil && exists && state == "User sleep"
	})
	proxy.Silence()
	if _, err := direct.Exec(t.Context(), "KILL QUERY "+id(c)); err != nil {
		t.Fatal(err)
	}
	if err := <-sleeping; err == nil || !strings.Contains(err.Error(), "silent for") || !strings.Contains(err.Error(), "responded already") {
		t.Errorf("a lost response: %v", err)
	}
}

// TestConnectLimit connects to a server that does not respond.
func TestConnectLimit(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addr := listener.Addr().String()
	if c, err := Connect(t.Context(), mysqlconn.Config{Addr: addr, User: "x", Patience: 50 * time.Millisecond}); c != nil || err == nil || !strings.Contains(err.Error(), "no response from "+addr+" within 50ms") {
		t.Errorf("%v", err)
	}
}

// TestLocks limits sessions that lock, ends them, and finds out which server is which.
func TestLocks(t *testing.T) {
	server, other := testmysql.Shared(t).Server, testmysql.Start(t)
	cfg := mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password}
	c := dialed(t, server, testmysql.RootUser)
	if err := LimitLocks(t.Context(), c, 2500*time.Millisecond, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := QueryValue(t.Context(), c, "SELECT CONCAT_WS(' ', @@lock_wait_timeout, @@innodb_lock_wait_timeout, @@wait_timeout, @@net_read_timeout, @@net_write_timeout, @@idle_transaction_timeout)"); got != "3 3 90 90 90 90" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	elsewhere := dialed(t, other, testmysql.RootUser)
	if w, err := OpenWatchdog(t.Context(), cfg, elsewhere); w != nil || err == nil || !strings.Contains(err.Error(), "leads to several servers: mariadb ") {
		t.Errorf("a session of another server: %v", err)
	}
	for addr, want := range map[string]bool{server.Addr: true, other.Addr: false} {
		if same, err := IsServer(t.Context(), c, cfg, addr); same != want || err != nil {
			t.Errorf("%s: %t, %v", addr, same, err)
		}
	}
	here, err := ServerIdentity(t.Context(), c)
	there, otherErr := ServerIdentity(t.Context(), elsewhere)
	if here == there || !strings.HasPrefix(here, "mariadb ") || err != nil || otherErr != nil {
		t.Errorf("%s, %v and %s, %v", here, err, there, otherErr)
	}
	w, err := OpenWatchdog(t.Context(), cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	w.Close() // before it was started
	if err := w.Start(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "watch a session that locks: ") {
		t.Errorf("a closed one: %v", err)
	}
	w.Close()
	if w, err = OpenWatchdog(t.Context(), cfg, c); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	w.Close()
	select {
	case <-w.done:
	default:
		t.Error("closed before its statements have ended")
	}
	if state, exists, err := State(t.Context(), c, w.Victim); !exists || err != nil || strings.Contains(state, "sleep") {
		t.Errorf("the session was ended early: %q, %t, %v", state, exists, err)
	}
	if _, exists, err := State(t.Context(), c, "1000000"); exists || err != nil {
		t.Errorf("no session: %t, %v", exists, err)
	}
}
