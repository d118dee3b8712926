package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/netloop"
)

// slowBackend never responds to "slow", and responds to all other commands with OK.
func slowBackend(_ int, c *mysqlconn.Conn) {
	if !scriptLogin(c) {
		return
	}
	for p := scriptCommand(c); p != nil; p = scriptCommand(c) {
		if string(p[1:]) == "slow" {
			_, _ = c.ReadMessage(1 << 16) // until the gateway disconnects
			return
		}
		if c.WriteMessage(okPacket()) != nil {
			return
		}
	}
}

// TestBlockedSessionLeavesItsLoop blocks one session in a KILL, which waits for a server: the loop serves its
// other sessions meanwhile.
func TestBlockedSessionLeavesItsLoop(t *testing.T) {
	killing, release := make(chan struct{}), make(chan struct{})
	g := startGateway(t, startScript(t, slowBackend), func(o *Options) {
		o.Loops = 1
		o.Kill = func(string, uint32) error {
			close(killing)
			<-release
			return nil
		}
	})
	other, leaving := mustConnect(t, g.addr), mustConnect(t, g.addr)
	leaving.Seq = 0
	must(t, leaving.WriteMessage(append([]byte{byte(mysqlwire.ComQuery)}, "slow"...)))
	g.awaitQueries(t, 1)
	leaving.Conn.Close()
	testwait.Receive(t, "the statement to be killed", killing)
	for range 10 {
		if _, err := exec(t, other, "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.Sessions(); n != 2 {
		t.Errorf("%d sessions while one waits, want 2", n)
	}
	close(release)
	testwait.Equal(t, "the session to end", 1, g.Sessions)
}

// TestWithoutLoops serves sessions by goroutines, as on platforms without event loops: commands, a relayed
// binary log, interruptions by the idle time-out and by Shutdown.
func TestWithoutLoops(t *testing.T) {
	g := startGateway(t, startScript(t, func(n int, c *mysqlconn.Conn) {
		if n != 1 {
			scriptServe(c)
			return
		}
		if scriptLogin(c) && scriptCommand(c) != nil {
			c.AppendMessage(make([]byte, 100_000))
			_ = c.Flush()
		}
	}), func(o *Options) { o.Loops, o.IdleTimeout = -1, 2*time.Second })
	if n := g.loops.Loops(); n != 0 {
		t.Fatalf("%d loops", n)
	}
	c, stream := mustConnect(t, g.addr), mustConnect(t, g.addr)
	stream.Seq = 0
	must(t, stream.WriteMessage(mysqlwire.BinlogDump{Offset: 4, File: []byte("log.1")}.AppendTo(nil)))
	if p, err := stream.ReadMessage(1 << 20); err != nil || len(p) != 100_000 {
		t.Errorf("an event of %d bytes, %v", len(p), err)
	}
	for range 10 {
		if _, err := exec(t, c, "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Equal(t, "the idle session to end", 0, g.Sessions)
	last := mustConnect(t, g.addr)
	ended := make(chan int, 1)
	go func() { ended <- g.Shutdown(context.Background()) }()
	wantShutdown(t, "the last session", last)
	if n := testwait.Receive(t, "Shutdown to return", ended); n != 0 {
		t.Errorf("Shutdown ended %d sessions, want 0", n)
	}
}

// TestReadBuffersAreShared opens waiting and active sessions: waiting ones have no read buffer, and the loop
// keeps as many buffers as are active concurrently.
func TestReadBuffersAreShared(t *testing.T) {
	const sessions = 20
	g := startGateway(t, startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) }), func(o *Options) { o.Loops = 1 })
	if g.loops.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range sessions {
		clients = append(clients, mustConnect(t, g.addr))
	}
	for range 3 {
		for _, c := range clients {
			if _, err := exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	idle(t, g)
	for _, c := range clients {
		c.Close()
	}
	testwait.Equal(t, "the sessions to end", 0, g.Sessions)
	free := g.readers[0].free
	want := int64(len(free[clientSide])*clientBuffer + len(free[backendSide])*backendBuffer)
	if got := g.readerBytes.Load(); got != want || want > sessions*(clientBuffer+backendBuffer) {
		t.Errorf("%d bytes of read buffers are accounted, %d are free", got, want)
	}
}

// TestWaitingSessionsHaveNoQuery opens more sessions than are active: those that wait for a command have no query,
// and the account has one for each command that was in progress at the same time.
func TestWaitingSessionsHaveNoQuery(t *testing.T) {
	const sessions = 20
	g := startGateway(t, startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) }), func(o *Options) { o.Loops = 1 })
	if g.loops.Loops() == 0 {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range sessions {
		clients = append(clients, mustConnect(t, g.addr))
	}
	for _, c := range clients {
		for range 2 {
			if _, err := exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	idle(t, g)
	runOnLoop(t, g, func() {
		var free int64
		for _, q := range g.readers[0].queries {
			free += q.charged
			if q.msg.body != nil || q.plan != nil {
				t.Error("a free query has a view of a statement")
			}
		}
		g.registry.mu.Lock()
		defer g.registry.mu.Unlock()
		for s := range g.registry.sessions {
			if s.query != nil {
				t.Error("a waiting session has a query")
			}
		}
		if n := g.queryBytes.Load(); n != free {
			t.Errorf("%d bytes of queries are accounted, %d are free", n, free)
		}
	})
	for _, c := range clients {
		c.Close()
	}
	testwait.Equal(t, "the sessions to end", 0, g.Sessions)
}

// runOnLoop runs f on the gateway's only loop, where sessions and free buffers may be read.
func runOnLoop(t *testing.T, g *rig, f func()) {
	t.Helper()
	done := make(chan struct{})
	must(t, g.loops.Go(func(*netloop.Task) { f(); close(done) }, func(*netloop.Conn) {}))
	testwait.Receive(t, "the loop", done)
}

// TestLoopsShareNoCounters counts the statements of each loop's sessions in a stripe of the loop's own, live
// ones included, and logs them as one writer.
func TestLoopsShareNoCounters(t *testing.T) {
	const loops, perLoop, statements = 2, 3, 5
	g := startGateway(t, startScript(t, func(_ int, c *mysqlconn.Conn) { scriptServe(c) }), func(o *Options) { o.Loops = loops })
	if g.loops.Loops() != loops {
		t.Skip("no loops on this platform")
	}
	var clients []*mysqlconn.Client
	for range loops * perLoop {
		clients = append(clients, mustConnect(t, g.addr))
	}
	for _, c := range clients {
		for range statements {
			if _, err := exec(t, c, "select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	writers := make(map[uint64]int)
	for i := range loops * perLoop * statements {
		r, _, _ := g.records.wait(t, i)
		writers[r.Writer]++
	}
	for loop := range loops {
		c := &g.metrics.stripes[loop]
		var counted, live uint64
		for i := range c.durations {
			counted += c.durations[i].Load()
		}
		for i := range c.live.slots {
			live += c.live.slots[i].calls.Load()
		}
		const want = perLoop * statements
		if counted != want || live == 0 || writers[uint64(loop)+1] != want {
			t.Errorf("loop %d: %d statements counted, %d live, %d by its writer, want %d", loop, counted, live, writers[uint64(loop)+1], want)
		}
	}
}
