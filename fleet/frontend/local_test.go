package frontend

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/fleet/activeseries"
)

// A localList is a list of known series.
type localList []labels.Labels

func (l localList) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		for _, ls := range l {
			if keep(ls) && !yield(ls) {
				return
			}
		}
	}
}

// someSeries returns the series of gateway g, including one that all gateways have.
func someSeries(g, n int) localList {
	list := localList{labels.FromStrings("__name__", "build_info", "version", "1\"\\\n\xff")}
	for i := range n {
		list = append(list, labels.FromStrings("__name__", "queries", "gateway", fmt.Sprint(g), "job", fmt.Sprintf("j%d", i%3), "n", fmt.Sprint(i)))
	}
	return list
}

// serveLocal starts an HTTP server of a frontend over the series of l.
func serveLocal(t *testing.T, l Local, change func(*Options)) string {
	t.Helper()
	o := Options{MaxShards: 128, MergeBytes: 1 << 20}
	if change != nil {
		change(&o)
	}
	f, err := NewLocal(l, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, p := range SeriesPatterns() {
		mux.Handle(p, f)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Close()
		f.Close()
	})
	return s.URL
}

// askLocal requests series, with headers in pairs.
func askLocal(t *testing.T, base string, form url.Values, headers ...string) (reply, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/prometheus/api/v1/cardinality/active_series", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(text), err}, text
}

// items returns the series in the API's format, sorted.
func (l localList) items() []string {
	var all []string
	for _, ls := range l {
		all = append(all, string(activeseries.AppendItem(nil, pairs(ls))))
	}
	slices.Sort(all)
	return all
}

// TestLocal requests a process's own series: all of them, all shards, a selection, a limited number,
// and counts.
func TestLocal(t *testing.T) {
	list := someSeries(1, 2000)
	base := serveLocal(t, list, nil)
	want := list.items()

	all, _ := askLocal(t, base, url.Values{"selector": {`{__name__=~".+"}`}})
	if got := all.series(t); !slices.Equal(got, want) {
		t.Errorf("%d series, want %d", len(got), len(want))
	}
	split, _ := askLocal(t, base, url.Values{"selector": {`{__name__=~".+"}`}}, shardingHeader, "7")
	if got := split.series(t); !slices.Equal(got, want) {
		t.Errorf("split by itself: %d series, want %d", len(got), len(want))
	}
	var together []string
	for i := range 5 {
		part, _ := askLocal(t, base, url.Values{"selector": {fmt.Sprintf(`{__name__=~".+",__query_shard__="%d_of_5"}`, i+1)}})
		items := part.series(t)
		if len(items) < 300 || len(items) > 500 {
			t.Errorf("shard %d has %d of %d series", i+1, len(items), len(want))
		}
		together = append(together, items...)
	}
	slices.Sort(together)
	if !slices.Equal(together, want) {
		t.Errorf("all shards: %d series, want %d", len(together), len(want))
	}
	one, _ := askLocal(t, base, url.Values{"selector": {`queries{n="17"}`}})
	if got := one.series(t); !slices.Equal(got, list[18:19].items()) {
		t.Errorf("one series: %v", got)
	}
	some, _ := askLocal(t, base, url.Values{"selector": {`queries`}, "limit": {"10"}})
	if got := some.series(t); len(got) != 10 || !strings.Contains(some.body, `"warnings":["cut to the limit of 10"]`) {
		t.Errorf("ten series: %d, %s", len(got), some.body)
	}
	counts, _ := askLocal(t, base, url.Values{"selector": {`queries`}, "count_by": {"job"}})
	if want := `{"data":[{"job":"j0","__count__":"667"},{"job":"j1","__count__":"667"},{"job":"j2","__count__":"666"}]}`; counts.body != want || counts.header.Get(countHeader) != "job" {
		t.Errorf("counts: %s %v, want %s", counts.body, counts.header, want)
	}
}

// TestLocalRefuses checks the errors of invalid requests for the process's own series.
func TestLocalRefuses(t *testing.T) {
	base := serveLocal(t, someSeries(1, 3), func(o *Options) { o.MaxShards = 4 })
	for selector, want := range map[string]string{
		`{__query_shard__="5_of_3",job="a"}`:  "there is no shard 5 of 3",
		`{__query_shard__=~"1_of_3",job="a"}`: "not an equality",
		`sum(queries)`:                        "an aggregation, sum",
	} {
		r, _ := askLocal(t, base, url.Values{"selector": {selector}})
		if r.code != http.StatusBadRequest || !strings.Contains(r.errorText(t), want) {
			t.Errorf("%s: %d %s, want 400 with %q", selector, r.code, r.body, want)
		}
	}
	if r, _ := askLocal(t, base, url.Values{"selector": {"queries"}}, shardingHeader, "5"); r.code != http.StatusBadRequest {
		t.Errorf("more shards than allowed: %d %s", r.code, r.body)
	}
	for _, o := range []Options{
		{MergeBytes: 1, Members: []*url.URL{{Scheme: "http", Host: "a"}}},
		{MergeBytes: 1, Transport: http.DefaultTransport},
		{},
	} {
		if _, err := NewLocal(localList{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	f, err := NewLocal(localList{}, Options{MergeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/active_native_histogram_metrics?selector=up", nil))
	if w.Code != http.StatusNotImplemented {
		t.Errorf("native histograms: %d %s", w.Code, w.Body)
	}
}

// TestFleetOfLocals runs a frontend over three processes: a series that all of them have is returned once,
// counts are added up, and no series is missing.
func TestFleetOfLocals(t *testing.T) {
	var members []*url.URL
	var all localList
	for g := range 3 {
		list := someSeries(g, 100)
		u, err := url.Parse(serveLocal(t, list, nil))
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, u)
		if g > 0 {
			list = list[1:]
		}
		all = append(all, list...)
	}
	o := testOptions()
	o.Downstreams, o.Members, o.Shards = nil, members, 4
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ask := func(query string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/active_series?"+query, nil))
		return w
	}
	w := ask("selector=" + url.QueryEscape(`{__name__!=""}`))
	if got, want := seriesOf(t, w.Body.Bytes()), all.items(); !slices.Equal(got, want) {
		t.Errorf("%d series, want %d", len(got), len(want))
	}
	w = ask("selector=queries&count_by=job")
	if want := `{"data":[{"job":"j0","__count__":"102"},{"job":"j1","__count__":"99"},{"job":"j2","__count__":"99"}]}`; w.Body.String() != want {
		t.Errorf("counts: %s, want %s", w.Body, want)
	}
}
