package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// newcomer returns a client that has read the greeting.
func newcomer(t *testing.T, addr string) (*mysqlconn.Conn, mysqlwire.Handshake) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { nc.Close() })
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

// respond sends a login and returns the first packet that follows.
func respond(t *testing.T, c *mysqlconn.Conn, r mysqlwire.HandshakeResponse) []byte {
	t.Helper()
	must(t, c.WriteMessage(r.AppendTo(nil)))
	p, err := c.ReadMessage(1 << 16)
	must(t, err)
	return bytes.Clone(p)
}

// TestClientsThatLeaveReuseConnections connects clients that leave after the greeting: the connection to the backend that
// greeted one greets the next, and logs the last one in.
func TestClientsThatLeaveReuseConnections(t *testing.T) {
	var opened, open atomic.Int32
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		opened.Add(1)
		open.Add(1)
		defer open.Add(-1)
		testscript.Serve(c)
	})
	g := startGateway(t, backend, nil)
	var silent []*mysqlconn.Conn
	for range 20 {
		c, _ := newcomer(t, g.addr)
		silent = append(silent, c)
	}
	if n := g.newcomers(t); n != 20 {
		t.Errorf("%d connections count as unauthenticated, want 20", n)
	}
	for _, c := range silent {
		c.Close()
	}
	testwait.Equal(t, "the clients to be forgotten", 0, g.Sessions)
	for range 100 {
		c, _ := newcomer(t, g.addr)
		c.Close()
		testwait.Equal(t, "the client to be forgotten", 0, g.Sessions)
	}
	if n := opened.Load(); n > 60 { // more than 20 if their life of 3 s ends within the test
		t.Errorf("%d connections to the backend for 120 clients that left, of which 20 were concurrent", n)
	}
	if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 1"); err != nil {
		t.Fatal(err)
	}
	g.ForgetServers()
	testwait.Equal(t, "the spare connections to be closed", 1, func() int { return int(open.Load()) })
}

func TestUnauthenticatedLimits(t *testing.T) {
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	for name, c := range map[string]struct {
		change func(*gateway.Options)
		text   string
	}{
		"total":       {func(o *gateway.Options) { o.MaxUnauthenticated = 3 }, "option max-unauthenticated)"},
		"per address": {func(o *gateway.Options) { o.MaxUnauthenticatedPer = 3 }, "option max-unauthenticated-per-address)"},
		"open files":  {func(o *gateway.Options) { o.OpenFiles = 128 + 3*2 }, "file descriptors for 3"},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, backend, c.change)
			var last *mysqlconn.Conn
			for range 3 {
				last, _ = newcomer(t, g.addr)
			}
			_, err := testscript.Connect(t, g.addr)
			if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoTooManyConnections || !strings.Contains(e.Message, c.text) {
				t.Errorf("one too many: %v, want error 1040 with %q", err, c.text)
			}
			last.Close()
			testwait.Equal(t, "the client that left to be forgotten", 2, g.Sessions)
			testwait.Equal(t, "the client that left not to count", 2, func() int { return g.newcomers(t) })
			testscript.MustConnect(t, g.addr)
			testwait.Equal(t, "the client that is logged in not to count", 2, func() int { return g.newcomers(t) }) // it receives its OK earlier
			if name != "open files" {                                                                               // a client that is logged in does not count
				testscript.MustConnect(t, g.addr)
			}
		})
	}
}

// TestReady checks Ready with a backend that is ready, refuses logins, and is down, and expects one log line
// per change.
func TestReady(t *testing.T) {
	var refuse atomic.Bool
	var logins atomic.Int32
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if refuse.Load() {
			_ = c.WriteMessage(mysqlwire.Err{Number: 1129, Message: []byte("Host is blocked")}.AppendTo(nil))
			return
		}
		logins.Add(1)
		testscript.Serve(c)
	})
	for name, control := range map[string]*gateway.Account{"control account": {User: "ops"}, "no account": nil} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			refuse.Store(false)
			g := startGateway(t, backend, func(o *gateway.Options) {
				o.Control = control
				o.Diag = slog.New(slog.NewTextHandler(&log, nil))
			})
			before := logins.Load()
			for range 20 {
				must(t, g.Ready(t.Context()))
			}
			if n := logins.Load() - before; n < 1 || n > 5 { // more than 1 only if the requests take longer than readyLife
				t.Errorf("20 consecutive requests caused %d logins, want 1", n)
			}
			refuse.Store(true)
			for range 3 {
				if _, err := testscript.Connect(t, g.addr); err == nil {
					t.Error("a login succeeded at a backend that refuses")
				}
				if err := g.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "1129") {
					t.Errorf("ready at a backend that refuses: %v", err)
				}
			}
			if n := strings.Count(log.String(), `level=WARN msg="backend unreachable"`); n != 1 {
				t.Errorf("%d warnings, want 1:\n%s", n, log.String())
			}
			refuse.Store(false)
			testwait.Until(t, "the backend to be ready again", func() bool { return g.Ready(t.Context()) == nil })
			if n := strings.Count(log.String(), `msg="backend reachable again"`); n != 1 {
				t.Errorf("%d lines about its return, want 1:\n%s", n, log.String())
			}
		})
	}
}

// TestReadyAfterLoss loses the connection of a session to a backend that then refuses logins: Ready does not return the
// outcome of the last login for long.
func TestReadyAfterLoss(t *testing.T) {
	var refuse atomic.Bool
	lose := make(chan struct{})
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if refuse.Load() {
			_ = c.WriteMessage(mysqlwire.Err{Number: 1129, Message: []byte("Host is blocked")}.AppendTo(nil))
			return
		}
		if testscript.Login(c) {
			<-lose
		}
	})
	g := startGateway(t, backend, nil)
	testscript.MustConnect(t, g.addr)
	must(t, g.Ready(t.Context()))
	refuse.Store(true)
	close(lose)
	testwait.Until(t, "the backend to be unready", func() bool { return g.Ready(t.Context()) != nil })
}

// A lateListener accepts connections whose first write ends by its deadline before a byte is written.
type lateListener struct{ net.Listener }

func (l lateListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return &lateConn{Conn: nc}, err
}

type lateConn struct {
	net.Conn
	written bool
}

func (c *lateConn) Write(p []byte) (int, error) {
	if !c.written {
		c.written = true
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(p)
}

// TestTimeoutBeforeGreeting has the time for a login end just before the greeting is written: the client gets the reason
// as the first packet, with the sequence number that it expects.
func TestTimeoutBeforeGreeting(t *testing.T) {
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 1 << 20})
	must(t, err)
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	must(t, err)
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	g, err := gateway.New(gateway.Options{Backend: gateway.Backend{Addr: backend}, Planner: planner, Log: log, Diag: slog.New(slog.DiscardHandler)})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(lateListener{l}) }()
	if _, err = testscript.Connect(t, l.Addr().String()); err == nil || !strings.Contains(err.Error(), "no login within") {
		t.Errorf("got %v", err)
	}
	g.Shutdown(t.Context())
	must(t, testwait.Receive(t, "Serve to return", served))
}

func uintText(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// TestServerWithoutLenenc logs clients in at a server that lacks CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA and
// connection attributes, like TiDB: the handshake response is encoded as the server decodes it.
func TestServerWithoutLenenc(t *testing.T) {
	logins := make(chan mysqlwire.HandshakeResponse, 1)
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if c.WriteMessage(testscript.Greeting()) != nil { // scriptCaps lack both
			return
		}
		p, err := c.ReadMessage(1 << 16)
		var r mysqlwire.HandshakeResponse
		if err != nil || r.Decode(bytes.Clone(p)) != nil {
			return
		}
		logins <- r
		_ = c.WriteMessage(testscript.OK())
		for testscript.Command(c) != nil {
			_ = c.WriteMessage(testscript.OK())
		}
	})
	g := startGateway(t, backend, nil)
	c, h := newcomer(t, g.addr)
	if h.Capabilities.Has(mysqlwire.CapPluginAuthLenenc) {
		t.Error("the gateway offers what the server lacks")
	}
	p := respond(t, c, mysqlwire.HandshakeResponse{
		Capabilities: h.Capabilities&^mysqlwire.CapSSL | mysqlwire.CapPluginAuthLenenc | mysqlwire.CapConnectWithDB, MaxPacket: 1 << 24, Charset: 45,
		User: []byte("app"), Database: []byte("shop"), AuthPlugin: []byte("mysql_native_password"), AuthResponse: make([]byte, 20),
	})
	if p[0] != mysqlwire.MarkOK {
		t.Fatalf("login: %q", p)
	}
	r := testwait.Receive(t, "the login at the backend", logins)
	if r.Capabilities.Has(mysqlwire.CapPluginAuthLenenc) || string(r.User) != "app" || string(r.Database) != "shop" {
		t.Errorf("the backend got %+v", r)
	}
}

// TestClientWithoutPluginAuth logs in a client that accepts one challenge only, its greeting's.
func TestClientWithoutPluginAuth(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c, h := newcomer(t, g.addr)
	p := respond(t, c, mysqlwire.HandshakeResponse{
		Capabilities: h.Capabilities & (mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapLongPassword),
		MaxPacket:    1 << 24, Charset: 45, User: []byte(testmysql.AppUser),
		AuthResponse: mysqlconn.ScrambleNative(testmysql.Password, h.AuthData),
	})
	if p[0] != mysqlwire.MarkOK {
		t.Errorf("first login after the start: %q, want OK", p)
	}
}

// TestErrorsBeforeLoginNameNoBackend searches the packets sent to clients before login for the backend's
// address.
func TestErrorsBeforeLoginNameNoBackend(t *testing.T) {
	var n atomic.Int32
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if n.Add(1) == 1 {
			testscript.Serve(c)
			return
		}
		_ = c.SetDeadline(time.Now().Add(-time.Second))
	})
	var log lockedBuffer
	g := startGateway(t, backend, func(o *gateway.Options) { o.Diag = slog.New(slog.NewTextHandler(&log, nil)) })
	testscript.MustConnect(t, g.addr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: "app"})
	e, ok := testscript.ServerError(err)
	if _, port, _ := net.SplitHostPort(backend); !ok || strings.Contains(e.Message, port) || strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("got %v, want an error without the backend's address", err)
	}
	// The gateway logs a failed login after its response.
	testwait.Until(t, "the log to name the backend", func() bool { return strings.Contains(log.String(), backend) })
}
