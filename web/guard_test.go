package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/testwait"
)

// TestGuard expects the same decision for every method and path.
func TestGuard(t *testing.T) {
	o := testOptions()
	o.Hosts = []string{"Tare.example.com", "ports.example.com:8443"}
	o.Routes = []Route{NewRoute(access.For(access.Operator), "/api/v1/route/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, 200, "changed") })).Fallback()}
	h := New(o).http.Handler
	for _, c := range []struct {
		name, host string
		header     []string
		served     bool
	}{
		{"curl by address", "127.0.0.1:8316", nil, true},
		{"curl by IPv6 address", "[::1]:8316", nil, true},
		{"an address of the network", "192.0.2.7:8316", nil, true},
		{"localhost", "LOCALHOST.:8316", nil, true},
		{"no Host header, as in HTTP/1.0", "", nil, true},
		{"an allowed name", "tare.EXAMPLE.com:443", nil, true},
		{"a rebinding name", "rebound.example:8316", nil, false},
		{"a rebinding name of the same origin", "rebound.example:8316", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://rebound.example:8316"}, false},
		{"a name that only ends in an allowed one", "eviltare.example.com", nil, false},
		{"a name below an allowed one", "evil.tare.example.com", nil, false},
		{"a name below localhost", "localhost.rebound.example:8316", nil, false},
		{"an address as a name", "127.0.0.1.rebound.example:8316", nil, false},
		{"a short address", "127.1:8316", nil, false},
		{"a user before the name", "127.0.0.1@rebound.example", nil, false},
		{"the page itself", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:8316"}, true},
		{"typed by the user", "localhost:8316", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, true},
		{"another site", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, false},
		{"another port of the machine", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:3000"}, false},
		{"another origin, old browser", "127.0.0.1:8316", []string{"Origin", "https://elsewhere.example"}, false},
		{"no origin", "127.0.0.1:8316", []string{"Origin", "null"}, false},
		{"a frame of another site", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"a proxy that keeps the origin", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://tare.example.com"}, true},
		{"another port of an allowed name", "127.0.0.1:8316", []string{"Origin", "https://tare.example.com:3000"}, false},
		{"an allowed name with a port", "ports.example.com:8443", nil, true},
		{"a proxy on a port", "127.0.0.1:8316", []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://ports.example.com:8443"}, true},
		{"the proxy's host without its port", "127.0.0.1:8316", []string{"Origin", "https://ports.example.com"}, false},
	} {
		for _, at := range []string{
			"GET /", "HEAD /", "GET /metrics", "GET /-/healthy", "GET /-/ready", "GET /assets/app.js", "GET /api/v1/live", "GET /debug/querylog",
			"GET /debug/pprof/cmdline", "POST /debug/pprof/symbol", "POST /api/v1/route/hold", "GET /api/v1/route/", "OPTIONS /nothing", "GET /nothing",
		} {
			method, path, _ := strings.Cut(at, " ")
			r := httptest.NewRequest(method, path, nil)
			r.Host = c.host
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Add(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if served := w.Code != http.StatusForbidden; served != c.served {
				t.Errorf("%s: %s: %d %s", c.name, at, w.Code, w.Body)
			}
			if !c.served && strings.Contains(w.Body.String(), "record") {
				t.Errorf("%s: %s shows the query log", c.name, at)
			}
		}
	}
}

// TestGuardLinks allows links from other sites, and no other requests.
func TestGuardLinks(t *testing.T) {
	h := New(testOptions()).http.Handler
	for method, want := range map[string]int{"GET": 200, "POST": 403} {
		r := httptest.NewRequest(method, "/", nil)
		r.Host = "127.0.0.1:8316"
		for k, v := range map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s of a link: %d, want %d", method, w.Code, want)
		}
	}
}

// TestRebindingClient connects like a browser under DNS rebinding: to the loopback address, with the name of
// another site, for a stream and for a connection to be hijacked.
func TestRebindingClient(t *testing.T) {
	o := testOptions()
	o.QueryLog = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a secret record\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, "the server stops", served); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		host, more string
		code       int
	}{
		{"rebound.example", "", 403},
		{"rebound.example", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", 403},
		{"127.0.0.1", "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://rebound.example\r\n", 403},
		{"127.0.0.1", "", 200},
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(testwait.Limit))
		_, _ = io.WriteString(conn, "GET /debug/querylog HTTP/1.1\r\nHost: "+c.host+"\r\n"+c.more+"\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: read the response: %v", c.host, err)
		}
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%s: read the first line: %v", c.host, err)
		}
		if res.StatusCode != c.code || strings.Contains(line, "secret") != (c.code == 200) {
			t.Errorf("%s %s: %d %q, want %d", c.host, c.more, res.StatusCode, line, c.code)
		}
		_ = conn.Close()
	}
}
