package session

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestOpenFaults has a server that is not there, and one that fails to execute each statement that opens a session, in turn: it is not opened.
func TestOpenFaults(t *testing.T) {
	server := testmysql.Start(t)
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
