package gateway_test

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A loginEnd is a way to end a login whose client disconnected after the account was named and its challenge
// received.
type loginEnd struct {
	name string
	end  func(c *mysqlconn.Conn, plugin string)
}

// TestWhatServersCount names an account, receives its challenge and ends without the password, in every
// possible way, as often as the server allows wrong passwords. It shows why the gateway sends an empty
// password: that counts against the account and never against the address. MySQL counts all ways against the
// account, MariaDB the others against the address.
func TestWhatServersCount(t *testing.T) {
	ends := []loginEnd{
		{"empty password", func(c *mysqlconn.Conn, plugin string) {
			if c.WriteMessage(gateway.EmptyResponse(plugin)) == nil {
				_ = gateway.FinishLogin(c, plugin)
			}
		}},
		{"closed", func(*mysqlconn.Conn, string) {}},
		{"packet of no method's size", func(c *mysqlconn.Conn, _ string) {
			_ = c.WriteMessage(make([]byte, 7))
			_, _ = c.ReadMessage(loginPacket)
		}},
		{"wrong sequence number", func(c *mysqlconn.Conn, _ string) {
			c.Seq += 5
			_ = c.WriteMessage([]byte{0})
			_, _ = c.ReadMessage(loginPacket)
		}},
	}
	const times = 3
	for _, server := range []struct {
		name, user string
		maria      bool
		opts       []testmysql.Option
	}{
		{"MariaDB, client_ed25519", testmysql.EdUser, true, []testmysql.Option{testmysql.WithEd25519(), testmysql.WithArgs("--max-password-errors=3")}},
		{"MySQL, sha256_password", "sha256", false, []testmysql.Option{
			testmysql.WithMySQL(), testmysql.WithSetup("CREATE USER IF NOT EXISTS sha256@'%' IDENTIFIED WITH sha256_password BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1"),
		}},
		{"MySQL, caching_sha2_password not cached", "sha2", false, []testmysql.Option{
			testmysql.WithMySQL(), testmysql.WithSetup("CREATE USER IF NOT EXISTS sha2@'%' IDENTIFIED WITH caching_sha2_password BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1"),
		}},
	} {
		t.Run(server.name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, append(server.opts, testmysql.WithHostCache())...)
			for i, e := range ends {
				must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache", "FLUSH PRIVILEGES"))
				before := countOne(t, s, 1)
				for range times {
					nameAccount(t, s.Addr, server.user, e.end)
				}
				least := 0
				if i > 0 && server.maria {
					least = times
				}
				address := countOne(t, s, before+1+least) - before - 1
				account := dialAs(t, s.Addr, server.user, mysqlconn.TLSDisabled)
				t.Logf("%s: %d counted against the address, then the right password: %v", e.name, address, account)
				if i == 0 && (address != 0 || account == nil) || i > 0 && server.maria && account != nil { // MySQL counts the others later
					t.Errorf("%s: %d counted against the address, then the right password: %v", e.name, address, account)
				}
				if !server.maria {
					must(t, s.Exec(fmt.Sprintf("ALTER USER %s ACCOUNT UNLOCK", server.user)))
				}
			}
		})
	}
}

// TestBlockedAccount logs in to an account that MariaDB has blocked: the gateway refuses the retries with the
// server's error. They do not reach the server, which would count them against the gateway's address and then
// refuse all clients.
func TestBlockedAccount(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithHostCache(), testmysql.WithArgs("--max-password-errors=3"), testmysql.WithSetup("CREATE OR REPLACE USER guarded@'%' IDENTIFIED BY 'tare-test'"))
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Dial = from2 })
	login := func(addr, password string) error {
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: "guarded", Password: password, TLSMode: mysqlconn.TLSDisabled, DialFunc: from2})
		if err == nil {
			c.Close()
		}
		return err
	}
	must(t, login(g.addr, testmysql.Password))
	for range 3 {
		checkErrno(t, "a wrong password", login(g.addr, "wrong"), mysqlwire.ErrnoAccessDenied)
	}
	must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
	before := countOne(t, s, 1)
	for range 2 { // the control: the server counts each
		checkErrno(t, "directly", login(s.Addr, testmysql.Password), mysqlwire.ErrnoUserBlocked)
	}
	direct := countOne(t, s, before+3) // it counts after its response
	if direct != before+3 {
		t.Errorf("%d errors after 2 logins of a blocked account, want 2", direct-before-1)
	}
	const logins = 200
	for range logins {
		checkErrno(t, "a blocked account", login(g.addr, testmysql.Password), mysqlwire.ErrnoUserBlocked)
	}
	if counted := countOne(t, s, direct+1) - direct - 1; counted > logins/20 { // one per elapsed blockedLife
		t.Errorf("%d logins of a blocked account count %d errors against the gateway's address, want 1", logins, counted)
	}
	must(t, s.Exec("FLUSH PRIVILEGES"))
	g.ForgetServers()
	must(t, login(g.addr, testmysql.Password))
}

// nameAccount logs in with an empty response of another method, and calls end at the following request.
func nameAccount(t *testing.T, addr, user string, end func(*mysqlconn.Conn, string)) {
	t.Helper()
	nc, err := from2(t.Context(), "tcp", addr)
	must(t, err)
	defer nc.Close()
	c := mysqlconn.New(nc)
	p, err := c.ReadMessage(loginPacket)
	must(t, err)
	var hello mysqlwire.Handshake
	must(t, hello.Decode(p))
	out := mysqlwire.HandshakeResponse{
		Capabilities: mysqlwire.CapProtocol41 | mysqlwire.CapLongPassword | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth,
		MaxPacket:    1 << 24, Charset: hello.Charset, User: []byte(user), AuthPlugin: []byte(noMethod),
	}
	must(t, c.WriteMessage(out.AppendTo(nil)))
	p, err = c.ReadMessage(loginPacket)
	must(t, err)
	if p[0] == mysqlwire.MarkErr { // MariaDB: the account is blocked
		return
	}
	var sw mysqlwire.AuthSwitchRequest
	if p[0] != mysqlwire.MarkEOF || sw.Decode(p) != nil {
		t.Fatalf("the server responds by %q, not a challenge", p)
	}
	plugin := string(sw.Plugin)
	if plugin == mysqlconn.PluginSHA2 { // full authentication is requested for a proof
		must(t, c.WriteMessage(make([]byte, 32)))
		if p, err = c.ReadMessage(loginPacket); err != nil || p[0] != mysqlwire.MarkAuthMore {
			t.Fatalf("the server responds by %q, %v, not a request for the password", p, err)
		}
	}
	end(c, plugin)
}
