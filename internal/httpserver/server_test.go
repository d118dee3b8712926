package httpserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// serve serves a handler as all subcommands do, and returns the server's address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(h, Options{Log: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// TestUnreadBody checks that a response does not wait for a body that the handler does not read, and that the
// connection ends although the client never sends it.
func TestUnreadBody(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", addr)
	if err := c.SetReadDeadline(time.Now().Add(testwait.Limit)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 401 ") {
		t.Errorf("%q, %v: want the response and the end of the connection", text, err)
	}
}

// TestBodiesAreBudgeted checks that bodies reserve memory before they are read, are refused above the budget, and
// return what they reserved.
func TestBodiesAreBudgeted(t *testing.T) {
	b := &bodies{most: 4 * bodyFactor * bodyStep}
	var got error
	h := b.wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n int64
		n, got = io.Copy(io.Discard, r.Body)
		if held := b.held.Load(); held < n*bodyFactor || held > b.most {
			t.Errorf("%d bytes reserved for %d of a body", held, n)
		}
	}))
	for size, want := range map[int]string{0: "", 1: "", 3 * bodyStep: "", 5 * bodyStep: "all of the"} {
		r := httptest.NewRequest(http.MethodPost, "/", bufio.NewReader(bytes.NewReader(make([]byte, size))))
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got == nil != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("body of %d bytes: %v, want %q", size, got, want)
		}
		if held := b.held.Load(); held != 0 {
			t.Errorf("body of %d bytes: %d are reserved after the response", size, held)
		}
	}
}

// TestKeepAlive checks that a connection serves further requests after one with a body.
func TestKeepAlive(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for range 3 {
		resp, err := client.Post("http://"+addr, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(text) != "body" {
			t.Errorf("%q, %v", text, err)
		}
	}
}
