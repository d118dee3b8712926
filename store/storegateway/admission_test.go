package storegateway_test

import (
	"net/http"
	"net/url"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// admissionStore returns a store with bytes for one whole query and the given bytes for light ones.
func admissionStore(t *testing.T, light int64) *storegateway.Gateway {
	t.Helper()
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	return teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 32<<20 + light, PerQuery: 32 << 20, Light: light})
	})
}

// TestLightQueries runs a query that takes all bytes of the process except those of light queries: labels,
// series, metadata and expressions without series are served, and a query that reads samples waits.
func TestLightQueries(t *testing.T) {
	g := admissionStore(t, 32<<20)
	base := newHTTPServer(t, g, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	heavy, err := g.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	selector := url.QueryEscape(`{job=~".+"}`)
	for _, path := range []string{
		"labels", "labels?match[]=" + selector, "label/job/values", "metadata", "series?match[]=" + selector,
		"query?query=" + url.QueryEscape("1+scalar(vector(2))"), "query_range?start=1&end=100&step=1&query=time()",
	} {
		if code, respond := getJSON(t, base+"/api/v1/"+path, ""); code != http.StatusOK {
			t.Errorf("%s beside a heavy query: %d %v", path, code, respond)
		}
	}
	if r, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{End: 1 << 60}); err != nil || len(r.GetNames()) == 0 {
		t.Errorf("LabelNames beside a heavy query: %v, %v", r, err)
	}
	querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	if values, _, err := querier.LabelValues(t.Context(), "job", nil); err != nil || len(values) == 0 {
		t.Errorf("values of a querier without a query beside a heavy one: %q, %v", values, err)
	}
	if err := querier.Close(); err != nil {
		t.Error(err)
	}
	r := teststore.Everything()
	r.SkipChunks = true
	if series, _, err := teststore.Receive(client.Series(t.Context(), r)); err != nil || len(series) == 0 {
		t.Errorf("Series without chunks beside a heavy query: %d, %v", len(series), err)
	}
	code := make(chan int, 1)
	go func() {
		r, err := http.Get(base + "/api/v1/query?time=1700003000&query=" + selector)
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		code <- r.StatusCode
		r.Body.Close()
	}()
	testwait.Until(t, "a query with samples to wait", func() bool { return g.Gate().Stats().Waiting == 1 })
	heavy.Close()
	if c := testwait.Receive(t, "the query with samples", code); c != http.StatusOK {
		t.Errorf("the query with samples: %d", c)
	}
	teststore.WaitForIdle(t, g)
}

// TestAdmittedAgain runs requests that lack bytes to grow: they release their bytes, wait for all bytes of a
// query, and succeed when another query finishes.
func TestAdmittedAgain(t *testing.T) {
	g := admissionStore(t, 8) // one byte per light query
	base := newHTTPServer(t, g, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	requests := map[string]func() error{
		"HTTP": func() error {
			r, err := http.Get(base + "/api/v1/series?match[]=" + url.QueryEscape(`{job=~".+"}`))
			if err != nil {
				return err
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				return status.Error(codes.Internal, r.Status)
			}
			return nil
		},
		"LabelNames": func() error {
			_, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{End: 1 << 60})
			return err
		},
		"Series": func() error {
			r := teststore.Everything()
			r.SkipChunks = true
			_, _, err := teststore.Receive(client.Series(t.Context(), r))
			return err
		},
	}
	for name, request := range requests {
		heavy, err := g.Admit(t.Context(), storegateway.Admission{})
		if err != nil {
			t.Fatal(err)
		}
		short := g.Gate().Stats().Short
		done := make(chan error, 1)
		go func() { done <- request() }()
		n := testwait.Value(t, name+" to wait for all bytes", g.Gate().Stats, func(s slab.GateStats) bool { return s.Waiting == 1 })
		if n.Short == short || n.Running != 1 || n.Held != 0 {
			t.Errorf("%s waits and holds bytes: %+v", name, n)
		}
		heavy.Close()
		if err := testwait.Receive(t, name, done); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		teststore.WaitForIdle(t, g)
	}
}
