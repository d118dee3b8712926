package netloop

import (
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newGroup starts a group that is closed at the end of the test.
func newGroup(t testing.TB, loops int) *Group {
	t.Helper()
	g, err := New(Options{Loops: loops, Panic: func(v any, stack []byte) { t.Errorf("panic: %v\n%s", v, stack) }})
	must(t, err)
	closeGroup(t, g)
	return g
}

func closeGroup(t testing.TB, g *Group) {
	t.Helper()
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			g.Close()
		}()
		testwait.Receive(t, "the group to close", closed)
	})
}

// pair returns two ends of a TCP connection: one for a task, and its peer.
func pair(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	nc, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { peer.Close() })
	return NewConn(nc), peer.(*net.TCPConn)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noHangup(*Conn) {}
