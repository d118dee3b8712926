package gatewayclient

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
)

// down is an address without a listener; another process could take one that was listened on.
const down = "127.0.0.1:1"

// TestGatewayRoute calls gateways with various responses: errors advise what to do and contain no password.
func TestGatewayRoute(t *testing.T) {
	status, body := http.StatusOK, ""
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = r.Method + " " + r.URL.Path + " " + user + ":" + password + " " + r.Header.Get("Content-Type")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	g := New(&Gateway{URL: strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/"})
	defer g.Close()
	body = `{"held": true, "token": "abc"}`
	if token, err := g.Pause(t.Context(), time.Second); err != nil || token != "abc" || got != "POST /api/v1/route/hold me:hunter2 application/json" {
		t.Errorf("hold: %q, %v; it was asked %s", token, err, got)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{http.StatusConflict, `{"error": "sessions are pinned", "pinned": []}`, "the gateway refuses: sessions are pinned"},
		{http.StatusUnauthorized, "no", "use option gateway-token-file, or option gateway as https://user:password@host:port"},
		{http.StatusNotFound, "404 page not found", "start tare serve with option standby"},
		{http.StatusBadGateway, "<html>", "502 Bad Gateway"},
		{http.StatusOK, "<html>", "is it a tare serve?"},
	} {
		status, body = c.status, c.body
		if _, err := g.Switch(t.Context(), "abc", "standby", true); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%d %s: %v, want %q", c.status, c.body, err, c.want)
		}
	}
	gone := New(&Gateway{URL: "http://me:hunter2@" + down})
	defer gone.Close()
	if _, err := gone.Route(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a gateway that is gone: %v", err)
	}
}

// TestGatewayAccount sends a token over TLS, and reports a missing role before a switch.
func TestGatewayAccount(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") == "Bearer operator" && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error": "no hold has this token"}`))
		case r.Header.Get("Authorization") == "Bearer viewer":
			http.Error(w, r.URL.Path+" requires the role operator; the account \"ci\" has the role viewer.\nTry: another", http.StatusForbidden)
		default:
			http.Error(w, "no", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	for token, want := range map[string]string{
		"operator": "",
		"viewer":   `refused the request (403): /api/v1/route/release requires the role operator; the account "ci" has the role viewer.`,
		"unknown":  "requires an account (401): use option gateway-token-file",
	} {
		g := New(&Gateway{URL: server.URL, Token: token, RootCAs: authorities})
		err := g.MaySwitch(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", token, err, want)
		}
		g.Close()
	}
	for _, c := range []struct {
		g    Gateway
		want string
	}{
		{Gateway{}, ""},
		{Gateway{URL: "ftp://gw"}, "want host:port, http://host:port"},
		{Gateway{URL: "http://me:hunter2@127.0.0.1:1", Token: "x"}, "a token and a user exclude each other"},
		{Gateway{URL: "http://me@127.0.0.1:1"}, "an account has a name and a password"},
		{Gateway{URL: "http://gw.example:8316", Token: "hunter2"}, "the password or token would go to gw.example:8316 in clear: want https://"},
		{Gateway{URL: "http://gw.example:8316"}, ""},
		{Gateway{URL: "https://me:hunter2@gw.example:8316"}, ""},
	} {
		err := c.g.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", c.g.URL, err, c.want)
		}
	}
}

// TestP99 reads the p99 of gateways, and of servers that are not gateways.
func TestP99(t *testing.T) {
	resp := `{"seconds": 10, "statements": 5, "p99_us": 12500}`
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/api/v1/live" || user != "me" || password != "hunter2" {
			t.Errorf("%s as %s:%s", r.URL, user, password)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, resp)
	}))
	defer s.Close()
	g := New(&Gateway{URL: strings.Replace(s.URL, "http://", "http://me:hunter2@", 1) + "/"})
	defer g.Close()
	if v, err := g.P99(t.Context()); err != nil || v != 12500*time.Microsecond {
		t.Errorf("got %v, %v", v, err)
	}
	resp = `{"seconds": 10, "statements": 5, "p99_us": 12500, "p99_recent_us": 800}`
	if v, err := g.P99(t.Context()); err != nil || v != 800*time.Microsecond {
		t.Errorf("of the last second: %v, %v", v, err)
	}
	fails := func(want string) {
		t.Helper()
		if v, err := g.P99(t.Context()); v != 0 || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, %v, want %s", v, err, want)
		}
	}
	for _, resp = range []string{"", "{}", "[1]", `{"p99_us": "fast"}`} {
		fails("reports no p99: is it a tare serve?")
	}
	resp = `{"p99_us": -1}`
	fails("which is no latency")
	code = http.StatusUnauthorized
	fails("requires an account (401): use option gateway-token-file, or")
	gone := New(&Gateway{URL: "http://me:hunter2@" + down})
	defer gone.Close()
	g = gone
	fails("connection refused")
}

// FuzzResponses returns arbitrary responses to each request: an error, or values within their bounds.
func FuzzResponses(f *testing.F) {
	var code int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	f.Cleanup(server.Close)
	g := New(&Gateway{URL: server.URL})
	f.Cleanup(g.Close)
	for _, text := range []string{`{"p99_us": 12.5}`, `{"p99_us": -1}`, `{"p99_us": 1e300}`, `{"token": "a", "moved": -1, "pinned": [null]}`, "<html>", "", `{"error": "\u001b[2J"}`} {
		f.Add(uint16(200), text)
		f.Add(uint16(409), text)
	}
	f.Fuzz(func(t *testing.T, status uint16, text string) {
		defer alloctest.Bounded(t, 16<<20)()
		code, body = 200+int(status)%400, text
		if p99, err := g.P99(t.Context()); err == nil && (p99 < 0 || p99 > 24*time.Hour) {
			t.Errorf("%q is a p99 of %v", text, p99)
		}
		for name, call := range map[string]func() error{
			"route":   func() error { _, err := g.Route(t.Context()); return err },
			"hold":    func() error { _, err := g.Pause(t.Context(), time.Second); return err },
			"switch":  func() error { _, err := g.Switch(t.Context(), "a", "standby", false); return err },
			"release": func() error { return g.Release(t.Context(), "a") },
		} {
			if err := call(); err != nil && len(err.Error()) > 4096 {
				t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
			}
		}
	})
}
