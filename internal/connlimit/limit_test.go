package connlimit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestLimits acquires until each limit is reached.
func TestLimits(t *testing.T) {
	l := New(5) // three of one address
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, c := range []struct {
		addr netip.Addr
		want bool
	}{{a, true}, {a, true}, {a, true}, {a, false}, {b, true}, {b, true}, {b, false}} {
		if got := l.Acquire(c.addr); got != c.want {
			t.Errorf("acquisition %d: %t, want %t", i, got, c.want)
		}
	}
	l.Release(a)
	if !l.Acquire(b) || l.Acquire(a) {
		t.Error("the released one is not available to another address, or to one too many")
	}
	if got, want := l.Stats(), (Stats{Open: 5, Total: 5, PerAddress: 3, Refused: 3}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

// TestClient compares addresses as clients that are limited.
func TestClient(t *testing.T) {
	for addr, want := range map[string]string{
		"[2001:db8::1]:80": "2001:db8::", "[2001:db8:0:0:ffff:1:2:3]:80": "2001:db8::", "[2001:db8:0:1::1]:80": "2001:db8:0:1::",
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[fe80::1%lo]:80": "fe80::", "[::1]:80": "::", "@": "invalid IP",
	} {
		if got := AddressOf(addr).String(); got != want {
			t.Errorf("%s is counted as %s, want %s", addr, got, want)
		}
	}
}

// TestListener checks that connections over the limit are closed, and that each closed one makes room once.
func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	limit := New(4)
	l := limit.Listener(inner)
	accepted := make(chan net.Conn, 4)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second := dial(), dial()
	server := testwait.Receive(t, "a connection", accepted)
	testwait.Receive(t, "a second connection", accepted)
	third := dial()
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection over the limit of its address: %v, want its end", err)
	}
	server.Close()
	server.Close() // counts once
	fourth := dial()
	echo := testwait.Receive(t, "a connection after one was closed", accepted)
	if _, err := echo.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(fourth, make([]byte, 1)); err != nil {
		t.Errorf("a connection after another was closed: %v", err)
	}
	if got := limit.Stats(); got.Open != 2 || got.Refused != 1 {
		t.Errorf("stats %+v, want 2 open, 1 refused", got)
	}
	_, _ = first, second
}

// TestHandler checks that a request over the limit is refused before its body is read.
func TestHandler(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := New(2).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	done := make(chan error)
	go func() {
		resp, err := http.Get(s.URL)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	testwait.Receive(t, "the first request", entered)
	body, w := io.Pipe() // never sends
	defer w.Close()
	resp, err := http.Post(s.URL, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, want 503 with a time", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	close(leave)
	if err := testwait.Receive(t, "the first response", done); err != nil {
		t.Error(err)
	}
}
