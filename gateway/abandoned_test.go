package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A leavingConn closes itself instead of performing a given write.
type leavingConn struct {
	net.Conn
	left *atomic.Int64 // remaining writes before the close
}

var errLeaves = errors.New("the client leaves")

func (c leavingConn) Write(p []byte) (int, error) {
	if c.left.Add(-1) > 0 {
		return c.Conn.Write(p)
	}
	c.Conn.Close()
	return 0, errLeaves
}

// abandon logs in with the right password, and disconnects instead of its n-th write. It reports whether the
// login had completed before.
func abandon(t *testing.T, addr, user string, n int) (complete bool) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: addr, User: user, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true},
		DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			left := new(atomic.Int64)
			left.Store(int64(n))
			return leavingConn{nc, left}, err
		},
	})
	if err == nil {
		c.Close()
		return true
	}
	if !errors.Is(err, errLeaves) {
		t.Errorf("a login that leaves at write %d: %v", n, err)
	}
	return false
}

// TestAbandonedAccounts abandons logins with the right password at each step before the server must know the
// account, more often than the server allows wrong passwords: the account is not blocked, and no failed login
// is counted. With methods whose challenge follows the account name (client_ed25519, sha256_password) and in
// the full authentication of caching_sha2_password the server counts them, as docs/reference/clients.md says.
func TestAbandonedAccounts(t *testing.T) {
	const every = 100 // steps: through the end of the login
	type account struct {
		user, create string
		cached       bool // the server has seen the password
		steps        int  // writes of the client before it disconnects
	}
	for _, server := range []struct {
		name     string
		opts     []testmysql.Option
		accounts []account
		failed   string // query for the counted failures; "" if there is none
	}{
		{"MariaDB", []testmysql.Option{testmysql.WithEd25519(), testmysql.WithArgs("--max-password-errors=3")}, []account{
			{"native", "CREATE OR REPLACE USER native@'%' IDENTIFIED BY 'tare-test'", false, every},
			{testmysql.EdUser, "", false, 1},
		}, ""},
		{"MySQL", []testmysql.Option{
			testmysql.WithMySQL(),
			testmysql.WithArgs("--plugin-load-add=connection_control.so", "--connection-control-failed-connections-threshold=1000"),
		}, []account{
			{"sha2", "CREATE USER IF NOT EXISTS sha2@'%' IDENTIFIED WITH caching_sha2_password BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1", false, 1},
			{"sha2", "", true, every},
			{"sha256", "CREATE USER IF NOT EXISTS sha256@'%' IDENTIFIED WITH sha256_password BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1", false, 1},
		}, "SELECT COUNT(*) FROM information_schema.connection_control_failed_login_attempts"},
	} {
		t.Run(server.name, func(t *testing.T) {
			opts := server.opts
			for _, a := range server.accounts {
				if a.create != "" {
					opts = append(opts, testmysql.WithSetup(a.create))
				}
			}
			s := testmysql.StartOrSkip(t, opts...)
			g := startGateway(t, s.Addr, nil)
			right := func(user, addr string) {
				t.Helper()
				must(t, dialAs(t, addr, user, mysqlconn.TLSDisabled))
			}
			for _, a := range server.accounts {
				t.Run(fmt.Sprintf("%s, cached %t", a.user, a.cached), func(t *testing.T) {
					right(a.user, g.addr) // the gateway learns the method, and the server caches the password
					if !a.cached {
						must(t, s.Exec("FLUSH PRIVILEGES"))
					}
					complete := false
					for n := 1; n <= a.steps && !complete; n++ {
						for range 6 {
							complete = abandon(t, g.addr, a.user, n) || complete
						}
						testwait.Until(t, "the abandoned sessions to end", func() bool { return g.Sessions() == 0 })
					}
					if server.failed != "" {
						checkNoRow(t, s, server.failed)
					}
					right(a.user, s.Addr)
				})
			}
		})
	}
}

// checkNoRow fails the test if a count is not 0.
func checkNoRow(t *testing.T, s *testmysql.Server, query string) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Network: "unix", Addr: s.Socket, User: testmysql.RootUser, Password: testmysql.Password})
	must(t, err)
	defer c.Close()
	_, err = c.Query(t.Context(), query, func(r mysqlwire.TextRow) error {
		if string(r[0]) != "0" {
			t.Errorf("%s: %s, want 0", query, r[0])
		}
		return nil
	})
	must(t, err)
}

// TestClientVanishes closes the client's socket while its statement runs: the server ends SLEEP when it finds its side of
// the connection closed, also with TLS without a notice. With a control account the statement is killed once the connection
// is known to be closed: here it is reset.
func TestClientVanishes(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS())
	for name, mode := range map[string]mysqlconn.TLSMode{"plain": mysqlconn.TLSDisabled, "TLS": mysqlconn.TLSRequired, "control": mysqlconn.TLSDisabled} {
		control := name == "control"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed := make(chan uint32, 1)
			g := startGateway(t, s.Addr, func(o *gateway.Options) {
				if control {
					o.Kill = func(_ string, id uint32) error {
						killed <- id
						return s.Exec(fmt.Sprintf("KILL CONNECTION %d", id))
					}
				}
			})
			c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mode})
			must(t, err)
			connection := c.ConnectionID
			if _, err := testscript.Exec(t, c, "do 0"); err != nil { // the modes are known from here on
				t.Fatal(err)
			}
			c.Seq = 0
			must(t, c.WriteMessage(append([]byte{byte(mysqlwire.ComQuery)}, "select sleep(1000)"...)))
			g.awaitQueries(t, 2)
			if control {
				must(t, c.Socket().(*net.TCPConn).SetLinger(0))
			}
			must(t, c.Socket().Close())
			testwait.Equal(t, "the session to end without its client", 0, g.Sessions)
			r, _, text := g.records.wait(t, 1)
			if control {
				if r.ErrorNumber == 0 || !strings.Contains(text, "client disconnected") {
					t.Errorf("record: error %d %q", r.ErrorNumber, text)
				}
				if id := testwait.Receive(t, "the statement to be killed", killed); id != connection {
					t.Errorf("killed %d, want %d", id, connection)
				}
			}
		})
	}
}
