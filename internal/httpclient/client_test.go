package httpclient

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLimit checks that a response of the limit is returned whole, and that a longer one is an error, not
// truncated.
func TestLimit(t *testing.T) {
	const body = `{"a": 12345}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if text, err := c.Do(t.Context(), http.MethodGet, "/x", nil, int64(len(body))); err != nil || string(text) != body {
		t.Errorf("at the limit: %q, %v", text, err)
	}
	if text, err := c.Do(t.Context(), http.MethodGet, "/x", nil, int64(len(body))-1); err == nil || !strings.Contains(err.Error(), "more than 11 bytes") {
		t.Errorf("beyond the limit: %q, %v", text, err)
	}
}

// TestNotHTTP sends requests to the ports of a MySQL and of a gRPC server, which may send their first bytes in pieces,
// over http:// and https://; and to a server of HTTP and one that closes connections, whose errors are others.
func TestNotHTTP(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string // what the server sends
		plain  bool     // the error of http:// is a NotHTTPError
		secure bool     // that of https:// is
	}{
		{"MySQL", []string{"J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00"}, true, true},
		{"MySQL in pieces", []string{"J", "\x00\x00", "\x00\n8.0.36\x00"}, true, true},
		{"gRPC", []string{"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"}, true, true},
		{"a text that starts like HTTP", []string{"HT", "P\r\n"}, true, true},
		{"a TLS alert", []string{"\x15\x03\x01\x00\x02\x02\x28"}, true, false},
		{"an invalid status", []string{"HTTP", "/1.1 x\r\n\r\n"}, false, false},
		{"nothing", nil, false, false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				for _, piece := range c.pieces {
					_, _ = io.WriteString(conn, piece)
				}
				if len(c.pieces) > 0 {
					_, _ = io.Copy(io.Discard, conn)
				}
				_ = conn.Close()
			}
		}()
		for address, want := range map[string]bool{l.Addr().String(): c.plain, "http://" + l.Addr().String(): c.plain, "https://" + l.Addr().String(): c.secure} {
			client, err := New(Options{URL: address})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Do(t.Context(), http.MethodGet, "/api/v1/live", nil, 1<<20)
			if e, ok := errors.AsType[*NotHTTPError](err); err == nil || ok != want || ok && e.Host != l.Addr().String() {
				t.Errorf("%s at %s: %v, want that it does not respond in HTTP: %t", c.name, address, err, want)
			}
		}
	}
}

// TestStartsHTTP has each number of first bytes.
func TestStartsHTTP(t *testing.T) {
	for _, c := range []struct {
		first         string
		plain, secure bool
	}{
		{"H", true, true},
		{"HTTP/", true, true},
		{"HTTP ", false, false},
		{"h", false, false},
		{"\x16", false, true},
		{"\x16\x03\x03\x00\x7a", false, true},
		{"\x15\x03", false, true},
		{"\x16\x02", false, false},
		{"\x17\x03", false, false},
	} {
		for encrypted, want := range map[bool]bool{false: c.plain, true: c.secure} {
			if got := startsHTTP([]byte(c.first), encrypted); got != want {
				t.Errorf("%q, encrypted %t: %t, want %t", c.first, encrypted, got, want)
			}
		}
	}
}

// TestProxy reads what a SOCKS proxy sends before the server: it is no response of the server.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "\x05\x00")
			conn.Close()
		}
	}()
	c, err := New(Options{URL: "https://db1.example"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "\x05\x00" || c.foreign.Load() {
		t.Errorf("read %q from a proxy, error %v, foreign %t", got, err, c.foreign.Load())
	}
}
