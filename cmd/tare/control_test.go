package main

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestKillerTwice kills a connection twice: the second KILL, of a connection that has ended, is no error. A
// denied KILL is one.
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
}
