package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/testactive"
	"github.com/taredb/tare/internal/testwait"
)

// hangs blocks until the frontend disconnects, without a response or after the start of a body.
func hangs(begin string) shardResponse {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		if begin != "" {
			_, _ = io.WriteString(w, begin)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// raw responds with bytes that no server would write.
func raw(response string) shardResponse {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = b.WriteString(response)
		_ = b.Flush()
	}
}

// large is a body larger than the frontend's hold-back buffer, without its end.
var large = strings.TrimSuffix(string(testactive.Body(9, 3*holdBytes/80)), "]}")

// TestEarlyFaults makes one shard of four fail before any byte of the response was sent: its error determines
// the status and the text of the response.
func TestEarlyFaults(t *testing.T) {
	timeout := func(o *Options) { o.Timeout = 50 * time.Millisecond }
	for name, c := range map[string]struct {
		its    shardResponse
		change func(*Options)
		code   int
		want   string // substring of the text
		retry  string // Retry-After
		asked  int    // requests; 0: 5, one of them a retry
	}{
		"500":                {its: fails(500, "text/plain", "boom"), code: 500, want: "shard 2_of_4: boom"},
		"JSON error":         {its: fails(422, "application/json", `{"status":"error","errorType":"execution","error":"too many series"}`), code: 422, want: "shard 2_of_4: too many series", asked: 4},
		"400":                {its: fails(400, "text/plain", "cardinality analysis is disabled"), code: 400, want: "cardinality analysis is disabled", asked: 4},
		"401":                {its: fails(401, "text/plain", "no org id"), code: 401, want: "no org id", asked: 4},
		"404 with a page":    {its: fails(404, "text/html; charset=utf-8", "<html>"), code: 404, want: "404 Not Found (a page of HTML)", asked: 4},
		"413":                {its: fails(413, "text/plain", "response is too large"), code: 413, want: "shard count too low: ask for more than 4 with the header Sharding-Control, 128 at most: response is too large", asked: 4},
		"413 at the limit":   {its: fails(413, "text/plain", "big"), change: func(o *Options) { o.MaxShards = 4 }, code: 413, want: "more shards are not allowed: ask with a narrower selector or count_by=: big", asked: 4},
		"429":                {its: fails(429, "text/plain", "slow down", "Retry-After", "17"), code: 429, want: "slow down (4 shards were asked at once; the header Sharding-Control asks for fewer)", retry: "17", asked: 4},
		"503":                {its: fails(503, "text/plain", "", "Retry-After", "3"), code: 503, want: "503 Service Unavailable", retry: "3"},
		"302":                {its: fails(302, "text/plain", "", "Location", "/login"), code: 502, want: "unexpected status 302"},
		"204":                {its: func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(204) }, code: 502, want: "status 204"},
		"a page":             {its: fails(200, "text/html; charset=utf-8", "<html>login</html>"), code: 502, want: "answered a page of HTML, not series"},
		"text":               {its: says("hello"), code: 502, want: "shard 2_of_4 at byte 0: the body is not an object"},
		"nothing":            {its: says(""), code: 502, want: "shard 2_of_4 at byte 0: the body ends here, incomplete"},
		"no end":             {its: says(`{"data":[{"a":"1"}]`), code: 502, want: "the body ends here, incomplete", asked: 4},
		"garbage at the end": {its: says(`{"data":[{"a":"1"}]}x`), code: 502, want: "bytes after the end of the body", asked: 4},
		"corrupt item":       {its: says(`{"data":[{foo}]}`), code: 502, want: "a member's name must be a string"},
		"no UTF-8":           {its: says("{\"data\":[{\"a\":\"\xff\"}]}"), code: 502, want: "invalid UTF-8"},
		"error in the body":  {its: says(`{"data":[],"status":"error","error":"error merging partial responses: x"}`), code: 502, want: "shard 2_of_4 reports: error merging partial responses: x"},
		"hung up":            {its: func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, code: 502, want: "EOF"},
		"no HTTP":            {its: raw("SSH-2.0-OpenSSH_9.2\r\n"), code: 502, want: "malformed HTTP response"},
		"dies in the body": {its: func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"data":[{"a":"1"},`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, code: 502, want: "unexpected EOF", asked: 4},
		"shorter than it says": {its: raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\":[]}"), code: 502, want: "unexpected EOF"},
		"longer than it says":  {its: raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"data\":[]}"), code: 502, want: "the body ends here, incomplete"},
		"no gzip": {its: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, `{"data":[]}`)
		}, code: 502, want: "decompress gzip"},
		"half of zstd": {its: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "zstd")
			_, _ = io.WriteString(w, "\x28\xb5\x2f\xfd\x04")
		}, code: 502, want: "unexpected EOF"},
		"snappy blocks": {its: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "snappy")
		}, code: 502, want: `content encoding "snappy" is unknown`},
		"hangs":             {its: hangs(""), change: timeout, code: 504, want: "took longer than 50ms", asked: 4},
		"hangs in the body": {its: hangs(`{"data":[{"a":"1"}`), change: timeout, code: 504, want: "took longer than 50ms", asked: 4},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFleet(t, false, c.change, onlyShard("2_of_4", c.its, hasSeries(2)))
			r := l.get("", "Accept-Encoding", "gzip")
			if got := r.errorText(t); r.code != c.code || !strings.Contains(got, c.want) {
				t.Errorf("got %d %s, want %d %s", r.code, got, c.code, c.want)
			}
			if got := r.header.Get("Retry-After"); got != c.retry {
				t.Errorf("Retry-After: got %q, want %q", got, c.retry)
			}
			if r.header.Get("Content-Encoding") != "" || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("header %v", r.header)
			}
			want := c.asked
			if want == 0 {
				want = 5
			}
			if asked := l.takeAsked(); len(asked) > want {
				t.Errorf("asked %d times, want at most %d: %v", len(asked), want, asked)
			}
		})
	}
}

// TestLateFaults makes shards fail after the status was sent: the error is in the body and in a trailer.
func TestLateFaults(t *testing.T) {
	dies := func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, large)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		its    shardResponse
		change func(*Options)
		want   string
	}{
		"dies":        {its: dies, want: "shard 1_of_1 at byte "},
		"truncated":   {its: says(large), want: "the body ends here, incomplete"},
		"reports":     {its: says(large + `],"status":"error","error":"näh \"x\"\n"}`), want: "shard 1_of_1 reports: näh"},
		"too long":    {its: says(large + "]}"), change: func(o *Options) { o.ResponseBytes = int64(len(large)) - 100 }, want: "response need more than"},
		"takes long":  {its: hangs(large), change: func(o *Options) { o.Timeout = 200 * time.Millisecond }, want: "at byte"},
		"two endings": {its: says(large + "]}]}"), want: "bytes after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFleet(t, false, func(o *Options) {
				o.Shards = 1
				if c.change != nil {
					c.change(o)
				}
			}, c.its)
			get := func(headers ...string) (r reply) {
				testwait.UntilState(t, "a response that starts before its time is over", func() (string, bool) {
					l.takeAsked()
					r = l.get("", headers...)
					return fmt.Sprint(r.code, r.body[:min(len(r.body), 200)]), r.code != http.StatusGatewayTimeout
				})
				return r
			}
			r := get()
			if r.code != http.StatusOK || r.err != nil {
				t.Fatalf("status %d, error %v: want a whole answer that tells of the error", r.code, r.err)
			}
			i := strings.LastIndex(r.body, `],"status":"error","error":"`)
			if i < 0 || !strings.Contains(r.body[i:], strings.ReplaceAll(c.want, `"`, `\"`)) {
				t.Errorf("the body ends with %q, want %q", r.body[max(0, len(r.body)-200):], c.want)
			}
			if n := len(seriesOf(t, []byte(r.body))); n == 0 {
				t.Error("no series came before the error")
			}
			if got := r.trailer.Get(errorTrailer); got == "" || strings.ContainsAny(got, "\r\n") {
				t.Errorf("trailer %q", got)
			}
			if n := len(l.takeAsked()); n != 1 {
				t.Errorf("%d requests: what was used is not asked for again", n)
			}
		})
	}
}

// TestClientLeaves disconnects the client: all requests for shards are cancelled.
func TestClientLeaves(t *testing.T) {
	for name, its := range map[string]shardResponse{
		"before the headers": hangs(""),
		"before the bodies":  hangs(`{"data":[`),
		"in the bodies":      hangs(large),
	} {
		t.Run(name, func(t *testing.T) {
			var asked, left sync.WaitGroup
			asked.Add(4)
			left.Add(4)
			l := newFleet(t, false, nil, func(w http.ResponseWriter, r *http.Request, shard string) {
				asked.Done()
				its(w, r, shard)
				left.Done()
			})
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/api/v1/cardinality/active_series?selector=up", nil)
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			testwait.Group(t, "all shards to be queried", &asked)
			cancel()
			testwait.Receive(t, "the request to return", gone)
			testwait.Group(t, "all shards to be released", &left)
		})
	}
}

// TestOneFaultEndsAll expects the first error to cancel the requests that hang.
func TestOneFaultEndsAll(t *testing.T) {
	var arrived, left sync.WaitGroup
	arrived.Add(3)
	left.Add(3)
	refuses := func(w http.ResponseWriter, r *http.Request, shard string) {
		arrived.Wait() // otherwise unsent requests would not be sent at all
		fails(400, "text/plain", "no")(w, r, shard)
	}
	l := newFleet(t, false, nil, onlyShard("3_of_4", refuses, func(w http.ResponseWriter, r *http.Request, shard string) {
		arrived.Done()
		hangs("")(w, r, shard)
		left.Done()
	}))
	if r := l.get(""); r.code != 400 {
		t.Errorf("status %d", r.code)
	}
	testwait.Group(t, "all shards to be released", &left)
}

// TestLimitEndsAll expects the frontend to cancel requests once the limit is reached.
func TestLimitEndsAll(t *testing.T) {
	l := newFleet(t, false, func(o *Options) { o.Shards = 2 }, onlyShard("1_of_2", hasSeries(50), hangs(`{"data":[{"a":"1"},{"a":"2"},{"a":"3"}`)))
	if n := len(l.get("&limit=10").series(t)); n != 10 {
		t.Errorf("%d series, want 10", n)
	}
}

// TestGate sends more requests than may run: the others wait until they time out.
func TestGate(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	l := newFleet(t, false, func(o *Options) { o.Shards, o.MaxRequests = 1, 1 }, func(w http.ResponseWriter, r *http.Request, _ string) {
		inside <- struct{}{}
		<-release
		says(`{"data":[]}`)(w, r, "")
	})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if r := l.get(""); r.code != http.StatusOK {
				t.Errorf("status %d: %s", r.code, r.body)
			}
		})
	}
	testwait.Receive(t, "the first request", inside)
	select {
	case <-inside:
		t.Error("two requests run")
	default:
	}
	release <- struct{}{}
	testwait.Receive(t, "the second request", inside)
	release <- struct{}{}
	testwait.Group(t, "both requests to finish", &both)

	f := l.frontend
	f.gate <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *statusError
	if err := f.acquire(ctx); !errors.As(err, &e) || e.Code != http.StatusServiceUnavailable || e.RetryAfter == "" {
		t.Errorf("got %v", err)
	}
	f.release()
}

// TestNoBufferLost expects decoders and compressors to return to their pools however a merge ends. A lost one
// would be allocated again: 64 KiB and more each time.
func TestNoBufferLost(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // keeps the pools from being emptied
	o := testOptions()
	o.ResponseBytes = 300_000
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []Encoding{Identity, Snappy, Gzip, Zstd} {
		for name, body := range map[string]string{
			"truncated": large, "corrupt": `{"data":[{"a":"1"},{foo}]}`, "over the limit": strings.Repeat(large, 2)[:400_000], "good": `{"data":[]}`,
		} {
			merge := func() {
				responses := make([]*http.Response, 4)
				for i := range responses {
					responses[i] = &http.Response{Body: io.NopCloser(strings.NewReader(body))}
				}
				resp := (&exchange{f: f}).mergeResponses(t.Context(), responses, string(encoding))
				if _, err := io.Copy(io.Discard, resp.Body); (err == nil) != (name == "good") {
					t.Errorf("%s: %v", name, err)
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			const runs = 20
			// The number of buffers in use at once depends on scheduling: the first rounds may create some.
			testwait.UntilState(t, fmt.Sprintf("%s %s: merges that create no buffers", encoding, name), func() (string, bool) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range runs {
					merge()
				}
				runtime.ReadMemStats(&after)
				each := (after.TotalAlloc - before.TotalAlloc) / runs
				return fmt.Sprint(each, " bytes a merge"), each <= 48<<10 || raceEnabled
			})
		}
	}
}

// TestLength expects a length in a short response and a trailer in a long one.
func TestLength(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(2))
	r := l.get("")
	if got := r.header.Get("Content-Length"); got != strconv.Itoa(len(r.body)) {
		t.Errorf("Content-Length %q of %d bytes", got, len(r.body))
	}
	l = newFleet(t, false, nil, hasSeries(1000))
	r = l.get("")
	if n := len(r.series(t)); n != 4000 || r.header.Get("Content-Length") != "" || r.trailer.Get(errorTrailer) != "" {
		t.Errorf("%d series, header %v, trailer %v", n, r.header, r.trailer)
	}
}

// TestDecoders expects both decoders to return the same, and differences to be counted.
func TestDecoders(t *testing.T) {
	bodies := []string{
		`{"data":[{"a":"1"} , {"b":"\u00e4"}]}`, `{"data":null,"warnings":["x"]}`, `{"status":"success","data":[]}`,
		`{"data":[{"a":"1"}],"error":"x"}`, `{"DATA":[]}`, `{"data":[],"data":[]}`, `{"data":[{"a":1}]}`, `{"data":[{}]`, "{\"data\":[{\"\xff\":\"\"}]}",
	}
	for _, body := range bodies {
		var got []string
		for _, d := range []Decoding{{By: activeseries.Strict}, {By: activeseries.Stdlib}, {By: activeseries.Strict, Compare: 1}, {By: activeseries.Stdlib, Compare: 1}} {
			l := newFleet(t, false, func(o *Options) { o.Shards, o.Decoding = 1, d }, says(body))
			r := l.get("")
			text := fmt.Sprint(r.code)
			if r.code == http.StatusOK {
				text += fmt.Sprint(r.series(t))
			}
			got = append(got, text)
		}
		for _, g := range got[1:] {
			if g != got[0] {
				t.Errorf("%s: %q", body, got)
			}
		}
	}
	l := newFleet(t, false, nil, hasSeries(1))
	if err := l.frontend.SetDecoding(Decoding{Compare: 2}); err == nil {
		t.Error("accepted a share of 2")
	}
	if err := l.frontend.SetDecoding(Decoding{By: activeseries.Stdlib, Compare: 0.5}); err != nil || l.frontend.currentDecoding().By != activeseries.Stdlib {
		t.Error(err)
	}
}
