package frontend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/testactive"
)

// TestShards checks the requests that one request is split into.
func TestShards(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(3))
	got := l.get("").series(t)
	if diff := cmp.Diff(wantSeries(t, 4, 3), got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	want := []string{
		`0 GET /prometheus/api/v1/cardinality/active_series {__query_shard__="1_of_4",__name__="up"}`,
		`0 GET /prometheus/api/v1/cardinality/active_series {__query_shard__="2_of_4",__name__="up"}`,
		`0 GET /prometheus/api/v1/cardinality/active_series {__query_shard__="3_of_4",__name__="up"}`,
		`0 GET /prometheus/api/v1/cardinality/active_series {__query_shard__="4_of_4",__name__="up"}`,
	}
	if diff := cmp.Diff(want, l.takeAsked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	for _, n := range []string{"0", "1"} { // not split
		if r := l.get("", shardingHeader, n); r.code != http.StatusOK {
			t.Error(r)
		}
		if diff := cmp.Diff([]string{`0 GET /prometheus/api/v1/cardinality/active_series {__name__="up"}`}, l.takeAsked()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
	l.get("", shardingHeader, "128").series(t)
	if n := len(l.takeAsked()); n != 128 {
		t.Errorf("%d shards, want 128", n)
	}
	r := l.get("", shardingHeader, "512")
	if got := r.errorText(t); r.code != http.StatusBadRequest || got != "shard count 512 exceeds allowed maximum (128)" {
		t.Errorf("status %d: %s", r.code, got)
	}
	// A frontend above has split the request already.
	l.takeAsked()
	l.ask(http.MethodGet, "/prometheus/api/v1/cardinality/active_series?selector="+url.QueryEscape(`{__query_shard__="2_of_3",job="x"}`), nil).series(t)
	if diff := cmp.Diff([]string{`0 GET /prometheus/api/v1/cardinality/active_series {__query_shard__="2_of_3",job="x"}`}, l.takeAsked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestSplitOnce expects the frontend to forbid downstreams to split a shard again, since the shards of
// different counts have no series in common. A request that this frontend does not split may be split by the
// downstream.
func TestSplitOnce(t *testing.T) {
	var notified sync.Map
	l := newFleet(t, false, nil, func(w http.ResponseWriter, r *http.Request, _ string) {
		notified.Store(r.Header.Get(shardingHeader), true)
		says(`{"data":[]}`)(w, r, "")
	})
	sharded := "/api/v1/cardinality/active_series?selector=" + url.QueryEscape(`{__query_shard__="2_of_3",job="x"}`)
	for _, c := range []struct {
		name, want string
		ask        func()
		shards     int
	}{
		{"split", "0", func() { l.get("") }, 4},
		{"split by its header", "0", func() { l.get("", shardingHeader, "2") }, 4},
		{"not split by its header", "0", func() { l.get("", shardingHeader, "1") }, 4},
		{"split by a frontend above", "0", func() { l.ask(http.MethodGet, sharded, nil) }, 4},
		{"not split", "", func() { l.get("") }, 1},
	} {
		notified.Clear()
		l.frontend.options.Shards = c.shards
		c.ask()
		for got := range notified.Range {
			if got != c.want {
				t.Errorf("%s: %s is %q, want %q", c.name, shardingHeader, got, c.want)
			}
		}
		if _, ok := notified.Load(c.want); !ok {
			t.Errorf("%s: nobody was asked", c.name)
		}
	}
}

// TestNoLimitOfShards sets MaxShards to 0, which in Mimir would refuse every request.
func TestNoLimitOfShards(t *testing.T) {
	l := newFleet(t, false, func(o *Options) { o.MaxShards = 0 }, hasSeries(1))
	if got := len(l.get("", shardingHeader, "300").series(t)); got != 300 {
		t.Errorf("%d series of 300 shards", got)
	}
}

// TestLongSelector expects a selector that is too long for a URL to be sent as a form.
func TestLongSelector(t *testing.T) {
	l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, hasSeries(1))
	selector := `{job=~"` + strings.Repeat("a|", 10_000) + `a"}`
	r := l.ask(http.MethodPost, "/prometheus/api/v1/cardinality/active_series", strings.NewReader(url.Values{"selector": {selector}, "lang": {"en"}}.Encode()))
	r.series(t)
	if diff := cmp.Diff([]string{"0 POST /prometheus/api/v1/cardinality/active_series " + selector}, l.takeAsked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r = l.ask(http.MethodPost, "/api/v1/cardinality/active_series", strings.NewReader(strings.Repeat("a", maxForm+1)))
	if got := r.errorText(t); r.code != http.StatusRequestEntityTooLarge || !strings.Contains(got, "1048576") {
		t.Errorf("status %d: %s", r.code, got)
	}
}

// TestPassedOn expects tenant and trace headers, and unknown parameters, to reach the downstream, and
// clients' passwords not to.
func TestPassedOn(t *testing.T) {
	var got http.Header
	var form url.Values
	l := newFleet(t, false, func(o *Options) {
		o.Shards = 1
		o.Encoding = Zstd
		o.Downstreams[0].User = url.UserPassword("tare", "secret")
	}, func(w http.ResponseWriter, r *http.Request, _ string) {
		got, form = r.Header.Clone(), r.Form
		says(`{"data":[]}`)(w, r, "")
	})
	if r := l.get("&lang=en&limit=5", "X-Scope-OrgID", "team-a", "Traceparent", "00-1", "Authorization", "Basic Y2xpZW50", "Cookie", "a=b"); r.body != `{"data":[]}` {
		t.Fatal(r)
	}
	for name, want := range map[string]string{
		"X-Scope-Orgid": "team-a", "Traceparent": "00-1", "Authorization": "Basic dGFyZTpzZWNyZXQ=", "Cookie": "",
		"Accept-Encoding": "zstd", "User-Agent": "tare-frontend", "Accept": jsonType, "Sharding-Control": "",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), want)
		}
	}
	if form.Get("lang") != "en" || form.Get("limit") != "6" {
		t.Errorf("form %v", form)
	}
}

// TestBadRequests expects a precise error for invalid requests, and no request to a downstream.
func TestBadRequests(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(1))
	for _, c := range []struct{ query, want string }{
		{"", "selector is missing"},
		{"selector=", "selector: "},
		{"selector=up%7B", "selector: 1:"},
		{"selector=rate(up%5B5m%5D)", "selector: want which series, such as up{job=\"api\"}, not a call of rate()"},
		{"selector=sum(up)", "not an aggregation, sum"},
		{"selector=up%2Bup", "not an operation, +"},
		{"selector=up%5B5m%5D", "not a range of samples"},
		{"selector=1", "not a literal"},
		{"selector=up+offset+5m", "offset has no meaning here"},
		{"selector=up+%40+1", "@ has no meaning here"},
		{"selector=up+%40+start()", "@ has no meaning here"},
		{"selector=up&selector=down", "want one selector, not 2"},
		{"selector=up&limit=-1", "limit: want a number of items"},
		{"selector=up&limit=1&limit=2", "want one limit, not 2"},
		{"selector=up&count_by=", "count_by: want a label"},
		{"selector=up&count_by=%ff", "want UTF-8"},
		{"selector=up&count_by=__count__", "__count__ is the name of the counts: want another label"},
		{"selector=%zz", "read the form: "},
	} {
		r := l.ask(http.MethodGet, "/api/v1/cardinality/active_series?"+c.query, nil)
		if got := r.errorText(t); r.code != http.StatusBadRequest || !strings.Contains(got, c.want) {
			t.Errorf("%s: status %d: %s; want 400 and %q", c.query, r.code, got, c.want)
		}
	}
	r := l.get("", shardingHeader, "many")
	if got := r.errorText(t); r.code != http.StatusBadRequest || !strings.Contains(got, "want a number of shards") {
		t.Errorf("status %d: %s", r.code, got)
	}
	if r := l.ask(http.MethodDelete, "/api/v1/cardinality/active_series?selector=up", nil); r.code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE has status %d", r.code)
	}
	if asked := l.takeAsked(); len(asked) > 0 {
		t.Errorf("asked: %v", asked)
	}
}

// TestEncodings decodes responses with the official decoder of each encoding, in both directions.
func TestEncodings(t *testing.T) {
	readers := map[string]func(io.Reader) (io.Reader, error){
		"":         func(r io.Reader) (io.Reader, error) { return r, nil },
		"identity": func(r io.Reader) (io.Reader, error) { return r, nil },
		"gzip":     func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) {
			d, err := zstd.NewReader(r)
			if err != nil {
				return nil, err
			}
			t.Cleanup(d.Close)
			return d, nil
		},
		"x-snappy-framed": func(r io.Reader) (io.Reader, error) { return snappy.NewReader(r), nil },
	}
	var downstream string
	var c compressors
	l := newFleet(t, false, nil, func(w http.ResponseWriter, r *http.Request, shard string) {
		e, err := encodingOf(downstream)
		if err != nil {
			t.Error(err)
		}
		body := testactive.Body(len(shard), 300)
		w.Header().Set("Content-Encoding", downstream)
		z, release := c.writer(e, w)
		defer release()
		if z == nil {
			_, _ = w.Write(body)
			return
		}
		_, _ = z.Write(body)
		if err := z.Close(); err != nil {
			t.Error(err)
		}
	})
	want := l.get("").series(t)
	for _, c := range []struct{ accept, encoding string }{
		{"", ""},
		{"gzip", "gzip"},
		{"zstd", "zstd"},
		{"x-snappy-framed", "x-snappy-framed"},
		{"gzip;q=0.5, zstd;q=0.8", "zstd"},
		{"gzip, zstd", "zstd"},
		{"br", ""},
		{"gzip;q=0", ""},
		{"*", "x-snappy-framed"},
		{"*;q=0.5, gzip;q=0.9", "gzip"},
		{"X-GZIP", "gzip"},
		{"identity, gzip;q=0.5", ""},
	} {
		for downstream = range readers {
			if c.accept != "" && downstream != c.encoding { // each encoding once in either direction
				continue
			}
			r := l.get("", "Accept-Encoding", c.accept)
			if got := r.header.Get("Content-Encoding"); r.code != http.StatusOK || got != c.encoding {
				t.Fatalf("Accept-Encoding %q: status %d, encoding %q, want %q", c.accept, r.code, got, c.encoding)
			}
			z, err := readers[c.encoding](strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(z)
			if err != nil {
				t.Fatalf("Accept-Encoding %q: %v", c.accept, err)
			}
			if diff := cmp.Diff(want, seriesOf(t, body)); diff != "" {
				t.Errorf("Accept-Encoding %q, downstream %q: %.300s", c.accept, downstream, diff)
			}
		}
	}
	for _, refused := range []string{"identity;q=0", "*;q=0", "gzip;q=0, identity;q=0.0"} {
		if r := l.get("", "Accept-Encoding", refused); r.code != http.StatusNotAcceptable {
			t.Errorf("%q: status %d", refused, r.code)
		}
	}
}

// TestS2Body sends s2's extended stream format, which Mimir labels x-snappy-framed.
func TestS2Body(t *testing.T) {
	l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Encoding", "x-snappy-framed")
		z := s2.NewWriter(w)
		_, _ = z.Write(testactive.Body(1, 5))
		_ = z.Close()
	})
	if got := len(l.get("").series(t)); got != 5 {
		t.Errorf("%d series, want 5", got)
	}
}

// TestAccept serves JSON to requests that accept it, also beside types with a greater weight, and refuses others.
func TestAccept(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(3))
	want := l.get("").series(t)
	for _, accept := range []string{"application/json", "text/html, */*;q=0.1", "application/vnd.mimir.active-series-framed, application/json;q=0.1"} {
		r := l.get("", "Accept", accept)
		if got := r.header.Get("Content-Type"); r.code != http.StatusOK || got != jsonType {
			t.Errorf("Accept %q: status %d, type %q", accept, r.code, got)
		}
		if diff := cmp.Diff(want, r.series(t)); diff != "" {
			t.Errorf("Accept %q (-want +got):\n%s", accept, diff)
		}
	}
	for _, accept := range []string{"text/html", "application/vnd.mimir.active-series-framed", "*/*, application/json;q=0"} {
		if r := l.get("", "Accept", accept); r.code != http.StatusNotAcceptable || !strings.Contains(r.errorText(t), jsonType) {
			t.Errorf("Accept %q: status %d, %s; want 406 with the type", accept, r.code, r.body)
		}
	}
}

// TestMembers queries systems with different series: a series that several have is in the response once.
func TestMembers(t *testing.T) {
	l := newFleet(t, true, func(o *Options) { o.Shards = 2 },
		says(`{"data":[{"a":"1"},{"a":"2"}]}`),
		says(`{"data":[{"a":"2"},{"a":"3"}]}`))
	r := l.get("")
	if diff := cmp.Diff([]string{`{"a":"1"}`, `{"a":"2"}`, `{"a":"3"}`}, r.series(t)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if asked := l.takeAsked(); len(asked) != 4 {
		t.Errorf("asked %v, want 2 shards of 2 members", asked)
	}
	// A failing member makes the response incomplete.
	l = newFleet(t, true, nil, hasSeries(1), fails(503, "text/plain", "starting", "Retry-After", "7"))
	r = l.get("")
	if got := r.errorText(t); r.code != 503 || !strings.Contains(got, "starting") || r.header.Get("Retry-After") != "7" {
		t.Errorf("status %d: %s", r.code, got)
	}
}

// TestCountBy expects counts to be pushed down to downstreams that support them, and computed by the frontend
// for the others.
func TestCountBy(t *testing.T) {
	counts := func(w http.ResponseWriter, r *http.Request, shard string) {
		if r.Form.Get("count_by") != "job" || r.Form.Has("limit") {
			t.Errorf("form %v", r.Form)
		}
		w.Header().Set(countHeader, "job")
		says(`{"data":[{"job":"a","__count__":"10"}]}`)(w, r, shard)
	}
	series := says(`{"data":[{"job":"a","i":"1"},{"job":"b","i":"1"},{"job":"a","i":"2"}]}`)
	for name, c := range map[string]struct {
		members bool
		replies []shardResponse
		want    string
	}{
		"replicas that count":        {false, []shardResponse{counts}, `{"data":[{"job":"a","__count__":"20"}]}`},
		"replicas that do not":       {false, []shardResponse{series}, `{"data":[{"job":"a","__count__":"4"},{"job":"b","__count__":"2"}]}`},
		"members that count":         {true, []shardResponse{counts, counts}, `{"data":[{"job":"a","__count__":"40"}]}`},
		"members that do not":        {true, []shardResponse{series, series}, `{"data":[{"job":"a","__count__":"2"},{"job":"b","__count__":"1"}]}`},
		"members of which one does ": {true, []shardResponse{counts, series, series}, `{"data":[{"job":"a","__count__":"22"},{"job":"b","__count__":"1"}]}`},
	} {
		l := newFleet(t, c.members, func(o *Options) { o.Shards = 2 }, c.replies...)
		r := l.get("&count_by=job")
		if r.code != http.StatusOK || r.body != c.want || r.header.Get(countHeader) != "job" {
			t.Errorf("%s: got %d %s, want %s", name, r.code, r.body, c.want)
		}
	}
	// A label of that name is a count only with the header, and only of the requested label.
	named := `{"data":[{"job":"a","__count__":"10"},{"job":"a","__count__":"x"}]}`
	other := func(w http.ResponseWriter, r *http.Request, shard string) {
		w.Header().Set(countHeader, "instance")
		says(named)(w, r, shard)
	}
	for _, result := range []shardResponse{says(named), other} {
		l := newFleet(t, true, nil, result)
		if r := l.get("&count_by=job"); r.body != `{"data":[{"job":"a","__count__":"8"}]}` {
			t.Errorf("counts without their header: %s", r.body)
		}
	}
	l := newFleet(t, false, nil, says(`{"data":[{"job":"a"},{"job":"a"},{"job":"b"}]}`))
	if r := l.get("&count_by=job&limit=1"); r.body != `{"data":[{"job":"a","__count__":"8"}],"warnings":["cut to the limit of 1"]}` {
		t.Errorf("got %s", r.body)
	}
}

func TestLimit(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(100))
	r := l.get("&limit=7")
	if n := len(r.series(t)); n != 7 || !strings.HasSuffix(r.body, `"warnings":["cut to the limit of 7"]}`) {
		t.Errorf("%d series: %s", n, r.body)
	}
	if r := l.get("&limit=400"); len(r.series(t)) != 400 || strings.Contains(r.body, "warnings") {
		t.Errorf("got %s", r.body[len(r.body)-100:])
	}
}

// TestBudgets expects a response over a limit to fail with an error that contains advice.
func TestBudgets(t *testing.T) {
	l := newFleet(t, false, func(o *Options) { o.ResponseBytes = 1000 }, hasSeries(10))
	r := l.get("")
	if got := r.errorText(t); r.code != http.StatusRequestEntityTooLarge || !strings.Contains(got, "response need more than the 1000 bytes allowed: ask with a narrower selector, with limit=") {
		t.Errorf("status %d: %s", r.code, got)
	}
	l = newFleet(t, true, func(o *Options) { o.MergeBytes = 100 }, hasSeries(1000), hasSeries(10))
	r = l.get("")
	if got := r.errorText(t); r.code != http.StatusRequestEntityTooLarge || !strings.Contains(got, "option merge-bytes") {
		t.Errorf("status %d: %s", r.code, got)
	}
}

// TestReplicas expects a failing shard to be retried on another replica, once.
func TestReplicas(t *testing.T) {
	for name, bad := range map[string]shardResponse{
		"a status":    fails(500, "text/plain", "boom"),
		"unavailable": fails(503, "application/json", `{"status":"error","error":"starting"}`),
		"a page":      fails(200, "text/html", "<html>"),
		"no JSON":     says("oops"),
		"truncated":   says(`{"data":[`),
		"an error":    says(`{"status":"error","error":"boom"}`),
		"hung up":     func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newFleet(t, false, nil, bad, hasSeries(2))
			for range 2 { // regardless of which replica is first
				if diff := cmp.Diff(wantSeries(t, 4, 2), l.get("").series(t)); diff != "" {
					t.Errorf("series (-want +got):\n%s", diff)
				}
			}
			if n := len(l.takeAsked()); n != 12 {
				t.Errorf("%d requests, want 4 and 2 again, twice", n)
			}
			// All replicas fail: each shard was requested at most twice.
			l = newFleet(t, false, func(o *Options) { o.Shards = 1 }, bad, bad, bad)
			if r := l.get(""); r.code < 500 {
				t.Errorf("status %d", r.code)
			}
			if n := len(l.takeAsked()); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// TestHistograms expects metrics to be summed by name.
func TestHistograms(t *testing.T) {
	const path = "/prometheus/api/v1/cardinality/active_native_histogram_metrics?selector=up"
	l := newFleet(t, false, func(o *Options) { o.Shards = 2 },
		onlyShard("1_of_2",
			says(`{"data":[{"metric":"b","series_count":2,"bucket_count":6,"avg_bucket_count":3,"min_bucket_count":2,"max_bucket_count":4}]}`),
			says(`{"data":[{"metric":"b","series_count":1,"bucket_count":6,"avg_bucket_count":6,"min_bucket_count":6,"max_bucket_count":6},{"metric":"a","series_count":1,"bucket_count":1,"avg_bucket_count":1,"min_bucket_count":1,"max_bucket_count":1}]}`)))
	want := `{"data":[{"metric":"a","series_count":1,"bucket_count":1,"avg_bucket_count":1,"min_bucket_count":1,"max_bucket_count":1},{"metric":"b","series_count":3,"bucket_count":12,"avg_bucket_count":4,"min_bucket_count":2,"max_bucket_count":6}]}`
	if r := l.ask(http.MethodGet, path, nil); r.code != 200 || r.body != want {
		t.Errorf("got %d %s\nwant %s", r.code, r.body, want)
	}
	r := l.ask(http.MethodGet, path, nil, "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(z); err != nil || string(body) != want {
		t.Errorf("got %s, %v", body, err)
	}
	if r := l.ask(http.MethodGet, path+"&limit=1", nil); r.code != http.StatusBadRequest {
		t.Errorf("limit has status %d", r.code)
	}
	for body, want := range map[string]string{
		`{"data":[`:                  "unexpected EOF",
		`{"data":[]`:                 "unexpected EOF",
		`{"data":[]} x`:              "bytes after the end",
		`{"data":[],"data":[]}`:      `a second "data"`,
		`{}`:                         `no "data"`,
		`{"data":[{}]}`:              "a metric without a name",
		`{"data":{}}`:                "neither an array nor null",
		`{"data":[],"error":"boom"}`: "reported: boom",
		`[]`:                         "want { at byte",
		`{"data":[{"metric":"a","series_count":-1}]}`: "not a list of metrics",
	} {
		l := newFleet(t, false, func(o *Options) { o.Shards = 1 }, says(body))
		r := l.ask(http.MethodGet, path, nil)
		if got := r.errorText(t); r.code != http.StatusBadGateway || !strings.Contains(got, want) || !strings.Contains(got, "shard 1_of_1") {
			t.Errorf("%s: status %d: %s; want %q", body, r.code, got, want)
		}
	}
	l = newFleet(t, false, func(o *Options) { o.Shards, o.MergeBytes = 1, 130 }, says(`{"data":[{"metric":"aa"},{"metric":"b"}]}`))
	if r := l.ask(http.MethodGet, path, nil); r.code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", r.code, r.body)
	}
	l = newFleet(t, false, nil, says(`{"data":null}`))
	if r := l.ask(http.MethodGet, path, nil); r.body != `{"data":[]}` {
		t.Errorf("got %s", r.body)
	}
}

// TestReady expects readiness with one reachable replica, or with all members reachable.
func TestReady(t *testing.T) {
	l := newFleet(t, false, nil, hasSeries(1))
	dead := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	alive := l.frontend.options.Downstreams[0]
	for _, c := range []struct {
		downstreams, members []*url.URL
		ready                bool
	}{
		{[]*url.URL{dead, alive}, nil, true},
		{[]*url.URL{dead}, nil, false},
		{nil, []*url.URL{alive}, true},
		{nil, []*url.URL{alive, dead}, false},
	} {
		o := testOptions()
		o.Downstreams, o.Members = c.downstreams, c.members
		f, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Ready(context.Background()); (err == nil) != c.ready {
			t.Errorf("%v %v: %v", c.downstreams, c.members, err)
		}
		f.Close()
	}
}

// TestRead expects Read and WriteTo of a merged response to return the same.
func TestRead(t *testing.T) {
	f, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []string{"", "x-snappy-framed", "gzip", "zstd"} {
		responses := func() []*http.Response {
			var list []*http.Response
			for _, body := range testactive.Bodies(3, 2000) {
				list = append(list, &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(body))})
			}
			return list
		}
		x := &exchange{f: f}
		resp := x.mergeResponses(t.Context(), responses(), encoding)
		text, err := io.ReadAll(struct{ io.Reader }{resp.Body})
		if err != nil || resp.Header.Get("Content-Encoding") != encoding {
			t.Fatal(encoding, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		plain, release, err := f.compressors.reader(Encoding(encoding), bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(plain)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if n := len(seriesOf(t, body)); n != 6000 || !json.Valid(body) {
			t.Errorf("%q: %d series", encoding, n)
		}
	}
}
