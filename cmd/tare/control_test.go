package main

import (
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
