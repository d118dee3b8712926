package gateway

import (
	"context"
	"errors"
	"flag"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

var probes = flag.Int("probes", 120, "abandoned logins of each kind in TestAbandonedLogins; make e2e uses 10000")

// from2 dials from an address other than 127.0.0.1, which servers exempt from counting.
func from2(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return d.DialContext(ctx, network, addr)
}

// hostErrors returns what the server has counted against the gateway's address.
func hostErrors(t *testing.T, s *testmysql.Server) (handshake int) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Network: "unix", Addr: s.Socket, User: testmysql.RootUser, Password: testmysql.Password})
	must(t, err)
	defer c.Close()
	_, err = c.Query(t.Context(), "SELECT SUM_CONNECT_ERRORS FROM performance_schema.host_cache WHERE IP = '127.0.0.2'", func(r mysqlwire.TextRow) error {
		handshake, err = strconv.Atoi(string(r[0]))
		return err
	})
	must(t, err)
	return handshake
}

// A probe is a client that abandons its login.
type probe struct {
	name string
	run  func(t *testing.T, addr string)
}

func probeKinds(user string) []probe {
	begin := func(t *testing.T, addr string) (*mysqlconn.Conn, mysqlwire.Handshake) {
		t.Helper()
		nc, err := net.Dial("tcp", addr)
		must(t, err)
		must(t, nc.(*net.TCPConn).SetLinger(0)) // leaves no port waiting
		c := mysqlconn.New(nc)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		p, err := c.ReadMessage(1 << 16)
		must(t, err)
		var h mysqlwire.Handshake
		if err := h.Decode(p); err != nil {
			t.Fatalf("greeting: %v: %q", err, p)
		}
		return c, h
	}
	answer := func(t *testing.T, c *mysqlconn.Conn, plugin string) {
		t.Helper()
		r := mysqlwire.HandshakeResponse{
			Capabilities: scriptCaps &^ mysqlwire.CapConnectWithDB, MaxPacket: 1 << 24, Charset: 45,
			User: []byte(user), AuthPlugin: []byte(plugin), AuthResponse: make([]byte, 20),
		}
		must(t, c.WriteMessage(r.AppendTo(nil)))
	}
	return []probe{
		{"connects and leaves", func(t *testing.T, addr string) {
			nc, err := net.Dial("tcp", addr)
			must(t, err)
			nc.Close()
		}},
		{"leaves after the greeting", func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			c.Close()
		}},
		{"leaves within TLS", func(t *testing.T, addr string) {
			c, h := begin(t, addr)
			if h.Capabilities.Has(mysqlwire.CapSSL) {
				must(t, c.WriteMessage(mysqlwire.SSLRequest{Capabilities: scriptCaps | mysqlwire.CapSSL, MaxPacket: 1 << 24, Charset: 45}.AppendTo(nil)))
			}
			c.Close()
		}},
		{"leaves after its login", func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			answer(t, c, "mysql_native_password")
			c.Close()
		}},
		{"leaves after the auth switch", func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			answer(t, c, "caching_sha2_password")
			_, err := c.ReadMessage(1 << 16)
			must(t, err)
			c.Close()
		}},
	}
}

// TestAbandonedLogins has clients leave at each step of the login: the servers count no
// handshake error against the gateway's address and block neither it nor the account.
func TestAbandonedLogins(t *testing.T) {
	for _, server := range []struct {
		name string
		opts []testmysql.Option
	}{
		{"MariaDB", []testmysql.Option{
			testmysql.WithArgs("--max-password-errors=3"), testmysql.WithSetup("CREATE OR REPLACE USER guarded@'%' IDENTIFIED BY 'tare-test'"),
		}},
		{"MySQL", []testmysql.Option{
			testmysql.WithMySQL(), testmysql.WithArgs("--plugin-load-add=connection_control.so", "--connection-control-failed-connections-threshold=3",
				"--connection-control-min-connection-delay=60000"),
			testmysql.WithSetup("CREATE USER IF NOT EXISTS guarded@'%' IDENTIFIED BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1"),
		}},
	} {
		t.Run(server.name, func(t *testing.T) {
			opts := append(server.opts, testmysql.WithTLS(), testmysql.WithHostCache())
			s, err := testmysql.New(opts...)
			if errors.Is(err, testmysql.ErrNoMySQL) {
				t.Skip(err)
			}
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			blockControl(t, s)
			must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
			g := startGateway(t, s.Addr, func(o *Options) { o.Dial = from2 })
			for _, kind := range probeKinds("guarded") {
				t.Run(kind.name, func(t *testing.T) {
					for range *probes {
						kind.run(t, g.addr)
					}
					testwait.Until(t, "the abandoned sessions to end", func() bool { return g.Sessions() == 0 })
					g.targets[SideBackend].spares.flush()
					if n := hostErrors(t, s); n != 0 {
						t.Errorf("%d handshake errors are counted against the gateway's address, want 0", n)
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: "guarded", Password: testmysql.Password})
			if err != nil {
				t.Fatalf("a login afterwards: %v", err)
			}
			c.Close()
			if n := strings.Count(s.Log(), dismissedUser); n > len(probeKinds(""))**probes/4 {
				t.Errorf("%d denied logins of %s in the server's log", n, dismissedUser)
			}
		})
	}
}

// blockControl proves that the server counts: it blocks an address after 101 abandoned
// connections.
func blockControl(t *testing.T, s *testmysql.Server) {
	t.Helper()
	for range 101 {
		nc, err := from2(t.Context(), "tcp", s.Addr)
		must(t, err)
		_, _ = mysqlconn.New(nc).ReadMessage(1 << 16)
		nc.Close()
	}
	testwait.Until(t, "the server to block 127.0.0.2", func() bool {
		nc, err := from2(t.Context(), "tcp", s.Addr)
		must(t, err)
		defer nc.Close()
		p, err := mysqlconn.New(nc).ReadMessage(1 << 16)
		var e mysqlwire.Err
		return err == nil && e.Decode(p) == nil && e.Number == mysqlwire.ErrnoHostBlocked
	})
}
