package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestSecureAuth logs in to accounts of mysql_old_password and mysql_native_password, by each method that a client may name, with MariaDB's secure_auth
// on and off: the outcome equals a direct connection's on the first login, and after logins by other methods.
func TestSecureAuth(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithEd25519(), testmysql.WithSetup("CREATE OR REPLACE USER old@'%' IDENTIFIED VIA mysql_old_password USING '2f27edc64da30813'",
		"CREATE OR REPLACE USER bare@'%' IDENTIFIED VIA mysql_old_password",
		"CREATE OR REPLACE USER native@'%' IDENTIFIED VIA mysql_native_password", "CREATE OR REPLACE USER secret@'%' IDENTIFIED BY 'x'"))
	for _, secure := range []string{"ON", "OFF"} {
		must(t, s.Exec("SET GLOBAL secure_auth = "+secure))
		g := startGateway(t, s.Addr, nil)
		for round := range 2 {
			for _, user := range []string{"bare", "old", "native", "secret", "nobody"} {
				for _, method := range []string{mysqlconn.PluginNative, "MySQL_Native_Password", mysqlconn.PluginSHA2, "mysql_old_password", "MySQL_Old_Password", mysqlconn.PluginEd25519, "other", ""} {
					if user == "nobody" && strings.EqualFold(method, "mysql_old_password") {
						continue // the server may choose any account's method for it, and would count a client that names the old one
					}
					for _, size := range []int{0, 20} {
						want := oldOutcome(t, s.Addr, user, method, size)
						if got := oldOutcome(t, g.addr, user, method, size); got != want {
							t.Errorf("secure_auth %s, round %d, user %s, method %s of %d bytes: %s, directly %s", secure, round, user, method, size, got, want)
						}
					}
				}
			}
		}
		// The gateway knows another method of the account than it has by now: the login that finds that fails.
		must(t, s.Exec("CREATE OR REPLACE USER changed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('x')"))
		oldOutcome(t, g.addr, "changed", mysqlconn.PluginSHA2, 0)
		must(t, s.Exec("CREATE OR REPLACE USER changed@'%' IDENTIFIED VIA mysql_old_password"))
		want := oldOutcome(t, s.Addr, "changed", mysqlconn.PluginNative, 0)
		if got := oldOutcome(t, g.addr, "changed", mysqlconn.PluginNative, 0); !strings.HasSuffix(got, "connect again") {
			t.Errorf("secure_auth %s: the first login after a change: %s", secure, got)
		}
		if got := oldOutcome(t, g.addr, "changed", mysqlconn.PluginNative, 0); got != want {
			t.Errorf("secure_auth %s: the second login after a change: %s, directly %s", secure, got, want)
		}
	}
}

// oldOutcome logs in without a password, by a response of size bytes to the greeting, and returns the last packet's meaning.
func oldOutcome(t *testing.T, addr, user, method string, size int) string {
	t.Helper()
	c, _ := newcomer(t, addr)
	p := respond(t, c, mysqlwire.HandshakeResponse{
		Capabilities: scriptCaps &^ mysqlwire.CapConnectWithDB, MaxPacket: 1 << 24, Charset: 45, User: []byte(user), AuthPlugin: []byte(method), AuthResponse: make([]byte, size),
	})
	for p[0] == mysqlwire.MarkEOF {
		must(t, c.WriteMessage(nil))
		var err error
		p, err = c.ReadMessage(loginPacket)
		must(t, err)
	}
	if p[0] == mysqlwire.MarkOK {
		return "OK"
	}
	var e mysqlwire.Err
	must(t, e.Decode(p))
	return fmt.Sprintf("%d %s", e.Number, e.Message)
}
