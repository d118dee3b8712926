package session

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestOpenFaults has a server that is not there, and one that fails to execute each statement that opens a session, in turn: it is not opened.
func TestOpenFaults(t *testing.T) {
	server := testmysql.Shared(t).Server
	proxy := testproxy.StartFaulty(t, server.Addr)
	cfg := mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	open := func() error {
		c, err := OpenReader(t.Context(), cfg)
		if err == nil {
			return c.Close()
		}
		if c != nil {
			t.Errorf("a session with the error %v", err)
		}
		return err
	}
	proxy.EachFails(t, open, "SELECT VERSION(), CONNECTION_ID(),") // repeated without variables that the server does not have
	cfg.Addr = "127.0.0.1:1"
	if err := open(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: %v", err)
	}
}

// TestRenewFaults has a server that fails to execute each statement that renews a session, in turn.
func TestRenewFaults(t *testing.T) {
	server := testmysql.Shared(t).Server
	proxy := testproxy.StartFaulty(t, server.Addr)
	cfg := mysqlconn.Config{Addr: proxy.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	c, err := OpenReader(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	proxy.EachFails(t, func() error { return Renew(t.Context(), c, Int("lock_wait_timeout", 7)) }, "SELECT VERSION(), CONNECTION_ID(),")
}

// TestGreetingOfAnother prepares a session of a server whose greeting was that of another kind: the settings of its kind are in effect.
func TestGreetingOfAnother(t *testing.T) {
	server := testmysql.Shared(t).Server
	c, err := OpenBare(t.Context(), mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Exec(t.Context(), "SET SESSION idle_transaction_timeout = 7, sql_select_limit = 7"); err != nil {
		t.Fatal(err)
	}
	id, version, err := prepare(t.Context(), c, "8.4.0", true, nil)
	if err != nil || id != c.ConnectionID || !IsMariaDB(version) {
		t.Fatalf("%d, %s, %v", id, version, err)
	}
	if _, err := c.Query(t.Context(), "SELECT @@idle_transaction_timeout, @@sql_select_limit", func(row mysqlwire.TextRow) error {
		if string(row[0]) == "7" || string(row[1]) == "7" {
			t.Errorf("settings of the greeting's server alone: %s", row)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
