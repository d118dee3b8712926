package main

import (
	"io"
	"net"
	"strings"
	"testing"

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
