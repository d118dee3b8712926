package history_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// TestLightRequests lets heavy queries reserve all bytes of the history's queries: labels, series, metadata
// and expressions without series are served, while a query that reads samples waits.
func TestLightRequests(t *testing.T) {
	const perQuery, light = 16 << 20, 4 << 20
	gate := slab.NewGate(slab.GateOptions{Bytes: 2*perQuery + light, PerQuery: perQuery, Light: light})
	r := newRigOf(t, t.TempDir(), t.TempDir(), func(o *storegateway.Options) {
		teststore.ForHistory(o)
		o.Gate = gate
	})
	if err := r.gateway.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	archive, err := history.OpenArchive(r.options(newModel()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = archive.Close() })
	api, err := storegateway.NewHTTPAPI(r.gateway, storegateway.HTTPOptions{Queryable: archive.Queryable(), Now: archive.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	var heavy []*storegateway.Query
	for range 2 {
		q, err := r.gateway.Admit(t.Context(), storegateway.Admission{})
		if err != nil {
			t.Fatal(err)
		}
		heavy = append(heavy, q)
	}
	get := func(path string) (int, string) {
		response, err := s.Client().Get(s.URL + "/api/v1/" + path)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return response.StatusCode, string(body)
	}
	selector := url.QueryEscape(`{__name__=~".+"}`)
	for _, path := range []string{
		"labels", "labels?match[]=" + selector, "label/digest/values", "metadata", "series?match[]=" + selector,
		"query?query=" + url.QueryEscape("1+scalar(vector(2))"), "query_range?start=1&end=100&step=1&query=time()",
	} {
		if code, body := get(path); code != http.StatusOK {
			t.Errorf("%s beside heavy queries: %d %s", path, code, body)
		}
	}
	code := make(chan int, 1)
	go func() {
		n, _ := get("query?query=" + selector)
		code <- n
	}()
	testwait.Until(t, "a query with samples to wait", func() bool { return gate.Stats().Waiting == 1 })
	for _, q := range heavy {
		q.Close()
	}
	if n := testwait.Receive(t, "the query with samples", code); n != http.StatusOK {
		t.Errorf("the query with samples: %d", n)
	}
}
