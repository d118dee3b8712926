package gateway

import (
	"net"
	"testing"

	"github.com/taredb/tare/mysqlconn"
)

// TestWatcherForgets hands on a hang-up that was noticed before its connection was closed,
// when another session has got the descriptor's number: that session must not hear of it.
func TestWatcherForgets(t *testing.T) {
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() *mysqlconn.Conn {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return mysqlconn.New(nc)
	}
	watchOne := func() (*session, watch) {
		s := &session{client: dial(), backend: dial()}
		at, err := w.add(s, clientSide, s.client.Socket())
		if err != nil {
			t.Fatal(err)
		}
		return s, at
	}
	first, old := watchOne()
	w.remove(old)
	_ = first.client.Close()
	_ = first.backend.Close()
	second, now := watchOne()
	defer func() {
		w.remove(now)
		_ = second.client.Close()
		_ = second.backend.Close()
	}()
	if old.fd != now.fd {
		t.Skip("the system gave another descriptor")
	}
	w.hangup(old.id)
	if second.causes.Load()&causeClientGone != 0 {
		t.Error("a session heard of another one's hang-up")
	}
	w.hangup(now.id)
	if second.causes.Load()&causeClientGone == 0 {
		t.Error("a session did not hear of its own hang-up")
	}
}
