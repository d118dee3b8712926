package top

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A gatewayStub responds like a tare serve, with one more call of a statement per request.
func gatewayStub(t *testing.T, questions *atomic.Int64) http.Handler {
	t.Helper()
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/live", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"seconds":10,"statements":10,"statements_per_second":1}`)
	})
	mux.HandleFunc("GET /api/v1/statements", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("source") != "counters" || q.Get("by") != "mean" || q.Get("limit") != "1000" || q.Get("filter") != "a b" {
			t.Errorf("asked %s", r.URL)
		}
		n := questions.Add(1)
		matching := 1
		if since := r.URL.Query().Get("called_since"); since != "" {
			matching = 2
			if want := began.Add(time.Duration(10*(n-1))*time.Second - calledSlack).Format(time.RFC3339); since != want {
				t.Errorf("asked for calls since %s, want %s", since, want)
			}
		}
		from := began.Format(time.RFC3339Nano)
		fmt.Fprintf(w, `{"from":%q,"to":%q,"source":%q,"matching":%d,"statements":[{"digest":"d","text":"SELECT 1","calls":%d,"seconds":%d,"first_seen":%q,"last_seen":%q}]}`,
			from, began.Add(time.Duration(10*n)*time.Second).Format(time.RFC3339Nano), counters, matching, 10*n, n, from, from)
	})
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("limit") != "1" || q.Get("from") == "" {
			t.Errorf("asked %s", r.URL)
		}
		fmt.Fprint(w, `{"events":[{"time":"2026-03-01T12:00:05Z","kind":"ddl","title":"Schema change","text":"ALTER TABLE t","text_cut":true,"user":"root"}]}`)
	})
	mux.HandleFunc("GET /elsewhere/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
	})
	mux.HandleFunc("GET /broken/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	mux.HandleFunc("GET /refused/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not \x1b[2J now "+strings.Repeat("x", 1000), http.StatusBadRequest)
	})
	return mux
}

// TestStreamTLS prints lines of JSON of a gateway behind TLS until it is stopped.
func TestStreamTLS(t *testing.T) {
	var questions atomic.Int64
	s := httptest.NewTLSServer(gatewayStub(t, &questions))
	defer s.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(s.Certificate())
	client, err := NewClient(ClientOptions{URL: s.URL + "/", User: "dba", Password: "weight", RootCAs: authorities})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(t.Context())
	out := &lines{stop: stop, after: 3}
	o := Options{Client: client, JSON: true, Limit: 5, Stdout: out, Model: ModelOptions{Host: client.Host(), Every: time.Millisecond, Window: time.Minute, By: ByMean, Filter: "a b"}}
	if err := Run(ctx, o); err != nil {
		t.Fatal(err)
	}
	var frames []frameJSON
	dec := json.NewDecoder(&out.text)
	for dec.More() {
		var f frameJSON
		if err := dec.Decode(&f); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	for i, f := range frames {
		if f.Matching != min(i+1, 2) {
			t.Errorf("frame %d is not of the calls since the one before", i)
		}
		if len(f.Rows) != 1 || f.Rows[0].Calls == nil || *f.Rows[0].Calls != 1 || *f.Rows[0].Load != 0.1 || *f.Rows[0].Mean != 100_000 || f.Seconds != []float64{10, 10, 20}[min(i, 2)] {
			t.Errorf("frame %d is %+v with %+v", i, f, f.Rows[0])
		}
	}
	if len(frames) != 3 {
		t.Errorf("%d frames, want 3", len(frames))
	}
	unknown, err := NewClient(ClientOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	if _, err := unknown.Read(t.Context(), Ask{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that nobody knows: %v", err)
	}
}

// lines stops a run after a number of lines.
type lines struct {
	text  bytes.Buffer
	stop  func()
	after int
}

func (l *lines) Write(p []byte) (int, error) {
	if l.after--; l.after == 0 {
		l.stop()
	}
	return l.text.Write(p)
}

// TestResponses checks that responses other than readings become descriptive errors.
func TestResponses(t *testing.T) {
	s := httptest.NewServer(gatewayStub(t, new(atomic.Int64)))
	defer s.Close()
	for path, want := range map[string]string{
		"/elsewhere": "returned 302 Found",
		"/broken":    "is it a tare serve?",
		"/refused":   "400 Bad Request: not ⟨U+001B⟩[2J now xxx",
		"/nothing":   "404",
	} {
		client, err := NewClient(ClientOptions{URL: s.URL + path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(t.Context(), Ask{}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		client.Close()
	}
}

// TestEvent reads the newest event of a gateway with it; one without events has statements all the same.
func TestEvent(t *testing.T) {
	all := gatewayStub(t, new(atomic.Int64))
	for _, c := range []struct {
		handler http.Handler
		want    string
	}{
		{all, "event 12:00:05  ALTER TABLE t … (cut)  by root"},
		{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/events") {
				http.Error(w, "forbidden", http.StatusForbidden)
				return
			}
			all.ServeHTTP(w, r)
		}), ""},
	} {
		s := httptest.NewServer(c.handler)
		client, err := NewClient(ClientOptions{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Read(t.Context(), Ask{By: ByMean, Filter: "a b", Limit: MaxRows})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Event.line()
		if r.Event != nil { // the line has the user's time
			got = strings.Replace(got, r.Event.Time.Local().Format("15:04:05"), "12:00:05", 1)
		}
		if got != c.want {
			t.Errorf("the event is %q, want %q", got, c.want)
		}
		m := NewModel(ModelOptions{Host: "h", Window: time.Minute, By: ByMean})
		var h History
		m.Show(h.Frame(r, time.Minute))
		if c.want != "" && !strings.Contains(m.View(), "ALTER TABLE t … (cut)  by root") {
			t.Errorf("the screen has no event:\n%s", m.View())
		}
		client.Close()
		s.Close()
	}
}
