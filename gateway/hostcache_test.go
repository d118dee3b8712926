package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var probes = flag.Int("probes", 120, "abandoned logins of each kind in TestAbandonedLogins; make e2e uses 10000")

// from2 dials from an address other than 127.0.0.1, which servers exempt from counting.
func from2(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return d.DialContext(ctx, network, addr)
}

// hostErrors returns the handshake errors that the server has counted against 127.0.0.2. The
// server has no row for an address that has not connected since the table was truncated.
func hostErrors(t *testing.T, s *testmysql.Server) (handshake int, ok bool) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Network: "unix", Addr: s.Socket, User: testmysql.RootUser, Password: testmysql.Password})
	must(t, err)
	defer c.Close()
	_, err = c.Query(t.Context(), "SELECT SUM_CONNECT_ERRORS FROM performance_schema.host_cache WHERE IP = '127.0.0.2'", func(r mysqlwire.TextRow) error {
		ok = true
		handshake, err = strconv.Atoi(string(r[0]))
		return err
	})
	must(t, err)
	return handshake, ok
}

// countOne closes a connection from 127.0.0.2 directly to the server after its greeting, and waits until the
// server has counted at least want. It returns the count.
func countOne(t *testing.T, s *testmysql.Server, want int) (n int) {
	t.Helper()
	nc, err := from2(t.Context(), "tcp", s.Addr)
	must(t, err)
	_, err = mysqlconn.New(nc).ReadMessage(1 << 16)
	must(t, err)
	nc.Close()
	testwait.Until(t, "the server to count a connection that was left", func() bool {
		var ok bool
		n, ok = hostErrors(t, s)
		return ok && n >= want
	})
	return n
}

// A probe is a client that abandons its login.
type probe struct {
	name string
	gate byte // 0; 's': silent, disconnects when the gateway does; 't': only the backend connection uses TLS
	run  func(t *testing.T, addr string)
}

// runAll abandons as many logins as the flag specifies; silent ones concurrently.
func (p probe) runAll(t *testing.T, addr string) {
	if p.gate != 's' {
		for range *probes {
			p.run(t, addr)
		}
		return
	}
	const maxSpares = 64 // kept by the gateway
	const together = maxSpares - 4
	var wg sync.WaitGroup
	for n := range together {
		wg.Go(func() {
			for i := n; i < *probes; i += together {
				p.run(t, addr)
			}
		})
	}
	testwait.Group(t, "the silent clients to be left", &wg)
}

// connectRaw connects and reads the first packet.
func connectRaw(t *testing.T, addr string) (*mysqlconn.Conn, []byte) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	must(t, nc.(*net.TCPConn).SetLinger(0)) // leaves no port waiting
	c := mysqlconn.New(nc)
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	p, err := c.ReadMessage(1 << 16)
	must(t, err)
	return c, p
}

// beginSilent connects and reads the greeting. On a busy machine the login's time-out may expire before that:
// not ok.
func beginSilent(t *testing.T, addr string) (*mysqlconn.Conn, bool) {
	t.Helper()
	c, p := connectRaw(t, addr)
	if p[0] == mysqlwire.MarkErr {
		c.Close()
		return nil, false
	}
	return c, true
}

// begin connects and reads the greeting.
func begin(t *testing.T, addr string) (*mysqlconn.Conn, mysqlwire.Handshake) {
	t.Helper()
	c, p := connectRaw(t, addr)
	var h mysqlwire.Handshake
	if err := h.Decode(p); err != nil {
		t.Fatalf("greeting: %v: %q", err, p)
	}
	return c, h
}

// sendWrongResponse sends a login with a wrong response.
func sendWrongResponse(t *testing.T, c *mysqlconn.Conn, user, plugin string) {
	t.Helper()
	r := mysqlwire.HandshakeResponse{
		Capabilities: testscript.Capabilities &^ mysqlwire.CapConnectWithDB, MaxPacket: 1 << 24, Charset: 45,
		User: []byte(user), AuthPlugin: []byte(plugin), AuthResponse: make([]byte, 20),
	}
	must(t, c.WriteMessage(r.AppendTo(nil)))
}

// requestTLS sends an SSLRequest.
func requestTLS(t *testing.T, c *mysqlconn.Conn) {
	t.Helper()
	must(t, c.WriteMessage(mysqlwire.SSLRequest{Capabilities: testscript.Capabilities | mysqlwire.CapSSL, MaxPacket: 1 << 24, Charset: 45}.AppendTo(nil)))
}

// awaitLeft waits until the gateway has disconnected a silent client.
func awaitLeft(t *testing.T, c *mysqlconn.Conn) {
	if _, err := io.Copy(io.Discard, c.NetConn()); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a silent client is not left: %v", err)
	}
	c.Close()
}

// probeKinds are the ways to abandon a login.
func probeKinds() []probe {
	return []probe{
		{"connects and leaves", 0, func(t *testing.T, addr string) {
			nc, err := net.Dial("tcp", addr)
			must(t, err)
			nc.Close()
		}},
		{"leaves after the greeting", 0, func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			c.Close()
		}},
		{"leaves within TLS", 0, func(t *testing.T, addr string) {
			c, h := begin(t, addr)
			if h.Capabilities.Has(mysqlwire.CapSSL) {
				requestTLS(t, c)
			}
			c.Close()
		}},
		{"leaves after its login", 0, func(t *testing.T, addr string) {
			c, h := begin(t, addr) // without an account: a login would reset the count, wrong passwords block one
			sendWrongResponse(t, c, fmt.Sprintf("nobody%d", h.ConnectionID), mysqlconn.PluginNative)
			c.Close()
		}},
		{"leaves after the auth switch", 0, func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			sendWrongResponse(t, c, "guarded", noMethod)
			_, err := c.ReadMessage(1 << 16)
			must(t, err)
			c.Close()
		}},
		{"leaves within a running TLS handshake", 0, func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			requestTLS(t, c)
			_, err := c.Socket().Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}) // the first bytes of a ClientHello
			must(t, err)
			c.Close()
		}},
		{"leaves after the TLS handshake", 0, func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			requestTLS(t, c)
			must(t, tls.Client(c.Socket(), &tls.Config{InsecureSkipVerify: true}).Handshake())
			c.Close()
		}},
		{"sends a password in clear to a gateway with TLS to the backend", 't', func(t *testing.T, addr string) {
			c, _ := begin(t, addr)
			sendWrongResponse(t, c, "guarded", "mysql_clear_password")
			p, err := c.ReadMessage(1 << 16)
			must(t, err)
			var e mysqlwire.Err
			if e.Decode(p) != nil || e.Number != mysqlwire.ErrnoSecureTransport {
				t.Errorf("a password in clear: %q", p)
			}
			c.Close()
		}},
		{"says nothing", 's', func(t *testing.T, addr string) {
			if c, ok := beginSilent(t, addr); ok {
				awaitLeft(t, c)
			}
		}},
		{"says nothing after the auth switch", 's', func(t *testing.T, addr string) {
			if c, ok := beginSilent(t, addr); ok {
				sendWrongResponse(t, c, "guarded", noMethod)
				awaitLeft(t, c)
			}
		}},
		{"says nothing within TLS", 's', func(t *testing.T, addr string) {
			if c, ok := beginSilent(t, addr); ok {
				requestTLS(t, c)
				awaitLeft(t, c)
			}
		}},
	}
}

// ed25519Kinds are the ways for an account of client_ed25519. The server sends its challenge after the
// account is named, so an abandoned login is a wrong password to the server.
func ed25519Kinds() []probe {
	return []probe{{"leaves after the auth switch to ed25519", 0, func(t *testing.T, addr string) {
		c, _ := begin(t, addr)
		sendWrongResponse(t, c, testmysql.EdUser, "client_ed25519")
		_, err := c.ReadMessage(1 << 16)
		must(t, err)
		c.Close()
	}}, {"signs wrongly by ed25519", 0, func(t *testing.T, addr string) {
		c, _ := begin(t, addr)
		sendWrongResponse(t, c, testmysql.EdUser, "client_ed25519")
		_, err := c.ReadMessage(1 << 16)
		must(t, err)
		_ = c.WriteMessage(make([]byte, 64))
		c.Close()
	}}}
}

// TestAbandonedLogins has clients disconnect at each step of the login: the servers count no handshake error
// against the gateway's address and block neither it nor the account. Before and after the probes of a kind,
// the server counts one connection of the control. This proves that it counts that address and that no login
// in between has reset the count. A gateway that connects to the server for each client and closes that
// connection when the client disconnects (like acb5bd9) fails: 130 logins abandoned after the auth switch
// block it at MariaDB.
func TestAbandonedLogins(t *testing.T) {
	for _, server := range []struct {
		name string
		ed   bool
		opts []testmysql.Option
	}{
		{"MariaDB", false, []testmysql.Option{
			testmysql.WithArgs("--max-password-errors=3"), testmysql.WithSetup("CREATE OR REPLACE USER guarded@'%' IDENTIFIED BY 'tare-test'"),
		}},
		{"MariaDB, ed25519", true, []testmysql.Option{
			testmysql.WithEd25519(), testmysql.WithSetup("CREATE OR REPLACE USER guarded@'%' IDENTIFIED BY 'tare-test'"),
		}},
		{"MySQL", false, []testmysql.Option{
			testmysql.WithMySQL(), testmysql.WithArgs("--plugin-load-add=connection_control.so", "--connection-control-failed-connections-threshold=3",
				"--connection-control-min-connection-delay=60000"),
			testmysql.WithSetup("CREATE USER IF NOT EXISTS guarded@'%' IDENTIFIED BY 'tare-test' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1"),
		}},
	} {
		t.Run(server.name, func(t *testing.T) {
			opts := append(server.opts, testmysql.WithTLS(), testmysql.WithHostCache())
			s := testmysql.StartOrSkip(t, opts...)
			blockControl(t, s)
			kinds := probeKinds()
			if server.ed {
				kinds = ed25519Kinds()
			}
			g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Dial = from2 })
			impatient := startGateway(t, s.Addr, func(o *gateway.Options) { o.Dial, o.HandshakeTimeout = from2, 150*time.Millisecond })
			secured := startGateway(t, s.Addr, func(o *gateway.Options) {
				o.Dial, o.Backend.TLS, o.ClientTLS = from2, mysqlconn.TLSRequired, gateway.ClientTLSPreferred
			})
			for _, kind := range kinds {
				t.Run(kind.name, func(t *testing.T) {
					g := g
					switch kind.gate {
					case 's':
						g = impatient
					case 't':
						g = secured
					}
					must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
					countOne(t, s, 1)
					kind.runAll(t, g.addr)
					testwait.Until(t, "the abandoned sessions to end", func() bool { return g.Sessions() == 0 })
					g.ForgetServers()
					if n := countOne(t, s, 2); n != 2 {
						t.Errorf("%d handshake errors are counted against the gateway's address, want the 2 of the control", n)
					}
				})
			}
			must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: "guarded", Password: testmysql.Password})
			if err != nil {
				t.Fatalf("a login afterwards: %v", err)
			}
			c.Close()
			if n := strings.Count(s.Log(), leftUser); n > len(kinds)**probes/4+2*64 {
				t.Errorf("%d denied logins of %s in the server's log", n, leftUser)
			}
		})
	}
}

// blockControl proves that the server counts: it blocks an address by 101 abandoned connections. It returns
// when the server has counted all of them.
func blockControl(t *testing.T, s *testmysql.Server) {
	t.Helper()
	greeted := 0
	leave := func() (blocked bool) {
		nc, err := from2(t.Context(), "tcp", s.Addr)
		must(t, err)
		defer nc.Close()
		p, err := mysqlconn.New(nc).ReadMessage(1 << 16)
		must(t, err)
		var e mysqlwire.Err
		if e.Decode(p) != nil {
			greeted++
			return false
		}
		return e.Number == mysqlwire.ErrnoHostBlocked
	}
	for range 101 {
		leave()
	}
	testwait.Until(t, "the server to block 127.0.0.2", leave)
	testwait.Until(t, "the server to count all of them", func() bool {
		n, ok := hostErrors(t, s)
		return ok && n == greeted
	})
}

// leftUser is the start of the name that a gateway logs in with for a client that has left.
const leftUser = "tare-client-left-"

// TestLateGreeting has a server greet after the handshake time-out: the gateway logs in with a name without an account,
// because the server would count a closed connection.
func TestLateGreeting(t *testing.T) {
	refused, user := make(chan struct{}), make(chan string, 1)
	g := startGateway(t, testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
		<-refused
		if b.WriteMessage(testscript.Greeting()) != nil {
			return
		}
		var r mysqlwire.HandshakeResponse
		if p, err := b.ReadMessage(1 << 16); err == nil && r.Decode(p) == nil {
			user <- string(r.User)
		}
		_ = b.WriteMessage(mysqlwire.Err{Number: mysqlwire.ErrnoAccessDenied, Message: []byte("denied")}.AppendTo(nil))
	}), func(o *gateway.Options) { o.HandshakeTimeout = 50 * time.Millisecond })
	_, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: g.addr, User: "app", Password: "x"})
	close(refused)
	if err == nil {
		t.Error("the client is logged in")
	}
	if u := testwait.Receive(t, "the login", user); !strings.HasPrefix(u, leftUser) {
		t.Errorf("logged in as %q", u)
	}
}
