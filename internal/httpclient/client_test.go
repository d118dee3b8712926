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

// TestNotHTTP sends requests to the port of a MySQL server, over http:// and https://.
func TestNotHTTP(t *testing.T) {
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
			_, _ = conn.Write([]byte("J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00")) // a greeting
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	for _, address := range []string{l.Addr().String(), "http://" + l.Addr().String(), "https://" + l.Addr().String()} {
		c, err := New(Options{URL: address})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Do(t.Context(), http.MethodGet, "/api/v1/live", nil, 1<<20)
		if e, ok := errors.AsType[*NotHTTPError](err); !ok || e.Host != l.Addr().String() {
			t.Errorf("%s: %v, want that it does not respond in HTTP", address, err)
		}
	}
}
