package httpserver

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestGuard serves requests of this server's own pages and of programs, and refuses those of other sites.
func TestGuard(t *testing.T) {
	h := newGuard([]string{"tare.example.com", "Proxy.example:8443", ""}).wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		name, method, host string
		header             http.Header
		ok                 bool
	}{
		{"no host", "GET", "", nil, true},
		{"localhost", "GET", "localhost:8316", nil, true},
		{"an address", "GET", "127.0.0.1:8316", nil, true},
		{"an IPv6 address", "GET", "[2001:db8::1]:8316", nil, true},
		{"an IPv6 address without a port", "GET", "[2001:db8::1]", nil, true},
		{"an IPv6 address without brackets", "GET", "::1", nil, true},
		{"an empty port", "GET", "localhost:", nil, true},
		{"a port that is no number", "GET", "localhost:evil.example", nil, false},
		{"a port that is too large", "GET", "127.0.0.1:65536", nil, false},
		{"a signed port", "GET", "tare.example.com:+80", nil, false},
		{"an IPv6 zone", "GET", "[fe80::1%evil.example]:8316", nil, false},
		{"a known name", "GET", "tare.example.com", nil, true},
		{"a known name with a port and a dot", "GET", "TARE.example.com.:80", nil, true},
		{"a known name of another port", "GET", "proxy.example", nil, true},
		{"an unknown name", "GET", "evil.example", nil, false},
		{"a name that ends as a known one", "GET", "x.tare.example.com", nil, false},
		{"an own page", "POST", "127.0.0.1:8316", header("Origin", "http://127.0.0.1:8316"), true},
		{"a page of another port", "POST", "127.0.0.1:8316", header("Origin", "http://127.0.0.1:80"), false},
		{"a page of another site", "POST", "127.0.0.1:8316", header("Origin", "http://evil.example"), false},
		{"a page of the proxy", "POST", "127.0.0.1:8316", header("Origin", "https://proxy.example:8443"), true},
		{"a page of another port of the proxy", "POST", "127.0.0.1:8316", header("Origin", "https://proxy.example"), false},
		{"an unknown page", "GET", "127.0.0.1:8316", header("Origin", "null"), false},
		{"an origin that is no URL", "GET", "127.0.0.1:8316", header("Origin", "http://%zz"), false},
		{"an empty origin", "GET", "", header("Origin", ""), false},
		{"an extension of a known name", "POST", "tare.example.com", header("Origin", "chrome-extension://tare.example.com"), false},
		{"an application of the same host", "POST", "localhost", header("Origin", "capacitor://localhost"), false},
		{"an origin with a user", "POST", "localhost", header("Origin", "http://x@localhost"), false},
		{"an origin with a path", "POST", "localhost", header("Origin", "http://localhost/"), false},
		{"two origins", "GET", "127.0.0.1:8316", header("Origin", "http://127.0.0.1:8316", "Origin", "http://127.0.0.1:8316"), false},
		{"the same origin", "POST", "127.0.0.1:8316", header("Sec-Fetch-Site", "same-origin"), true},
		{"typed by the user", "POST", "127.0.0.1:8316", header("Sec-Fetch-Site", "none"), true},
		{"a link of another site", "GET", "127.0.0.1:8316", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), true},
		{"a link's HEAD", "HEAD", "127.0.0.1:8316", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), true},
		{"a form of another site", "POST", "127.0.0.1:8316", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), false},
		{"a frame of another site", "GET", "127.0.0.1:8316", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), false},
		{"a fetch of another site", "GET", "127.0.0.1:8316", header("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "document"), false},
	} {
		for _, path := range []string{"/", "/api/v1/x"} {
			r := httptest.NewRequest(c.method, "http://x"+path, nil)
			r.Host = c.host
			maps.Copy(r.Header, c.header)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := http.StatusForbidden
			if c.ok {
				want = http.StatusNoContent
			}
			if w.Code != want {
				t.Errorf("%s: %d, want %d: %s", c.name, w.Code, want, w.Body)
			}
			if c.ok {
				continue
			}
			kind := w.Header().Get("Content-Type")
			var object struct{ Status, ErrorType, Error string }
			if path == "/" {
				object.Error = w.Body.String()
			} else if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil || object.Status != "error" || object.ErrorType != "forbidden" {
				t.Errorf("%s: %s (%v)", c.name, w.Body, err)
			}
			if (kind == "application/json") != (path != "/") || w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(object.Error, "refuse the request: it") || !strings.Contains(object.Error, "option http-allowed-hosts") {
				t.Errorf("%s: %s %s", c.name, kind, w.Body)
			}
		}
	}
	r := httptest.NewRequest("GET", "http://x/", nil)
	r.Host = strings.Repeat("x", 300)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); strings.Count(w.Body.String(), "xxxxx") != 51 || !strings.Contains(w.Body.String(), `"`+strings.Repeat("x", 255)+`"`) {
		t.Errorf("a host of 300 bytes: %s", w.Body)
	}
	for length, want := range map[int]int{maxPath: http.StatusNoContent, maxPath + 1: http.StatusRequestURITooLong} {
		r := httptest.NewRequest("GET", "/"+strings.Repeat("x", length-1), nil)
		r.Host = ""
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("a path of %d bytes: %d, want %d", length, w.Code, want)
		}
	}
}

// A partReader returns bytes and errors by a script.
type partReader struct {
	parts []int
	err   error
}

func (r *partReader) Read(p []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, r.err
	}
	n := min(r.parts[0], len(p))
	r.parts = r.parts[1:]
	return n, nil
}

func (*partReader) Close() error { return nil }

// TestBodyBudget reserves the bytes of bodies while they are read, up to the bound, and releases them with the request.
func TestBodyBudget(t *testing.T) {
	all := &bodies{most: 3 * bodyStep * bodyFactor}
	first := &body{ReadCloser: &partReader{[]int{bodyStep, 10, 10}, io.EOF}, all: all}
	read := func(b *body, n, want int, wantErr error) {
		t.Helper()
		got, err := b.Read(make([]byte, n))
		if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			t.Errorf("%d bytes, %v; want %d, %v", got, err, want, wantErr)
		}
	}
	held := func(want int64) {
		t.Helper()
		if got := all.held.Load(); got != want {
			t.Errorf("%d bytes are held, want %d", got, want)
		}
	}
	read(first, 2*bodyStep, bodyStep, nil)
	held(bodyStep * bodyFactor)
	read(first, bodyStep, 10, nil)
	held((bodyStep + 10) * bodyFactor)
	second := &body{ReadCloser: &partReader{[]int{bodyStep, 5}, os.ErrDeadlineExceeded}, all: all}
	read(second, bodyStep, bodyStep, nil)
	_, err := second.Read(make([]byte, bodyStep))
	if e, ok := errors.AsType[*BodyError](err); !ok || e.Bytes != all.most || e.StatusCode() != http.StatusServiceUnavailable {
		t.Errorf("beyond the bound: %v", err)
	}
	held((2*bodyStep + 10) * bodyFactor)
	read(second, bodyStep-10, 5, nil) // exactly the bound
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "did not send its body in time") {
		t.Errorf("a slow client: %v", err)
	}
	second.release()
	read(first, 10, 10, nil)
	read(first, 10, 0, io.EOF)
	if !first.complete || second.complete {
		t.Error("which body is complete is wrong")
	}
	first.release()
	held(0)
}
