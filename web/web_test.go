package web

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

func testOptions() Options {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "tare_test_total", Help: "A counter."})
	c.Add(42)
	r.MustRegister(c)
	return Options{
		Title:    "tare <test>",
		Gatherer: r,
		Live:     func() any { return map[string]int{"statements": 7} },
		QueryLog: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a record\n") }),
		Log:      slog.New(slog.DiscardHandler),
	}
}

func request(t *testing.T, h http.Handler, method, path string) (code int, body string, header http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String(), w.Header()
}

// requestAs sends a request as an account that has been authenticated.
func requestAs(t *testing.T, h http.Handler, user, path string) (code int, body string) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.SetBasicAuth(user, testPassword)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, timeTags.ReplaceAllString(w.Body.String(), "$1$2$3")
}

func TestPaths(t *testing.T) {
	h := New(testOptions()).Handler()
	for _, c := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/", 200, "tare &lt;test&gt;"},
		{"GET", "/metrics", 200, "tare_test_total 42"},
		{"GET", "/-/healthy", 200, "healthy"},
		{"GET", "/-/ready", 200, "ready"},
		{"GET", "/api/v1/live", 200, `{"statements":7}`},
		{"GET", "/debug/querylog", 200, "a record"},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/symbol", 200, "num_symbols"},
		{"POST", "/debug/pprof/symbol", 200, "num_symbols"},
		{"GET", "/nothing", 404, "There is no page /nothing."},
		{"POST", "/nothing", 404, "not found"},
		{"GET", "/debug/pprof/symbol/none", 404, ""},
		{"POST", "/api/v1/live", 405, "Method Not Allowed"},
	} {
		code, body, header := request(t, h, c.method, c.path)
		if code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %d %q, want %d with %q", c.method, c.path, code, body, c.code, c.body)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: headers %v", c.method, c.path, header)
		}
	}
}

// TestFrontPageNamesWhatThereIs follows every link of the front page.
func TestFrontPageNamesWhatThereIs(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"all":     func(*Options) {},
		"minimal": func(o *Options) { o.Live, o.QueryLog = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			change(&o)
			h := New(o).Handler()
			_, page, _ := request(t, h, "GET", "/")
			links := 0
			for _, part := range strings.Split(page, `href="`)[1:] {
				path, _, _ := strings.Cut(part, `"`)
				if strings.HasPrefix(path, "#") {
					continue
				}
				path = html.UnescapeString(path)
				if code, _, _ := request(t, h, "GET", path); code != 200 {
					t.Errorf("the front page links to %s, which answers %d", path, code)
				}
				links++
			}
			if links < 4 {
				t.Errorf("%d links on the front page", links)
			}
		})
	}
}

func TestNotReady(t *testing.T) {
	o := testOptions()
	o.Ready = func(context.Context) error { return errors.New("backend 127.0.0.1:1: connection refused") }
	code, body, _ := request(t, New(o).Handler(), "GET", "/-/ready")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "connection refused") {
		t.Errorf("/-/ready: %d %q, want 503 and the reason", code, body)
	}
}

// TestAccounts serves with a web configuration that has an account.
func TestAccounts(t *testing.T) {
	o := testOptions()
	o.ConfigFile = filepath.Join(t.TempDir(), "web.yaml")
	const hash = "$2a$04$16lHYMzi/d2j9l1X/WLEqOLUMQR6s/sAl3f5cLNE5i1pone5zcS0G" // of "weight"
	if err := os.WriteFile(o.ConfigFile, []byte("basic_auth_users:\n  dba: "+hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	get := func(password string) int {
		req, err := http.NewRequest("GET", "http://"+l.Addr().String()+"/api/v1/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			req.SetBasicAuth("dba", password)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == 200 && !json.Valid(readAll(t, res.Body)) {
			t.Error("the live figures are no JSON")
		}
		return res.StatusCode
	}
	if code := get(""); code != 401 {
		t.Errorf("without an account: %d, want 401", code)
	}
	if code := get("wrong"); code != 401 {
		t.Errorf("with a wrong password: %d, want 401", code)
	}
	if code := get("weight"); code != 200 {
		t.Errorf("with the right password: %d, want 200", code)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := testwait.Receive(t, "Serve to return", served); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMissingPage expects the navigation on the page for an unknown path, and no word about texts.
func TestMissingPage(t *testing.T) {
	code, body := browse(t, New(testOptions()).Handler(), "/nothing", "")
	if code != http.StatusNotFound || !strings.Contains(body, `<a href="/" data-key="o">Overview</a>`) || strings.Contains(body, "sees no statement texts") {
		t.Errorf("%d %s", code, body)
	}
}
