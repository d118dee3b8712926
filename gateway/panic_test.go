package gateway_test

import (
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// panicking is an observer that panics at a long statement.
type panicking struct{}

func (panicking) Observe(r *querylog.Record) {
	if r.BytesIn > 5000 {
		panic("an observer failed")
	}
}

// TestPanicEndsOneSession makes one session panic: its connections are closed, the panic is logged with its
// stack and counted, and other sessions and new ones work.
func TestPanicEndsOneSession(t *testing.T) {
	var log lockedBuffer
	var open atomic.Int32 // connections at the backend
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		open.Add(1)
		defer open.Add(-1)
		testscript.Serve(c)
	}), func(o *gateway.Options) {
		o.Observers = []gateway.Observer{panicking{}}
		o.Diag = slog.New(slog.NewTextHandler(&log, nil))
	})
	other, faulty := testscript.MustConnect(t, g.addr), testscript.MustConnect(t, g.addr)
	_, _ = testscript.Exec(t, faulty, "select '"+strings.Repeat("x", 5000)+"'") // the response was relayed before the panic
	if _, err := testscript.Exec(t, faulty, "select 1"); err == nil {
		t.Error("the session continues after a panic")
	}
	for range 3 {
		if _, err := testscript.Exec(t, other, "select 2"); err != nil {
			t.Errorf("another session: %v", err)
		}
		if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 3"); err != nil {
			t.Errorf("a new session: %v", err)
		}
	}
	// The client's connection is closed earlier.
	testwait.Equal(t, "the panic to be counted", 1, func() int { return int(g.metric(t, "tare_session_panics_total")) })
	testwait.Until(t, "the panic to be logged", func() bool { return strings.Contains(log.String(), "level=ERROR") })
	g.expectedPanics = 1
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "an observer failed") || !strings.Contains(text, "panic_test.go") {
		t.Errorf("the log has no ERROR with the panic and its stack: %s", text)
	}
}

// TestStatementMemoryExtremes sends statements of the lengths around the statement memory and
// the longest packet, with the memory at both ends of what Validate accepts.
func TestStatementMemoryExtremes(t *testing.T) {
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	for _, memory := range []int{16 << 10, mysqlwire.MaxPayload - 2, mysqlwire.MaxPayload - 1} {
		g := startGateway(t, backend, func(o *gateway.Options) { o.StatementMemory = memory })
		c := testscript.MustConnect(t, g.addr)
		for _, n := range []int{memory - 2, memory - 1, memory, memory + 1, mysqlwire.MaxPayload - 1, mysqlwire.MaxPayload, mysqlwire.MaxPayload + 1} {
			sql := "select '" + strings.Repeat("x", n-len("select ''")-1) + "'" // the command byte counts
			if _, err := testscript.Exec(t, c, sql); err != nil {
				t.Fatalf("statement memory %d, a command of %d bytes: %v", memory, n, err)
			}
		}
	}
}

func TestOptionExtremes(t *testing.T) {
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	const longest = 1<<63 - 1
	for name, change := range map[string]func(*gateway.Options){
		"longest time-outs": func(o *gateway.Options) {
			o.ConnectTimeout, o.HandshakeTimeout, o.IdleTimeout, o.DrainTimeout = longest, longest, longest, longest
		},
		"most connections": func(o *gateway.Options) {
			o.MaxConnections, o.MaxUserConnections, o.BufferBytes = longest, longest, longest
		},
		"one connection": func(o *gateway.Options) { o.MaxConnections, o.MaxUserConnections, o.BufferBytes = 1, 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, backend, change)
			if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select '"+strings.Repeat("x", 2<<20)+"'"); err != nil {
				t.Error(err)
			}
		})
	}
	for name, change := range map[string]func(*gateway.Options){
		"memory below the least":  func(o *gateway.Options) { o.StatementMemory = 16<<10 - 1 },
		"memory above the packet": func(o *gateway.Options) { o.StatementMemory = mysqlwire.MaxPayload },
		"negative limit":          func(o *gateway.Options) { o.MaxConnections = -1 },
		"negative time-out":       func(o *gateway.Options) { o.IdleTimeout = -1 },
		"address without a port":  func(o *gateway.Options) { o.Backend.Addr = net.IPv4(127, 0, 0, 1).String() },
	} {
		var o gateway.Options
		startGateway(t, backend, func(valid *gateway.Options) { o = *valid })
		change(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// panickingConn panics in a read once it is armed.
type panickingConn struct {
	net.Conn
	armed *atomic.Bool
}

func (c panickingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() {
		panic("a read failed")
	}
	return n, err
}

// TestPanicInAPipe makes the goroutine panic that relays a client's bytes beside a binary log: only its
// session ends.
func TestPanicInAPipe(t *testing.T) {
	var armed atomic.Bool
	dumping := make(chan struct{})
	g := startGateway(t, testscript.Start(t, func(n int, c *mysqlconn.Conn) {
		if n > 0 {
			testscript.Serve(c)
			return
		}
		if !testscript.Login(c) {
			return
		}
		testscript.Command(c)
		armed.Store(true)
		_ = c.WriteMessage([]byte{0}) // an event
		close(dumping)
		_, _ = c.ReadMessage(1 << 20) // until the session ends
	}), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		if nc, err := l.Accept(); err == nil {
			g.Accept(panickingConn{nc, &armed})
		}
	}()
	c := testscript.MustConnect(t, l.Addr().String())
	testwait.Receive(t, "the connection to be accepted", accepted)
	c.Seq = 0
	if err := c.WriteMessage(mysqlwire.BinlogDump{Offset: 4, File: []byte("log.1")}.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, "the binary log to be requested", dumping)
	c.Seq = 1
	if _, err := c.ReadMessage(1 << 20); err != nil {
		t.Fatalf("the event: %v", err)
	}
	if _, err := c.NetConn().Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadMessage(1 << 20); err == nil {
		t.Error("the session continues after a panic")
	}
	testwait.Equal(t, "the panic to be counted", 1, func() int { return int(g.metric(t, "tare_session_panics_total")) })
	g.expectedPanics = 1
	if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 1"); err != nil {
		t.Errorf("a new session: %v", err)
	}
}

// TestPanicInAHold checks that commands do not wait for a pause whose goroutine panicked.
func TestPanicInAHold(t *testing.T) {
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	g := startGateway(t, backend, func(o *gateway.Options) {
		o.Standby = &gateway.Backend{Addr: "127.0.0.1:1"}
		o.Password = func(string) (string, bool) { return "", true }
		o.SaveRoute = func(string) error { return nil }
	})
	repair := g.BreakRegistry()
	_, _, err := g.Pause(t.Context(), gateway.MaxPause)
	repair()
	if err == nil {
		t.Error("the hold continues after a panic")
	}
	g.expectedPanics = 1
	if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 1"); err != nil {
		t.Errorf("a session after the hold: %v", err)
	}
	if g.Paused() {
		t.Error("commands wait for the end of the pause")
	}
}
