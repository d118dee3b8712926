package httpserver

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/panics/report"
)

// A deadlines is a response of a connection: it records the deadlines of reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

// TestBodyDeadlines has the deadlines of reading of requests with and without a body: 30 s for the body, none after its end, 1 s
// for the rest that is not read.
func TestBodyDeadlines(t *testing.T) {
	const body, rest, none = 30 * time.Second, time.Second, -1
	for _, c := range []struct {
		name string
		body io.Reader
		read int // bytes
		want []time.Duration
	}{
		{"no body", nil, 0, nil},
		{"not read", strings.NewReader("body"), 0, []time.Duration{body, rest}},
		{"read in part", strings.NewReader("body"), 3, []time.Duration{body, rest}},
		{"read", strings.NewReader("body"), 5, []time.Duration{body, none}},
	} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		(&bodies{most: BodyBytes}).wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if (r.Body == http.NoBody) != (c.body == nil) {
				t.Errorf("%s: the body is %T", c.name, r.Body)
			}
			_, _ = io.ReadAtLeast(r.Body, make([]byte, c.read), c.read)
		})).ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/", c.body))
		if len(d.set) != len(c.want) {
			t.Errorf("%s: %d deadlines, want %d", c.name, len(d.set), len(c.want))
			continue
		}
		for i, want := range c.want {
			if got := d.set[i]; got.IsZero() != (want == none) || want != none && (got.Before(began.Add(want)) || got.After(time.Now().Add(want))) {
				t.Errorf("%s: deadline %d is %v after the start, want %v", c.name, i, got.Sub(began), want)
			}
		}
	}
}

// TestNilBody serves a request without a body, as handlers get from tests.
func TestNilBody(t *testing.T) {
	served := false
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Body = nil
	(&bodies{most: 1}).wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served = r.Body == nil })).ServeHTTP(httptest.NewRecorder(), r)
	if !served {
		t.Error("it was not served as it is")
	}
}

// TestServer has the bounds of a server, and the handlers around that of a request.
func TestServer(t *testing.T) {
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, nil))
	limit := connlimit.New(1)
	panicked := report.New(slog.New(slog.DiscardHandler))
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			panic("on purpose")
		}
	})
	s := New(handler, Options{Hosts: []string{"db-1"}, InFlight: limit, Log: l, Panics: panicked})
	if s.ReadHeaderTimeout != 10*time.Second || s.IdleTimeout != 2*time.Minute || s.MaxHeaderBytes != 64<<10 || s.HTTP2.MaxConcurrentStreams != 64 || s.HTTP2.WriteByteTimeout != time.Minute {
		t.Errorf("bounds: %+v, %+v", s, s.HTTP2)
	}
	s.ErrorLog.Print("handshake")
	if log.Len() > 0 {
		t.Errorf("the server's errors are not only for debugging: %s", log.String())
	}
	call := func(s *http.Server, host, path string, want int) {
		t.Helper()
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		if s.Handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s%s: %d, want %d", host, path, w.Code, want)
		}
	}
	call(s, "db-1", "/", 200)
	call(s, "db-2", "/", 403)
	call(s, "db-1", "/panics", 500)
	if err := testutil.CollectAndCompare(panicked, strings.NewReader(`
# HELP tare_panics_total Requests that failed because of a panic.
# TYPE tare_panics_total counter
tare_panics_total{server="grpc"} 0
tare_panics_total{server="http"} 1
`)); err != nil || log.Len() > 0 {
		t.Errorf("%v; log: %s", err, log.String())
	}
	for i := range 3 {
		call(New(handler, Options{Log: l}), "localhost", "/panics", 500)
		if n := strings.Count(log.String(), "on purpose"); n == 0 {
			t.Errorf("panic %d was not logged: %s", i, log.String())
		}
		log.Reset()
	}
	client := connlimit.AddressOf("192.0.2.1:1234")
	if !limit.Acquire(client) {
		t.Fatal("requests are left in flight")
	}
	call(s, "db-1", "/", 503)
	limit.Release(client)
	call(s, "db-1", "/", 200)
	call(New(handler, Options{Log: l}), "localhost", "/", 200)
}
