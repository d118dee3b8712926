package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestDrain shuts the gateway down with an idle session, one in a transaction, and one with a running
// statement: the first is closed immediately, the others when they finish.
func TestDrain(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.DrainTimeout = 20 * time.Second })
	idle, open, running := raw(t, g, s, 0), raw(t, g, s, 0), raw(t, g, s, 0)
	if _, err := testscript.Exec(t, open, "begin"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := running.Exec(context.Background(), "select sleep(0.5)")
		result <- err
	}()
	g.records.wait(t, 0)
	g.awaitQueries(t, 2)
	ended := make(chan int, 1)
	go func() { ended <- g.Shutdown(context.Background()) }()
	wantShutdown(t, "the idle session", idle)
	if err := testwait.Receive(t, "the running statement's result", result); err != nil {
		t.Errorf("the running statement: %v", err)
	}
	if _, err := testscript.Exec(t, open, "select 1"); err != nil {
		t.Errorf("a statement of the open transaction: %v", err)
	}
	if _, err := testscript.Exec(t, open, "commit"); err != nil {
		t.Errorf("the open transaction's commit: %v", err)
	}
	if n := testwait.Receive(t, "Shutdown to return", ended); n != 0 {
		t.Errorf("Shutdown ended %d sessions, want 0", n)
	}
	if _, err := testscript.Connect(t, g.addr); err == nil {
		t.Error("a client was let in after Shutdown")
	}
}

// wantShutdown waits for the unsolicited error that announces the shutdown.
func wantShutdown(t *testing.T, subject string, c *mysqlconn.Client) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Seq = 0
	p, err := c.ReadMessage(1 << 16)
	var e mysqlwire.Err
	if err != nil || e.Decode(p) != nil || e.Number != mysqlwire.ErrnoServerShutdown {
		t.Errorf("%s was told %q, %v; want error 1053", subject, p, err)
	}
}

// TestDrainLimit closes sessions that do not finish within the drain timeout, with an error that names the
// reason.
func TestDrainLimit(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.DrainTimeout = 100 * time.Millisecond })
	open, running := raw(t, g, s, 0), raw(t, g, s, 0)
	if _, err := testscript.Exec(t, open, "begin"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := running.Exec(context.Background(), "select sleep(60)")
		result <- err
	}()
	g.awaitQueries(t, 2)
	if n := g.Shutdown(context.Background()); n != 2 {
		t.Errorf("Shutdown ended %d sessions, want 2", n)
	}
	if e, ok := testscript.ServerError(testwait.Receive(t, "the running statement's result", result)); !ok || e.Number != mysqlwire.ErrnoServerShutdown || !strings.Contains(e.Message, "option drain-timeout") {
		t.Errorf("the running statement got %v, want error 1053 that names option drain-timeout", e)
	}
	wantShutdown(t, "the open transaction", open)
}

func TestIdleTimeout(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.IdleTimeout = 50 * time.Millisecond })
	c := raw(t, g, s, 0)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Seq = 0
	p, err := c.ReadMessage(1 << 16)
	var e mysqlwire.Err
	if err != nil || e.Decode(p) != nil || !strings.Contains(string(e.Message), "option idle-timeout") {
		t.Errorf("the idle client received %q, %v", p, err)
	}
}
