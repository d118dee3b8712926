package frontend_test

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/fleet/frontend"
)

// A frontend splits a request into shards, requests each from a downstream, and merges the responses.
func Example() {
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data":[{"__name__":"up","job":"api"}]}`)
	}))
	defer downstream.Close()
	u, err := url.Parse(downstream.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := frontend.New(frontend.Options{
		Downstreams: []*url.URL{u}, Shards: 2, MaxShards: 128, MergeBytes: 64 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	mux := http.NewServeMux()
	for _, pattern := range frontend.Patterns() {
		mux.Handle(pattern, f)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/active_series?selector=up", nil))
	body, _ := io.ReadAll(w.Body)
	fmt.Println(w.Code, string(body))
	// Output: 200 {"data":[{"__name__":"up","job":"api"},{"__name__":"up","job":"api"}]}
}

// A process serves the series that it knows itself.
func ExampleNewLocal() {
	f, err := frontend.NewLocal(known{labels.FromStrings("__name__", "up", "job", "api"), labels.FromStrings("__name__", "down")},
		frontend.Options{MaxShards: 128, MergeBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/active_series?selector=up", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 {"data":[{"__name__":"up","job":"api"}]}
}

// known is the list of a process's series.
type known []labels.Labels

// ActiveSeries implements frontend.Local.
func (k known) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		for _, ls := range k {
			if keep(ls) && !yield(ls) {
				return
			}
		}
	}
}

func ExamplePatterns() {
	for _, p := range frontend.Patterns()[:2] {
		fmt.Println(p)
	}
	// Output:
	// GET /api/v1/cardinality/active_series
	// POST /api/v1/cardinality/active_series
}
