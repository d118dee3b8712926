package httpclient

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestHostileServer sends requests with credentials to servers that respond with more than was asked for, or with other
// addresses: each is an error of few bytes that took little memory, and no other server gets a request.
func TestHostileServer(t *testing.T) {
	const limit, memory = 1 << 16, 32 << 20
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server gets %s with %q", r.URL, r.Header)
	}))
	defer other.Close()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	redirect := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/x", code) }
	}
	endless := func(start, part string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			repeated := bytes.Repeat([]byte(part), 1000)
			for _, err = io.WriteString(c, start); err == nil; {
				_, err = c.Write(repeated)
			}
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"moved":               redirect(http.StatusMovedPermanently),
		"found":               redirect(http.StatusFound),
		"temporary redirect":  redirect(http.StatusTemporaryRedirect),
		"permanent redirect":  redirect(http.StatusPermanentRedirect),
		"endless body":        endless("HTTP/1.1 200 OK\r\n\r\n", "{}"),
		"endless chunks":      endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
		"endless refusal":     endless("HTTP/1.1 403 Forbidden\r\n\r\n", "no "),
		"endless headers":     endless("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 100)+"\r\n"),
		"endless header":      endless("HTTP/1.1 200 OK\r\nX: ", "x"),
		"endless early hints": endless("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
		"a compressed bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"a long error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error": "`+strings.Repeat("x", limit-100)+`"}`)
		},
		"hidden characters": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error": "\u001b]52;c;eA==\u0007\u202e\u2028\n"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(handler)
			defer s.Close()
			c, err := New(Options{URL: s.URL, User: "app", Password: "hunter2"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			text, err := c.Do(t.Context(), http.MethodPost, "/x", []byte("{}"), limit)
			runtime.ReadMemStats(&after)
			if err == nil || len(err.Error()) > 2*maxReason || strings.ContainsAny(err.Error(), "\x1b\a\n\u202e\u2028") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > memory {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}

// TestHostileSilence checks that a server that closes each connection is asked a few times, not for ever.
func TestHostileSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan int, 1)
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				accepted <- n
				return
			}
			if err == nil {
				_ = c.Close()
			}
		}
	}()
	c, err := New(Options{URL: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(t.Context(), http.MethodPost, "/x", nil, 100); err == nil {
		t.Error("no error")
	}
	_ = l.Close()
	if n := testwait.Receive(t, "the listener to end", accepted); n > 3 {
		t.Errorf("%d connections", n)
	}
}
