package gateway

import (
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestSparesAge returns a connection to the pool repeatedly: it is kept no longer than a new one, because the
// server's login time-out starts at the greeting.
func TestSparesAge(t *testing.T) {
	g := startInner(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), nil)
	target := g.targets[switchover.Backend]
	fresh, err := g.openGreeted(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	target.spares.put(fresh)
	if target.spares.take() != fresh {
		t.Fatal("a new connection is not kept")
	}
	if got, want := fresh.responseDeadline(), fresh.born.Add(spareLife+responseTimeout); !got.Equal(want) {
		t.Errorf("a client has to answer until %v, want %v", got, want)
	}
	fresh.born = fresh.born.Add(-spareLife) // its client took that long
	target.spares.put(fresh)
	if g := target.spares.take(); g != nil {
		t.Errorf("a connection greeted at %v is kept", g.born)
	}
}

// A timedConn records its read deadline.
type timedConn struct {
	net.Conn
	reads time.Time
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.reads = t
	return nil
}

// TestResponseDeadline bounds the client's response while a connection to the backend is reserved. A gateway whose clients share
// connections greets them without one: option handshake-timeout alone bounds the login.
func TestResponseDeadline(t *testing.T) {
	g := startInner(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), nil)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	client := &timedConn{Conn: near}
	l := login{session: newSession(g.Server, client), deadline: time.Now().Add(time.Hour)}
	l.boundResponse("")
	if !client.reads.IsZero() {
		t.Errorf("without a connection to the backend, a client has to respond until %v", client.reads)
	}
	l.setBackend(mysqlconn.NewBuffer(netloop.NewConn(far), nil))
	l.boundResponse("")
	if want := l.asked.Add(responseTimeout); !client.reads.Equal(want) {
		t.Errorf("a client has to respond until %v, want %v", client.reads, want)
	}
}
