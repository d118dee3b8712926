package main

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestKillerTwice kills a connection twice: the second KILL, of a connection that has ended, is no error. A
// denied KILL is one, and one at another server kills nothing.
func TestKillerTwice(t *testing.T) {
	s := testmysql.Start(t)
	victim, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	account := mysqlconn.Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password}
	kill := newKiller(func(string) mysqlconn.Config { return account }, "CONNECTION")
	for i := range 2 {
		if err := kill(s.Addr, victim.ConnectionID); err != nil {
			t.Errorf("KILL %d: %v", i, err)
		}
	}
	account.Password = "wrong"
	if kill(s.Addr, 1) == nil {
		t.Error("a KILL with a wrong password is no error")
	}
	account.Password = testmysql.Password
	elsewhere := account
	elsewhere.Addr = testmysql.Shared(t).Config(testmysql.AppUser).Addr
	other, err := mysqlconn.Dial(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	account = elsewhere
	if err := kill(s.Addr, other.ConnectionID); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a KILL at another server: %v, want an error", err)
	}
	if _, err := other.Exec(t.Context(), "DO 1"); err != nil {
		t.Errorf("the connection of another client: %v", err)
	}
	_, port, err := net.SplitHostPort(elsewhere.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := kill(net.JoinHostPort("localhost", port), other.ConnectionID); err != nil {
		t.Errorf("a KILL at another name of the server: %v", err)
	}
}

// TestKillerBehindOneAddress has the address of sessions lead to one of two servers, in turn or after a while. The connection of
// the same number at the other server is not killed.
func TestKillerBehindOneAddress(t *testing.T) {
	first, second := testmysql.Start(t).Addr, testmysql.Shared(t).Config(testmysql.AppUser).Addr
	innocent, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: second, User: testmysql.AppUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer innocent.Close()
	for name, c := range map[string]struct {
		target func(connection int) string
		kills  []string // errors
	}{
		"in turn":       {func(n int) string { return []string{second, first}[n%2] }, []string{"leads to several servers", "leads to several servers"}},
		"after a while": {func(n int) string { return []string{first, first, second}[min(n, 2)] }, []string{"", "leads to another server", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := balancer(t, c.target)
			account := mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password}
			kill := newKiller(func(string) mysqlconn.Config { return account }, "CONNECTION")
			for i, want := range c.kills {
				id := innocent.ConnectionID
				if want == "" {
					id += 1_000_000 // of no connection
				}
				if err := kill(addr, id); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("KILL %d: %v, want %q", i, err, want)
				}
			}
			if _, err := innocent.Exec(t.Context(), "DO 1"); err != nil {
				t.Errorf("the connection of another client: %v", err)
			}
		})
	}
}

// TestKillerAfterMixture has the address of sessions lead to two servers at one time, as it does if a failover takes place between two connections.
// KILL is refused until a number of connections have reached one server, after a while.
func TestKillerAfterMixture(t *testing.T) {
	first, second := testmysql.Start(t).Addr, testmysql.Shared(t).Config(testmysql.AppUser).Addr
	const none = 1_000_000 // the number of no connection
	open := func(addr string) *mysqlconn.Client {
		t.Helper()
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	victim, innocent := open(second), open(first)
	var connections, now atomic.Int64 // now: in nanoseconds
	var target atomic.Value           // of func(int) string, by the number of the connection since the last step
	addr := balancer(t, func(int) string { return target.Load().(func(int) string)(int(connections.Add(1)) - 1) })
	account := mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password}
	kill := newKillerSince(func(string) mysqlconn.Config { return account }, "CONNECTION", func() time.Time { return time.Unix(0, now.Load()) })

	always := func(int) string { return second }
	failover := func(n int) string { return []string{first, second}[min(n, 1)] }
	except := func(odd int) func(int) string {
		return func(n int) string {
			if n == odd {
				return first
			}
			return second
		}
	}
	slow := func(to func(int) string) func(int) string { // by a clock that is the test's
		return func(n int) string {
			now.Add(int64(killTimeout / 20))
			return to(n)
		}
	}
	hanging := func(n int) string { // one connection takes all the time of a KILL
		if n == 1 {
			now.Add(int64(killTimeout))
		}
		return second
	}
	const mixed, again = "leads to several servers", "leads to one again"
	for i, step := range []struct {
		later       time.Duration
		target      func(int) string
		id          uint32
		want        string // the error
		connections int64
	}{
		{0, failover, innocent.ConnectionID, mixed, 2},
		{0, always, innocent.ConnectionID, mixed, 1},
		{probeInterval - 1, always, innocent.ConnectionID, mixed, 1},
		{1, except(0), innocent.ConnectionID, mixed, 2},                                 // the other server is still reached
		{probeInterval, except(probeConnections), innocent.ConnectionID, mixed, 33},     // by the last connection
		{probeInterval - 1, always, innocent.ConnectionID, mixed, 1},                    // no probe
		{1, always, innocent.ConnectionID, again, 1 + probeConnections},                 // the session may be of the other server
		{0, always, none, "", 2},                                                        // one server
		{0, failover, innocent.ConnectionID, mixed, 2},                                  // a relapse
		{probeInterval, except(2 * probeConnections), innocent.ConnectionID, mixed, 65}, // more connections are required
		{probeInterval, always, innocent.ConnectionID, again, 1 + 2*probeConnections},
		{0, failover, innocent.ConnectionID, mixed, 2}, // from here on 128 connections are required
		{probeInterval, slow(always), innocent.ConnectionID, "has had 9", 10},
		{probeInterval, slow(except(0)), innocent.ConnectionID, "has had 0", 2}, // a connection to the other server between them
		{probeInterval, slow(except(5)), innocent.ConnectionID, "has had 0", 6},
		{probeInterval, hanging, innocent.ConnectionID, "128 consecutive connections to one server, of which it has had 1", 2},
		{probeInterval, slow(always), innocent.ConnectionID, "has had 10", 10},
		{probeInterval - killTimeout, always, innocent.ConnectionID, "has had 10", 1}, // no probe
		{killTimeout, except(119), innocent.ConnectionID, again, 119},
		{0, always, victim.ConnectionID, "", 2},
	} {
		now.Add(int64(step.later))
		connections.Store(0)
		target.Store(step.target)
		if err := kill(addr, step.id); (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("step %d: %v, want %q", i, err, step.want)
		}
		if n := connections.Load(); n != step.connections {
			t.Errorf("step %d: %d connections, want %d", i, n, step.connections)
		}
	}
	if _, err := innocent.Exec(t.Context(), "DO 1"); err != nil {
		t.Errorf("the connection of another client: %v", err)
	}
	if _, err := victim.Exec(t.Context(), "DO 1"); err == nil {
		t.Error("the connection was not killed")
	}
}

// balancer returns an address whose connections lead to a target by their number.
func balancer(t *testing.T, target func(connection int) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relayTo(client, target(n))
		}
	}()
	return l.Addr().String()
}

// relayTo relays a connection until one of its ends closes.
func relayTo(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
