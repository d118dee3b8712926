package remotewrite

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// TestRepeated has a request refused after attempts that the receiver may have taken, and after others.
func TestRepeated(t *testing.T) {
	abort := 0
	for _, c := range []struct {
		statuses           []int
		repeated, rejected uint64
		requests           int
	}{
		{[]int{500, 409}, 2, 0, 2},
		{[]int{503, 429, 409}, 2, 0, 3},
		{[]int{abort, 409}, 2, 0, 2},
		{[]int{499, 409}, 0, 2, 2},
		{[]int{429, 400}, 0, 2, 2},
		{[]int{422}, 0, 2, 1},
	} {
		b := newBench(t, nil)
		b.sender.position.Accepted = true
		requests := 0
		b.respond = func(w http.ResponseWriter, r *http.Request, _ *writev2.Request) {
			if got, want := r.Header.Get("Retry-Attempt"), strings.Repeat(string(rune('0'+requests)), min(requests, 1)); got != want {
				t.Errorf("Retry-Attempt is %q, want %q", got, want)
			}
			status := c.statuses[min(requests, len(c.statuses)-1)]
			if requests++; status == abort {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
		}
		b.write()
		b.sender.CatchUp(t.Context())
		n := &b.sender.counts
		if n.repeated.Load() != c.repeated || n.rejected.Load() != c.rejected || requests != c.requests || len(b.sender.Lost()) > 0 != (c.rejected > 0) {
			t.Errorf("%d: %d repeated, %d rejected after %d requests, lost: %v", c.statuses, n.repeated.Load(), n.rejected.Load(), requests, b.sender.Lost())
		}
	}
}

// TestMetrics has all metrics while a request fails, and after it.
func TestMetrics(t *testing.T) {
	b := newBench(t, nil)
	fail := true
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
		if fail {
			fail = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b.metrics(`
# HELP tare_history_remote_write_failures_total Requests that failed and were sent again.
# TYPE tare_history_remote_write_failures_total counter
tare_history_remote_write_failures_total 1
# HELP tare_history_remote_write_pending_samples Samples of the current window not taken yet.
# TYPE tare_history_remote_write_pending_samples gauge
tare_history_remote_write_pending_samples 2
# HELP tare_history_remote_write_requests_total Requests, repeated ones included.
# TYPE tare_history_remote_write_requests_total counter
tare_history_remote_write_requests_total 1
# HELP tare_history_remote_write_unsent_seconds Age of the oldest sample not taken yet; 0 if there is none.
# TYPE tare_history_remote_write_unsent_seconds gauge
tare_history_remote_write_unsent_seconds 15.001
`)
		take(w, m)
	}
	b.write()
	b.sender.CatchUp(t.Context())
	n := &b.sender.counts
	if n.pending.Load() != 0 || n.unsentSince.Load() != 0 || n.requests.Load() != 2 || n.bytes.Load() < 100 || n.floats.Load() != 1 || n.histograms.Load() != 1 {
		t.Errorf("afterwards: %d pending, %d requests of %d bytes", n.pending.Load(), n.requests.Load(), n.bytes.Load())
	}
	if text := b.log.String(); strings.Count(text, "remote write failed") != 1 || strings.Count(text, "remote write resumed") != 1 {
		t.Errorf("log:\n%s", text)
	}
}

// TestLongWindows has windows grow while they have few samples, and shrink to those that fit; each sample is sent once.
func TestLongWindows(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Bytes = 4000 })
	got := make(map[string]int)
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
		builder := labels.NewScratchBuilder(0)
		for _, s := range m.Timeseries {
			ls, err := s.ToLabels(&builder, m.Symbols)
			b.must(err)
			for _, v := range s.Samples {
				got[ls.String()+jsonText(v.Timestamp)]++
			}
		}
		take(w, m)
	}
	start := b.now.UnixMilli()
	write := func(at int64, series int) {
		app := b.db.Current().Appender(t.Context())
		for n := range series {
			for _, v := range []float64{0, 1} {
				_, err := app.Append(0, labels.FromStrings("__name__", "x", "n", jsonText(n)), at+int64(v), v)
				b.must(err)
			}
		}
		b.must(app.Commit())
		b.until = at + 1
		b.now = time.UnixMilli(at)
	}
	expect := func(when string, samples int, least, most time.Duration) {
		t.Helper()
		b.sender.CatchUp(t.Context())
		if len(got) != samples || b.sender.span < least || b.sender.span > most {
			t.Errorf("%s: %d samples, want %d; the next window has %v", when, len(got), samples, b.sender.span)
		}
		for s, n := range got {
			if n != 1 {
				t.Errorf("%s: %s was sent %d times", when, s, n)
			}
		}
		clear(got)
	}
	write(start, 1)
	expect("one sample", 2, 2*firstSpan, 2*firstSpan)
	write(start+20*3_600_000, 1)
	expect("twenty hours later", 2, mostSpan, mostSpan)
	app := b.db.Current().Appender(t.Context())
	for i := range 3600 {
		_, err := app.Append(0, labels.FromStrings("__name__", "y"), b.until+int64(i+1)*1000, 1)
		b.must(err)
	}
	b.must(app.Commit())
	b.until += 3600_000
	b.now = time.UnixMilli(b.until)
	expect("an hour of samples", 3600, leastSpan, time.Hour/4)
	write(b.until+1000, 1000)
	expect("a thousand series at a time", 2000, leastSpan/2, leastSpan)
}

// TestSaveFails has the position not written: samples are not sent, since they would be sent again.
func TestSaveFails(t *testing.T) {
	b := newBench(t, nil)
	b.respond = func(http.ResponseWriter, *http.Request, *writev2.Request) { t.Error("sent") }
	b.write()
	b.must(os.RemoveAll(filepath.Dir(b.options.File)))
	b.sender.CatchUp(t.Context())
	if n := b.sender.counts.failures.Load(); n != 1 || !strings.Contains(b.log.String(), "remote write stopped until the next interval") || !strings.Contains(b.log.String(), "write the remote write position") {
		t.Errorf("%d failures, log:\n%s", n, b.log.String())
	}
	if _, err := New(b.options); err == nil || !strings.Contains(err.Error(), "write the remote write position") {
		t.Errorf("a start: %v", err)
	}
}

// TestRun sends what is written until its context ends.
func TestRun(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Interval = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
		take(w, m)
		cancel()
	}
	b.write()
	b.sender.Run(ctx)
	if n := b.sender.counts.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestKnown persists how far the samples have come while the receiver fails.
func TestKnown(t *testing.T) {
	b := newBench(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	requests := 0
	b.write()
	first := b.until
	b.respond = func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		switch requests++; requests {
		case 1:
			b.write() // of the sender's goroutine: it waits for the response
			if b.now = b.sender.saved.Add(time.Minute - 1); strings.Contains(readFile(t, b.options.File), jsonText(b.until)) {
				t.Error("persisted at once")
			}
		case 2:
			if strings.Contains(readFile(t, b.options.File), jsonText(b.until)) {
				t.Error("persisted before a minute has passed")
			}
			b.now = b.sender.saved.Add(time.Minute)
		case 3:
			if text := readFile(t, b.options.File); !strings.Contains(text, `"known":`+jsonText(b.until)) || !strings.Contains(text, `"sending":`+jsonText(first)) {
				t.Errorf("not persisted after a minute: %s, want %d", text, b.until)
			}
			cancel()
		}
	}
	b.sender.CatchUp(ctx)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLose merges adjacent losses of one instance and cause, and bounds their number.
func TestLose(t *testing.T) {
	b := newBench(t, nil)
	a, other := Instance{Name: "a"}, Instance{Name: "other"}
	for _, c := range []struct {
		in       Instance
		from, to int64
		cause    string
		ranges   int
		samples  uint64 // of the last range
	}{
		{a, 0, 10, "x", 1, 1}, {a, 10, 20, "x", 1, 2}, {a, 15, 25, "x", 1, 3}, {a, 26, 30, "x", 2, 1}, {a, 30, 40, "y", 3, 1}, {other, 40, 50, "y", 4, 1},
	} {
		b.sender.lose(c.in, c.from, c.to, 1, c.cause, "")
		lost := b.sender.Lost()
		if last := lost[len(lost)-1]; len(lost) != c.ranges || last.Samples != c.samples || last.To.UnixMilli() != c.to || last.Instance != c.in.Name || last.Cause != c.cause {
			t.Errorf("%+v: %d ranges, the last is %+v", c, len(lost), last)
		}
	}
	if n := strings.Count(b.log.String(), "samples lost"); n != 1 {
		t.Errorf("%d lines in the log, want 1 a minute", n)
	}
	for _, c := range []struct {
		later time.Duration
		lines int
	}{{time.Minute - 1, 1}, {1, 2}, {-time.Hour, 3}} {
		b.now = b.now.Add(c.later)
		b.sender.lose(a, 0, 1, 1, "z", "")
		if n := strings.Count(b.log.String(), "samples lost"); n != c.lines {
			t.Errorf("%v later: %d lines in the log, want %d", c.later, n, c.lines)
		}
	}
	if !strings.Contains(b.log.String(), " samples=7 ") {
		t.Errorf("the second line has not the samples since the first one:\n%s", b.log.String())
	}
	for i := range int64(maxLost + 5) {
		b.sender.lose(a, 100*i, 100*i+1, 1, "w", "")
	}
	if lost := b.sender.Lost(); len(lost) != maxLost || lost[0].From.UnixMilli() != 500 || lost[maxLost-1].From.UnixMilli() != 100*(maxLost+4) {
		t.Errorf("%d ranges from %+v", len(lost), lost[0])
	}
}

// TestOddPositions opens files of the position with values that are missing.
func TestOddPositions(t *testing.T) {
	for text, aside := range map[string]bool{
		`{"version":1,"instances":{"a":null}}`: false,
		`{"version":1,"instances":{}}`:         false,
		`{"version":1}`:                        true,
		`{"version":0,"instances":{}}`:         true,
		`{"version":1,"instances":{}`:          true,
	} {
		b := newBench(t, nil)
		sent := 0
		b.respond = func(w http.ResponseWriter, _ *http.Request, m *writev2.Request) {
			sent += len(m.Timeseries)
			take(w, m)
		}
		b.write()
		b.must(os.WriteFile(b.options.File, []byte(text), 0o600))
		b.open()
		b.sender.CatchUp(t.Context())
		if got := len(b.options.State.Losses()) > 0; got != aside || (sent == 2) == aside {
			t.Errorf("%s: set aside: %t, %d series sent", text, got, sent)
		}
	}
}

// TestOptions sets defaults, and refuses options that are missing or negative.
func TestOptions(t *testing.T) {
	good := func() Options {
		return Options{
			Receiver: Receiver{URL: &url.URL{Scheme: "http", Host: "r"}}, Instances: func() []Instance { return nil },
			File: filepath.Join(t.TempDir(), "f"), State: localstate.Open(t.TempDir(), nil, slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler),
		}
	}
	o := good()
	if err := o.Validate(); err != nil || o.Receiver.Version != V2 || o.Receiver.Timeout != DefaultTimeout || o.Receiver.Backoff != DefaultBackoff ||
		o.Interval != DefaultInterval || o.Bytes != DefaultBytes || o.Now == nil {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	o = good()
	o.Receiver.Version, o.Receiver.Timeout, o.Receiver.Backoff, o.Interval, o.Bytes = V1, 1, 2, 3, 4
	if err := o.Validate(); err != nil || o.Receiver.Version != V1 || o.Receiver.Timeout != 1 || o.Receiver.Backoff != 2 || o.Interval != 3 || o.Bytes != 4 {
		t.Errorf("given: %+v, %v", o, err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no URL":             {func(o *Options) { o.Receiver.URL = nil }, "are required"},
		"no instances":       {func(o *Options) { o.Instances = nil }, "are required"},
		"no file":            {func(o *Options) { o.File = "" }, "are required"},
		"no state":           {func(o *Options) { o.State = nil }, "are required"},
		"no log":             {func(o *Options) { o.Log = nil }, "are required"},
		"another version":    {func(o *Options) { o.Receiver.Version = "3.0" }, "versions 2.0 and 1.0"},
		"a negative timeout": {func(o *Options) { o.Receiver.Timeout = -1 }, "is negative"},
		"a negative backoff": {func(o *Options) { o.Receiver.Backoff = -1 }, "is negative"},
		"a negative pause":   {func(o *Options) { o.Interval = -1 }, "is negative"},
		"negative bytes":     {func(o *Options) { o.Bytes = -1 }, "is negative"},
		"no authorities":     {func(o *Options) { o.Receiver.CAFile = "none" }, "read certificates of authorities"},
	} {
		o := good()
		c.change(&o)
		if s, err := New(o); s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestToken reads files that are, and are just not, tokens.
func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{
		" a\r\n": "Bearer a", "!~": "Bearer !~", "": "", "\n": "", "a b": "", "a\x7f": "", "a\tb": "", "é": "", "a\x1fb": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		c := &client{receiver: Receiver{URL: &url.URL{}, TokenFile: path}}
		if err := c.authorize(r); (err == nil) != (want != "") || r.Header.Get("Authorization") != want {
			t.Errorf("%q: %v, %v, want %q", text, err, r.Header, want)
		}
	}
	for _, name := range []string{"none", "."} {
		c := &client{receiver: Receiver{URL: &url.URL{}, TokenFile: filepath.Join(filepath.Dir(path), name)}}
		if err := c.authorize(httptest.NewRequest(http.MethodPost, "/", nil)); err == nil || !strings.Contains(err.Error(), "read token") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.post(t.Context(), nil, 0); err == nil {
			t.Errorf("%s: posted without a token", name)
		}
	}
}

// TestParseResponse has the headers of responses at their bounds.
func TestParseResponse(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		header      [2]string
		least, most time.Duration
	}{
		{[2]string{"Retry-After", ""}, 0, 0},
		{[2]string{"Retry-After", "0"}, 0, 0},
		{[2]string{"Retry-After", "-1"}, 0, 0},
		{[2]string{"Retry-After", "1"}, time.Second, time.Second},
		{[2]string{"Retry-After", "299"}, 299 * time.Second, 299 * time.Second},
		{[2]string{"Retry-After", "301"}, maxRetryAfter, maxRetryAfter},
		{[2]string{"Retry-After", "9223372036854775807"}, maxRetryAfter, maxRetryAfter},
		{[2]string{"Retry-After", in(-time.Hour)}, 0, 0},
		{[2]string{"Retry-After", in(time.Hour)}, maxRetryAfter, maxRetryAfter},
		{[2]string{"Retry-After", in(time.Minute)}, 30 * time.Second, time.Minute},
		{[2]string{"Retry-After", "soon"}, 0, 0},
	} {
		got := parseResponse(&http.Response{StatusCode: 503, Header: http.Header{c.header[0]: {c.header[1]}}}, []byte(" text\xff\n"))
		if got.retryAfter < c.least || got.retryAfter > c.most || got.status != 503 || got.confirmed || got.text != "text\uFFFD" {
			t.Errorf("%q: %+v", c.header, got)
		}
	}
	for _, c := range []struct {
		samples, histograms string
		want                response
	}{
		{"", "", response{}}, {"-1", "x", response{}}, {"0", "", response{confirmed: true}}, {"3", "-1", response{confirmed: true, samples: 3}}, {"", "4", response{confirmed: true, histograms: 4}},
	} {
		h := http.Header{}
		h.Set(headerSamples, c.samples)
		h.Set(headerHistograms, c.histograms)
		if got := parseResponse(&http.Response{Header: h}, nil); got != c.want {
			t.Errorf("%q, %q: %+v", c.samples, c.histograms, got)
		}
	}
}

// TestLongResponse reads 4 KiB of a response, and returns an error for one that breaks off.
func TestLongResponse(t *testing.T) {
	b := newBench(t, nil)
	b.respond = func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) {
		http.Error(w, strings.Repeat("x", 10_000), 500)
	}
	if got, err := b.sender.client.post(t.Context(), nil, 0); err != nil || len(got.text) != maxResponse {
		t.Errorf("%d bytes, %v", len(got.text), err)
	}
	b.respond = func(w http.ResponseWriter, _ *http.Request, _ *writev2.Request) {
		w.Header().Set("Content-Length", "100")
		_, err := w.Write([]byte("text"))
		b.must(errors.Join(err, http.NewResponseController(w).Flush()))
		panic(http.ErrAbortHandler)
	}
	if _, err := b.sender.client.post(t.Context(), nil, 0); err == nil || !strings.Contains(err.Error(), "read the response") {
		t.Errorf("a response that breaks off: %v", err)
	}
	if err := errors.New("other"); withoutURL(err) != err { //nolint:errorlint // the same one
		t.Error("another error is changed")
	}
}

// TestEmptyDatabase skips to the end of a database without samples, and loses nothing.
func TestEmptyDatabase(t *testing.T) {
	b := newBench(t, nil)
	b.respond = func(http.ResponseWriter, *http.Request, *writev2.Request) { t.Error("sent") }
	for _, c := range []struct{ until, sent, known, want, lost int64 }{
		{100, 0, 0, 100, 0}, {100, 50, 50, 100, 0}, {100, 50, 80, 100, 30}, {100, 200, 200, 200, 0}, {100, 50, 120, 100, 50},
	} {
		b.sender.counts.lostMillis.Store(0)
		p := &progress{Sent: c.sent, Known: c.known}
		b.sender.skipDeleted(Instance{Name: "a", Samples: b.db, Until: c.until}, p)
		if lost := b.sender.counts.lostMillis.Load(); p.Sent != c.want || lost != c.lost {
			t.Errorf("%+v: sent up to %d, lost %d", c, p.Sent, lost)
		}
	}
	b.write()
	start := localdb.Start(b.db.Current())
	for sent, want := range map[int64]int64{start - 2: start - 1, start - 1: start - 1, start: start, start + 5: start + 5} {
		p := &progress{Sent: sent, Known: sent}
		if b.sender.skipDeleted(Instance{Name: "a", Samples: b.db, Until: b.until}, p); p.Sent != want {
			t.Errorf("sent up to %d before the first sample: then %d, want %d", start-sent, start-p.Sent, start-want)
		}
	}
}
