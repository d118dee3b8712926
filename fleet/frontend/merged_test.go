package frontend

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// TestHistogramMetric adds the counts of shards: one without series changes nothing.
func TestHistogramMetric(t *testing.T) {
	of := func(series, buckets, least, most uint64) histogramMetric {
		return histogramMetric{Metric: "m", Series: series, Buckets: buckets, MinBuckets: least, MaxBuckets: most}
	}
	m := histogramMetric{Metric: "m"}
	for _, c := range []struct{ add, want histogramMetric }{
		{of(0, 9, 9, 9), of(0, 0, 0, 0)},
		{of(2, 10, 4, 6), of(2, 10, 4, 6)},
		{of(0, 9, 1, 9), of(2, 10, 4, 6)},
		{of(2, 6, 3, 3), of(4, 16, 3, 6)},
		{of(1, 8, 8, 8), of(5, 24, 3, 8)},
	} {
		m.add(c.add)
		if c.want.Series > 0 {
			c.want.AvgBuckets = float64(c.want.Buckets) / float64(c.want.Series)
		}
		if m != c.want {
			t.Errorf("after %+v: %+v, want %+v", c.add, m, c.want)
		}
	}
	merge := histogramMerge{metrics: map[string]*histogramMetric{}, left: 2*histogramBytes + 3, allowed: 7}
	for _, c := range []struct {
		name string
		ok   bool
	}{{"a", true}, {"bb", true}, {"a", true}, {"c", false}} {
		if err := merge.add(histogramMetric{Metric: c.name, Series: 1}); (err == nil) != c.ok {
			t.Errorf("metric %s: %v", c.name, err)
		}
	}
	for n, want := range map[int]int{0: 0, maxWarnings: maxWarnings, maxWarnings + 1: maxWarnings + 1, maxWarnings + 9: maxWarnings + 1} {
		var m histogramMerge
		for i := range n {
			m.warn("1_of_2", []string{fmt.Sprint(i)})
		}
		m.warn("2_of_2", nil)
		if len(m.warnings) != want || want > 0 && m.warnings[0] != "1_of_2: 0" || want > maxWarnings && m.warnings[maxWarnings] != "more warnings were left out" {
			t.Errorf("%d warnings: %q", n, m.warnings)
		}
	}
}

// TestHistogramBodies reads bodies that are cut, have further fields or report an error.
func TestHistogramBodies(t *testing.T) {
	const path = "/api/v1/cardinality/active_native_histogram_metrics?selector=up"
	l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, func(w http.ResponseWriter, r *http.Request, _ string) {
		_, _ = io.WriteString(w, r.Form.Get("body"))
	})
	for body, want := range map[string]string{ // the error; "": none
		`{"data":[],"status":"success"}`:             "",
		`{"status":"success","data":[]}`:             "",
		`{"data":[],"error":null}`:                   "",
		`{"data":[],"error":""}`:                     "",
		`{"data":[],"errorType":"x"}`:                "",
		`{"data":[{"metric":"a","series_count":1}]}`: "",
		`{"data":[],"status":"error"}`:               "reported: ",
		`{"error":"boom","data":null}`:               "reported: boom",
		`{"error":7,"data":null}`:                    "reported: 7",
		`{"status":"error","error":"boom"}`:          "reported: boom",
		`{"data":[],"status":`:                       "unexpected EOF",
		`{"data":`:                                   "unexpected EOF",
		`{"data":[{"metric":"a"`:                     "unexpected EOF",
		`{"data":[{"metric":"a"}`:                    "unexpected EOF",
		`{"data":[{"metric":"a"},1]}`:                "not a list of metrics",
		`{"data":[{"metric":""}]}`:                   "without a name",
		`{`:                                          "unexpected EOF",
		``:                                           "unexpected EOF",
		`{"data":[]}]`:                               "bytes after the end",
		`{"data":[]}{}`:                              "bytes after the end",
		`{"data":[],"warnings":["late"]}`:            "",
		`{"data":[],"warnings":["late"`:              "unexpected EOF",
	} {
		r := l.ask(http.MethodPost, path, strings.NewReader("body="+strings.NewReplacer("+", "%2B", "&", "%26").Replace(body)))
		if want == "" {
			if r.code != http.StatusOK || !strings.HasPrefix(r.body, `{"data":[`) || strings.Contains(r.body, "late") != strings.Contains(body, "late") {
				t.Errorf("%s: %d %s", body, r.code, r.body)
			}
			continue
		}
		if got := r.errorText(t); r.code != http.StatusBadGateway || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %q", body, r.code, got, want)
		}
	}
	for most, code := range map[int64]int{0: http.StatusOK, 11: http.StatusOK, 10: http.StatusRequestEntityTooLarge} {
		l := newFleet(t, false, func(o *Options) { o.ResponseBytes = most }, says(`{"data":null}`))
		if r := l.ask(http.MethodGet, path, nil); r.code != code { // {"data":[]} has 11 bytes
			t.Errorf("at most %d bytes: %d %s", most, r.code, r.body)
		}
	}
}

// TestLongHistogramValues reads bodies longer than a value may be: they fail if one value is.
func TestLongHistogramValues(t *testing.T) {
	long := strings.Repeat("a", 2*maxHistogramValue)
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"metrics":     {`{"data":[{"metric":"a"}` + strings.Repeat(`,{"metric":"a","series_count":1}`, 2*maxHistogramValue/32) + `]}`, http.StatusOK},
		"warnings":    {`{"data":[]` + strings.Repeat(`,"warnings":["`+long[:10_000]+`"]`, 2*maxHistogramValue/10_000) + `}`, http.StatusOK},
		"a metric":    {`{"data":[{"metric":"` + long + `"}]}`, http.StatusBadGateway},
		"a name":      {`{"data":[],"` + long + `":1}`, http.StatusBadGateway},
		"a value":     {`{"data":[],"x":["` + long + `"]}`, http.StatusBadGateway},
		"a warning":   {`{"data":[],"warnings":["` + long + `"]}`, http.StatusBadGateway},
		"white space": {`{"data":[],` + strings.Repeat(" ", 2*maxHistogramValue) + `"x":1}`, http.StatusBadGateway},
	} {
		l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, says(c.body))
		r := l.ask(http.MethodGet, "/api/v1/cardinality/active_native_histogram_metrics?selector=up", nil)
		if r.code != c.code || c.code != http.StatusOK && !strings.Contains(r.errorText(t), "a value of more than 1048576 bytes") {
			t.Errorf("%s: %d %.200s", name, r.code, r.body)
		}
	}
}

// TestErrorTexts has the text of a downstream's error: of Prometheus' JSON, of a plain body, or its status.
func TestErrorTexts(t *testing.T) {
	compressed := func(text string) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	for name, c := range map[string]struct {
		respond shardResponse
		code    int
		want    string
	}{
		"error":             {fails(422, "application/json", `{"status":"error","error":"too much"}`), 422, "shard 1_of_1: too much"},
		"message":           {fails(422, "application/json", `{"message":"too much"}`), 422, "shard 1_of_1: too much"},
		"both":              {fails(422, "application/json", `{"message":"a","error":"too much"}`), 422, "shard 1_of_1: too much"},
		"other JSON":        {fails(422, "application/json", `{"why":"too much"}`), 422, `shard 1_of_1: {"why":"too much"}`},
		"plain":             {fails(422, "text/plain", " too much\n"), 422, "shard 1_of_1: too much"},
		"empty":             {fails(422, "text/plain", ""), 422, "shard 1_of_1: 422 Unprocessable Entity"},
		"unknown status":    {fails(479, "text/plain", ""), 479, "shard 1_of_1: 479"},
		"a page":            {fails(403, "text/html; charset=utf-8", "<html>"), 403, "shard 1_of_1: 403 Forbidden (a page of HTML)"},
		"a page of success": {fails(200, "text/html", "<html>"), 502, "shard 1_of_1: answered a page of HTML"},
		"a redirect":        {fails(302, "text/plain", "elsewhere", "Retry-After", "7"), 502, "shard 1_of_1: returned the unexpected status 302: elsewhere"},
		"compressed":        {fails(422, "text/plain", compressed("too much"), "Content-Encoding", "gzip"), 422, "shard 1_of_1: too much"},
		"not compressed":    {fails(422, "text/plain", "too much", "Content-Encoding", "gzip"), 422, "422 Unprocessable Entity (its text cannot be read"},
		"too large":         {fails(413, "text/plain", "too much"), 413, "shard count too low: ask for more than 1"},
		"too many of one":   {fails(429, "text/plain", "slow down", "Retry-After", "7"), 429, "shard 1_of_1: slow down"},
		"a bad encoding":    {fails(200, "application/json", `{"data":[]}`, "Content-Encoding", "br"), 502, `content encoding "br" is unknown`},
		"identity":          {fails(200, "application/json", `{"data":[]}`, "Content-Encoding", "identity"), 200, ""},
	} {
		l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, c.respond)
		r := l.get("")
		if r.code == http.StatusOK && c.code == r.code {
			continue
		}
		if got := r.errorText(t); r.code != c.code || !strings.Contains(got, c.want) || strings.HasPrefix(name, "too many") && (got != c.want || r.header.Get("Retry-After") != "7") || c.code == 502 && r.header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s, want %d %s", name, r.code, got, c.code, c.want)
		}
	}
	l := newFleet(t, false, func(o *Options) { o.Shards = 2 }, fails(429, "text/plain", "slow down"))
	if got := l.get("").errorText(t); !strings.Contains(got, "2 shards were asked at once") {
		t.Errorf("too many of two: %s", got)
	}
	for body, counted := range map[string]bool{`{"data":[]}`: true, `{"data":[`: false} {
		l := newFleet(t, false, nil, says(body))
		if r := l.get("&count_by=job"); (r.code == http.StatusOK) != counted || (r.header.Get(countHeader) == "job") != counted {
			t.Errorf("%s counted: %d, header %q", body, r.code, r.header.Get(countHeader))
		}
	}
	w := httptest.NewRecorder()
	l.frontend.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/other?selector=up", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("another endpoint: %d", w.Code)
	}
}

// TestWait returns the number of requests that run when the context is done, and 0 as soon as none does.
func TestWait(t *testing.T) {
	f, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := f.Wait(t.Context()); n != 0 {
		t.Errorf("%d requests run", n)
	}
	f.startRequest()
	f.startRequest()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if n := f.Wait(done); n != 2 {
		t.Errorf("%d requests run, want 2", n)
	}
	waited := make(chan int, 1)
	go func() { waited <- f.Wait(t.Context()) }()
	f.finishRequest()
	f.finishRequest()
	if n := testwait.Receive(t, "the end of Wait", waited); n != 0 {
		t.Errorf("%d requests run after the last", n)
	}
}

// TestBuffered keeps a response of the whole buffer, whose length is known, and sends a longer one.
func TestBuffered(t *testing.T) {
	for n, length := range map[int]string{0: "0", 1: "1", holdBytes: fmt.Sprint(holdBytes), holdBytes + 1: ""} {
		for _, pieces := range []int{1, 2} {
			w := httptest.NewRecorder()
			h := &bufferedWriter{w: w, code: http.StatusAccepted}
			text := strings.Repeat("a", n)
			for i := range pieces {
				part := text[i*n/pieces : (i+1)*n/pieces]
				if got, err := h.Write([]byte(part)); got != len(part) || err != nil {
					t.Errorf("wrote %d of %d bytes (%v)", got, len(part), err)
				}
			}
			if sent := n > holdBytes; h.sent != sent || (w.Header().Get("Trailer") != "") != sent {
				t.Errorf("%d bytes in %d pieces: sent %v", n, pieces, h.sent)
			}
			if err := h.finish(); err != nil || w.Header().Get("Content-Length") != length || w.Code != http.StatusAccepted || w.Body.String() != text || h.bytes != int64(n) || h.lost {
				t.Errorf("%d bytes in %d pieces: %d with %d bytes, length %q (%v)", n, pieces, w.Code, w.Body.Len(), w.Header().Get("Content-Length"), err)
			}
		}
	}
	h := &bufferedWriter{w: failingWriter{httptest.NewRecorder()}, code: http.StatusOK}
	if n, err := h.Write(make([]byte, holdBytes+1)); n != 0 || err == nil || !h.lost {
		t.Errorf("a lost client: %d bytes (%v), lost %v", n, err, h.lost)
	}
	h = &bufferedWriter{w: failingWriter{httptest.NewRecorder()}, code: http.StatusOK}
	if _, err := h.Write([]byte("a")); err != nil || h.lost {
		t.Errorf("nothing was sent: %v", err)
	}
	if err := h.finish(); err == nil || !h.lost {
		t.Errorf("a lost client: %v", err)
	}
}

type failingWriter struct{ http.ResponseWriter }

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestRecordFacts has the properties by which the log samples.
func TestRecordFacts(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	r := record{Start: start, Total: time.Second, ItemsOut: 7, Endpoint: "e", Masked: `{a="?"}`, Selector: `{a="secret"}`, Client: netip.MustParseAddrPort("10.0.0.1:5000")}
	f := r.Facts()
	if !f.End.Equal(start.Add(time.Second)) || f.Total != time.Second || f.Rows != 7 || f.Failed || f.Origin != 5000 || r.Kind() != "frontend" {
		t.Errorf("%+v", f)
	}
	other := r
	other.ErrorText, other.Selector = "boom", `{a="other"}`
	if got := other.Facts(); !got.Failed || got.Digest != f.Digest {
		t.Errorf("%+v", got)
	}
	if other.Endpoint = "f"; other.Facts().Digest == f.Digest {
		t.Error("requests of two endpoints have one digest")
	}
	for redaction, want := range map[querylog.Redaction]string{querylog.RedactNone: "secret", querylog.RedactLiterals: "?", querylog.RedactAll: ""} {
		l := querylog.Line{Format: querylog.JSON, Redaction: redaction}
		l.Begin(nil, "frontend")
		r.AppendFields(&l)
		text := string(l.End())
		if strings.Contains(text, "selector") != (want != "") || !strings.Contains(text, want) || strings.Contains(text, "secret") != (want == "secret") {
			t.Errorf("redaction %v: %s", redaction, text)
		}
	}
	for remote, valid := range map[string]bool{"10.0.0.1:5000": true, "@": false} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.RemoteAddr = remote
		if rec := newRecord(req, seriesEndpoint); rec.Client.IsValid() != valid || rec.Status != http.StatusOK || rec.Endpoint != string(seriesEndpoint) {
			t.Errorf("from %s: %+v", remote, rec)
		}
	}
}

// TestWarningBounds adds what is beyond the bound as a number, and no warning twice.
func TestWarningBounds(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, maxWarnings: maxWarnings, maxWarnings + 1: maxWarnings + 1, maxWarnings + 5: maxWarnings + 1} {
		var named []string
		for i := range n {
			named = append(named, fmt.Sprint("warning ", i), fmt.Sprint("warning ", i))
			if i >= maxWarnings { // one that is not added is not known
				named = named[:len(named)-1]
			}
		}
		h := http.Header{}
		addWarnings(h, warningsHeader, named, nil)
		got := h.Values(warningsHeader)
		if len(got) != want || n > maxWarnings && got[maxWarnings] != fmt.Sprintf("%d more warnings", n-maxWarnings) {
			t.Errorf("%d warnings: %q", n, got)
		}
	}
	h := http.Header{}
	resp := &http.Response{Header: http.Header{"Warning": {"late"}, warningsHeader: {"old"}}, Trailer: http.Header{warningsHeader: {"cut"}}, Body: http.NoBody}
	named := &http.Response{Header: http.Header{"Warning": {"late"}}, Body: &partBody{part: &part{name: "2_of_2"}}}
	addWarnings(h, warningsHeader, []string{"one\ntwo"}, []*http.Response{resp, named})
	if got, want := fmt.Sprintf("%q", h.Values(warningsHeader)), `["one two" "a shard: old" "a shard: cut" "a shard: late" "shard 2_of_2: late"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	addWarnings(h, http.TrailerPrefix+warningsHeader, []string{"one\ntwo", "new"}, nil)
	if got := fmt.Sprintf("%q", h.Values(http.TrailerPrefix+warningsHeader)); got != `["new"]` {
		t.Errorf("late: %s", got)
	}
}

// TestDifference counts a disagreement of the decoders and has it in the overview, without its text for those that may not see values.
func TestDifference(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(1))
	l.frontend.reportDifference(activeseries.Difference{Shard: "1_of_2"})
	for _, values := range []bool{false, true} {
		o := l.frontend.Overview(values)
		if o.Differences != 1 || o.LastDifference == nil || (o.LastDifference.Text != "") != values || o.LastDifference.At.IsZero() {
			t.Errorf("values %v: %+v", values, o.LastDifference)
		}
	}
	l.frontend.peers.failed(mustURL(t, "http://unknown"), outcomeFailed, "a", io.EOF)
	l.frontend.peers.served(mustURL(t, "http://unknown"), time.Second)
	u := l.frontend.options.Downstreams[0]
	l.frontend.peers.failed(u, outcomeRefused, "a", io.EOF)
	if p := l.frontend.Overview(true).Peers[0]; p.Refused != 1 || p.Failed != 0 || p.Responded != 0 || p.LastError != "EOF" {
		t.Errorf("a refused request: %+v", p)
	}
}

// TestLostClient counts a request whose response cannot be sent as failed, with the status of a client that left.
func TestLostClient(t *testing.T) {
	l := newFleet(t, false, nil, says(`{"data":[]}`))
	for i, c := range []struct{ endpoint, encoding string }{
		{"active_series", ""}, {"active_series", "gzip"}, {"active_native_histogram_metrics", ""}, {"active_native_histogram_metrics", "zstd"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/"+c.endpoint+"?selector=up", nil)
		r.Header.Set("Accept-Encoding", c.encoding)
		l.frontend.ServeHTTP(failingWriter{httptest.NewRecorder()}, r)
		o := l.frontend.Overview(true)
		if got := o.Latest[0]; o.Failed != uint64(i+1) || got.Status != statusGone || !strings.Contains(got.Error, "the client left") || got.Endpoint != c.endpoint {
			t.Errorf("%s in %q: %d failed, %+v", c.endpoint, c.encoding, o.Failed, got)
		}
	}
}

// TestRefetch makes a second request for a part once, on another replica, and returns its error if that says more.
func TestRefetch(t *testing.T) {
	for name, c := range map[string]struct {
		first, second shardResponse
		code, asked   int
	}{
		"the second serves":        {fails(503, "text/plain", ""), says(`{"data":[]}`), 200, 2},
		"the first refuses":        {fails(422, "text/plain", ""), says(`{"data":[]}`), 422, 1},
		"the second refuses":       {fails(503, "text/plain", ""), fails(422, "text/plain", ""), 422, 2},
		"both fail":                {fails(503, "text/plain", ""), fails(500, "text/plain", ""), 500, 2},
		"the first lacks the page": {fails(501, "text/plain", ""), says(`{"data":[]}`), 501, 1},
	} {
		l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, c.first, c.second)
		l.frontend.turn.Store(1) // the next request starts with the first replica
		r := l.get("")
		if asked := l.takeAsked(); r.code != c.code || len(asked) != c.asked || !strings.HasPrefix(asked[0], "0 ") {
			t.Errorf("%s: status %d, asked %q", name, r.code, asked)
		}
	}
}
