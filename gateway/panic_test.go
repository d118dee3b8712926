package gateway

import (
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
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
	g := startGateway(t, startScript(t, func(_ int, c *mysqlconn.Conn) {
		open.Add(1)
		defer open.Add(-1)
		scriptServe(c)
	}), func(o *Options) {
		o.Observers = []Observer{panicking{}}
		o.Diag = slog.New(slog.NewTextHandler(&log, nil))
	})
	other, faulty := mustConnect(t, g.addr), mustConnect(t, g.addr)
	_, _ = exec(t, faulty, "select '"+strings.Repeat("x", 5000)+"'") // the response was relayed before the panic
	if _, err := exec(t, faulty, "select 1"); err == nil {
		t.Error("the session continues after a panic")
	}
	for range 3 {
		if _, err := exec(t, other, "select 2"); err != nil {
			t.Errorf("another session: %v", err)
		}
		if _, err := exec(t, mustConnect(t, g.addr), "select 3"); err != nil {
			t.Errorf("a new session: %v", err)
		}
	}
	// The client's connection is closed earlier.
	testwait.Equal(t, "the panic to be counted", 1, g.metrics.panics.Load)
	testwait.Until(t, "the panic to be logged", func() bool { return strings.Contains(log.String(), "level=ERROR") })
	g.expectedPanics = 1
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "an observer failed") || !strings.Contains(text, "panic_test.go") {
		t.Errorf("the log has no ERROR with the panic and its stack: %s", text)
	}
}

// TestStatementMemoryExtremes sends statements of the lengths around the statement memory and
// the longest packet, with the memory at both ends of what Validate accepts.
func TestStatementMemoryExtremes(t *testing.T) {
	backend := startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) })
	for _, memory := range []int{minStatementMemory, mysqlwire.MaxPayload - 2, mysqlwire.MaxPayload - 1} {
		g := startGateway(t, backend, func(o *Options) { o.StatementMemory = memory })
		c := mustConnect(t, g.addr)
		for _, n := range []int{memory - 2, memory - 1, memory, memory + 1, mysqlwire.MaxPayload - 1, mysqlwire.MaxPayload, mysqlwire.MaxPayload + 1} {
			sql := "select '" + strings.Repeat("x", n-len("select ''")-1) + "'" // the command byte counts
			if _, err := exec(t, c, sql); err != nil {
				t.Fatalf("statement memory %d, a command of %d bytes: %v", memory, n, err)
			}
		}
	}
}

func TestOptionExtremes(t *testing.T) {
	backend := startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) })
	const longest = 1<<63 - 1
	for name, change := range map[string]func(*Options){
		"longest time-outs": func(o *Options) {
			o.ConnectTimeout, o.HandshakeTimeout, o.IdleTimeout, o.DrainTimeout = longest, longest, longest, longest
		},
		"most connections": func(o *Options) { o.MaxConnections, o.MaxUserConnections, o.BufferBytes = longest, longest, longest },
		"one connection":   func(o *Options) { o.MaxConnections, o.MaxUserConnections, o.BufferBytes = 1, 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, backend, change)
			if _, err := exec(t, mustConnect(t, g.addr), "select '"+strings.Repeat("x", 2<<20)+"'"); err != nil {
				t.Error(err)
			}
		})
	}
	for name, change := range map[string]func(*Options){
		"memory below the least":  func(o *Options) { o.StatementMemory = minStatementMemory - 1 },
		"memory above the packet": func(o *Options) { o.StatementMemory = mysqlwire.MaxPayload },
		"negative limit":          func(o *Options) { o.MaxConnections = -1 },
		"negative time-out":       func(o *Options) { o.IdleTimeout = -1 },
		"address without a port":  func(o *Options) { o.Backend.Addr = net.IPv4(127, 0, 0, 1).String() },
	} {
		o := startGateway(t, backend, nil).opts
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
	g := startGateway(t, startScript(t, func(n int, c *mysqlconn.Conn) {
		if n > 0 {
			scriptServe(c)
			return
		}
		if !scriptLogin(c) {
			return
		}
		scriptCommand(c)
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
			g.accept(panickingConn{nc, &armed})
		}
	}()
	c := mustConnect(t, l.Addr().String())
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
	testwait.Equal(t, "the panic to be counted", 1, g.metrics.panics.Load)
	g.expectedPanics = 1
	if _, err := exec(t, mustConnect(t, g.addr), "select 1"); err != nil {
		t.Errorf("a new session: %v", err)
	}
}

// TestPanicInAHold checks that commands do not wait for a pause whose goroutine panicked.
func TestPanicInAHold(t *testing.T) {
	backend := startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) })
	g := startGateway(t, backend, func(o *Options) {
		o.Standby = &Backend{Addr: "127.0.0.1:1"}
		o.Password = func(string) (string, bool) { return "", true }
		o.SaveRoute = func(string) error { return nil }
	})
	g.registry.mu.Lock()
	g.registry.sessions[nil] = struct{}{} // reading it panics
	g.registry.mu.Unlock()
	_, _, err := g.Pause(t.Context(), MaxPause)
	g.registry.mu.Lock()
	delete(g.registry.sessions, nil)
	g.registry.mu.Unlock()
	if err == nil {
		t.Error("the hold continues after a panic")
	}
	g.expectedPanics = 1
	if _, err := exec(t, mustConnect(t, g.addr), "select 1"); err != nil {
		t.Errorf("a session after the hold: %v", err)
	}
	if gate := g.gate.Load(); gate&gatePaused != 0 {
		t.Errorf("the gate is %b", gate)
	}
}
