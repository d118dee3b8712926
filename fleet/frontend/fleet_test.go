package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testactive"
)

// A fleet is a frontend over HTTP in front of scripted downstreams.
type fleet struct {
	t        *testing.T
	frontend *Frontend
	url      string

	mu    sync.Mutex
	asked []string // requests received by downstreams; the reader sorts them
}

// A shardAnswer responds to the request for one shard: "3_of_16", or "" for all.
type shardResponse func(w http.ResponseWriter, r *http.Request, shard string)

// newFleet starts a frontend with one downstream, or member, per function.
func newFleet(t *testing.T, members bool, change func(*Options), replies ...shardResponse) *fleet {
	t.Helper()
	l := &fleet{t: t}
	o := testOptions()
	o.Downstreams, o.Shards = nil, 4
	o.Diag = slog.New(slog.DiscardHandler)
	for i, answer := range replies {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil {
				t.Errorf("downstream: %v", err)
			}
			selector := r.Form.Get("selector")
			l.note("%d %s %s %s", i, r.Method, r.URL.Path, selector)
			shard := ""
			if _, rest, ok := strings.Cut(selector, shardLabel+`="`); ok {
				shard, _, _ = strings.Cut(rest, `"`)
			}
			answer(w, r, shard)
		}))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.Start()
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL + "/prometheus")
		if err != nil {
			t.Fatal(err)
		}
		if members {
			o.Members = append(o.Members, u)
		} else {
			o.Downstreams = append(o.Downstreams, u)
		}
	}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l.frontend = f
	mux := http.NewServeMux()
	for _, p := range Patterns() {
		mux.Handle(p, f)
	}
	front := httptest.NewUnstartedServer(mux)
	front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front.Start()
	l.url = front.URL
	t.Cleanup(func() {
		front.Close()
		f.Close()
		if n := f.Wait(context.Background()); n != 0 {
			t.Errorf("%d requests still run", n)
		}
	})
	return l
}

func (l *fleet) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, fmt.Sprintf(format, args...))
}

// takeAsked returns the requests that downstreams have received since the last call.
func (l *fleet) takeAsked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	slices.Sort(asked)
	return asked
}

// A reply is the response that a client received.
type reply struct {
	code    int
	header  http.Header
	trailer http.Header
	body    string
	err     error // of reading the body
}

// get requests the series of up, with further parameters, and headers in pairs.
func (l *fleet) get(parameters string, headers ...string) reply {
	l.t.Helper()
	return l.ask(http.MethodGet, "/api/v1/cardinality/active_series?selector=up"+parameters, nil, headers...)
}

func (l *fleet) ask(method, path string, body io.Reader, headers ...string) reply {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, body)
	if err != nil {
		l.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	c := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(text), err}
}

// errorText returns the error of a reply in the format of Prometheus' API.
func (r reply) errorText(t *testing.T) string {
	t.Helper()
	var e struct{ Status, ErrorType, Error string }
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Status != "error" || e.ErrorType == "" {
		t.Errorf("status %d with %q: want an error of Prometheus' API (%v)", r.code, r.body, err)
	}
	return e.Error
}

// series returns the items of a valid reply, sorted.
func (r reply) series(t *testing.T) []string {
	t.Helper()
	if r.code != http.StatusOK || r.err != nil {
		t.Fatalf("status %d, error %v: %s", r.code, r.err, r.body)
	}
	return seriesOf(t, []byte(r.body))
}

func seriesOf(t *testing.T, body []byte) []string {
	t.Helper()
	var a struct{ Data []json.RawMessage }
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%v: %.200s", err, body)
	}
	items := make([]string, len(a.Data))
	for i, item := range a.Data {
		items[i] = string(item)
	}
	slices.Sort(items)
	return items
}

// hasSeries responds to each shard with n distinct series.
func hasSeries(n int) shardResponse {
	return func(w http.ResponseWriter, _ *http.Request, shard string) {
		i := 0
		_, _ = fmt.Sscanf(shard, "%d_of_", &i)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(testactive.Body(i, n))
	}
}

// wantSeries returns the series of shards 1 to shards of hasSeries(n).
func wantSeries(t *testing.T, shards, n int) []string {
	t.Helper()
	var all []string
	for i := range shards {
		all = append(all, seriesOf(t, testactive.Body(i+1, n))...)
	}
	slices.Sort(all)
	return all
}

// says responds to each shard with the same body.
func says(body string) shardResponse {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// fails responds with a status and a text.
func fails(code int, contentType, text string, headers ...string) shardResponse {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// onlyShard responds to one shard with its, and to the others with others.
func onlyShard(shard string, its, others shardResponse) shardResponse {
	return func(w http.ResponseWriter, r *http.Request, s string) {
		if s == shard {
			its(w, r, s)
			return
		}
		others(w, r, s)
	}
}
