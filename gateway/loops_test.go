package gateway_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// slowBackend never responds to "slow", and responds to all other commands with OK.
func slowBackend(_ int, c *mysqlconn.Conn) {
	if !testscript.Login(c) {
		return
	}
	for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
		if string(p[1:]) == "slow" {
			_, _ = c.ReadMessage(1 << 16) // until the gateway disconnects
			return
		}
		if c.WriteMessage(testscript.OK()) != nil {
			return
		}
	}
}

// TestBlockedSessionLeavesItsLoop blocks one session in a KILL, which waits for a server: the loop serves its
// other sessions meanwhile.
func TestBlockedSessionLeavesItsLoop(t *testing.T) {
	killing, release := make(chan struct{}), make(chan struct{})
	g := startGateway(t, testscript.Start(t, slowBackend), func(o *gateway.Options) {
		o.Loops = 1
		o.Kill = func(string, uint32) error {
			close(killing)
			<-release
			return nil
		}
	})
	other, leaving := testscript.MustConnect(t, g.addr), testscript.MustConnect(t, g.addr)
	leaving.Seq = 0
	must(t, leaving.WriteMessage(append([]byte{byte(mysqlwire.ComQuery)}, "slow"...)))
	g.awaitQueries(t, 1)
	must(t, leaving.Socket().(*net.TCPConn).SetLinger(0)) // resets the connection
	leaving.Conn.Close()
	testwait.Receive(t, "the statement to be killed", killing)
	for range 10 {
		if _, err := testscript.Exec(t, other, "select 1"); err != nil {
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
	g := startGateway(t, testscript.Start(t, func(n int, c *mysqlconn.Conn) {
		if n != 1 {
			testscript.Serve(c)
			return
		}
		if testscript.Login(c) && testscript.Command(c) != nil {
			c.AppendMessage(make([]byte, 100_000))
			_ = c.Flush()
		}
	}), func(o *gateway.Options) { o.Loops = -1 })
	if n := g.Loops().Loops(); n != 0 {
		t.Fatalf("%d loops", n)
	}
	c, stream := testscript.MustConnect(t, g.addr), testscript.MustConnect(t, g.addr)
	stream.Seq = 0
	must(t, stream.WriteMessage(mysqlwire.BinlogDump{Offset: 4, File: []byte("log.1")}.AppendTo(nil)))
	if p, err := stream.ReadMessage(1 << 20); err != nil || len(p) != 100_000 {
		t.Errorf("an event of %d bytes, %v", len(p), err)
	}
	for range 10 {
		if _, err := testscript.Exec(t, c, "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	impatient := startGateway(t, testscript.Start(t, slowBackend), func(o *gateway.Options) { o.Loops, o.IdleTimeout = -1, 50*time.Millisecond })
	testscript.MustConnect(t, impatient.addr)
	testwait.Equal(t, "the idle session to end", 0, impatient.Sessions)
	last := testscript.MustConnect(t, g.addr)
	ended := make(chan int, 1)
	go func() { ended <- g.Shutdown(context.Background()) }()
	wantShutdown(t, "the last session", last)
	if n := testwait.Receive(t, "Shutdown to return", ended); n != 0 {
		t.Errorf("Shutdown ended %d sessions, want 0", n)
	}
}
