package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestRuntimeCharts connects to the runtime's charts: their source runs while a client is connected. TestMain
// checks that no goroutine remains.
func TestRuntimeCharts(t *testing.T) {
	o := testOptions()
	o.Weight = &WeightSource{}
	s := New(o)
	server := httptest.NewServer(s.Handler())
	defer server.Close()

	code, body, header := request(t, s.Handler(), "GET", runtimePath)
	if code != http.StatusOK || !strings.Contains(body, "<html") {
		t.Fatalf("%s: %d %.200s", runtimePath, code, body)
	}
	if p := header.Get("Content-Security-Policy"); strings.Contains(p, "script-src 'self' 'unsafe") || !strings.Contains(p, "default-src 'none'") {
		t.Errorf("policy %q", p)
	}
	if _, _, header = request(t, s.Handler(), "GET", "/weight"); header.Get("Content-Security-Policy") != policy {
		t.Errorf("the page above has the policy %q", header.Get("Content-Security-Policy"))
	}
	if code, _, _ := request(t, s.Handler(), "GET", runtimePath+"ws"); code != http.StatusBadRequest {
		t.Errorf("no websocket: %d, want 400", code)
	}
	if s.runtime.running() {
		t.Error("charts are fed while nobody looks")
	}

	first, lines := lookAt(t, server)
	second, _ := lookAt(t, server)
	if !s.runtime.running() {
		t.Error("charts are not fed while two look")
	}
	if text, err := lines.ReadString('}'); err != nil || !strings.Contains(text, `"event":"config"`) {
		t.Errorf("the first message: %.100q, %v", text, err)
	}
	first.Close()
	second.Close()
	testwait.Until(t, "the charts to be fed no more", func() bool { return !s.runtime.running() }) // writes notice both disconnects within seconds
	third, _ := lookAt(t, server)
	defer third.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, third); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("after the end: %v", err)
	}
	if s.runtime.running() {
		t.Error("charts are fed after the end")
	}
}

// running reports whether the source of the charts runs.
func (c *runtimeCharts) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server != nil
}

// lookAt connects like a browser.
func lookAt(t *testing.T, server *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "GET "+runtimePath+"ws HTTP/1.1\r\nHost: "+server.Listener.Addr().String()+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", res, err)
	}
	return conn, r
}
