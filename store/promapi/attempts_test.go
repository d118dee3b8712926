package promapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/store/promapi"
)

// TestAttempts runs queries that need more samples than their first attempts allow: they are retried with
// more, and fail at MaxSamples.
func TestAttempts(t *testing.T) {
	db := promqltest.LoadedStorage(t, "load 10s\n  a{n=\"1\"} 0+1x200\n  a{n=\"2\"} 0+1x200\n")
	defer db.Close()
	var admitted []int
	api, err := promapi.New(promapi.Options{
		Queryable: db, MaxSamples: 1600,
		Admit: func(ctx context.Context, _ *http.Request) (context.Context, func(), error) {
			n := promapi.Attempt(ctx)
			if (promapi.Failed(ctx) != nil) != (n > 0) {
				t.Errorf("attempt %d after the error %v", n, promapi.Failed(ctx))
			}
			admitted = append(admitted, promapi.MaxSamples(1600, n))
			return ctx, nil, nil
		},
		Retry: func(context.Context, error) promapi.RetryMode { return promapi.NoRetry },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		steps  string // of two series
		status int
		want   []int
	}{
		{"end=400", 200, []int{100}},                    // 41 steps
		{"end=1000", 200, []int{100, 400}},              // 101
		{"end=1990", 200, []int{100, 400}},              // 200
		{"end=1990&step=2", 422, []int{100, 400, 1600}}, // 996
		{"end=1990&step=4", 200, []int{100, 400, 1600}}, // 498
	} {
		admitted = nil
		if !strings.Contains(c.steps, "step=") {
			c.steps += "&step=10"
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query_range?query=a&start=0&"+c.steps, nil))
		if w.Code != c.status || len(admitted) != len(c.want) {
			t.Errorf("%s: %d %.200s, attempts with %v samples, want %d and %v", c.steps, w.Code, w.Body, admitted, c.status, c.want)
			continue
		}
		for i, n := range c.want {
			if admitted[i] != n {
				t.Errorf("%s: attempts with %v samples, want %v", c.steps, admitted, c.want)
			}
		}
	}
}

// TestMatchedSeries exceeds MaxSamples with queries of known selectors: the error names the limit, the series that a client
// may see, and their samples with one per step.
func TestMatchedSeries(t *testing.T) {
	db := promqltest.LoadedStorage(t, "load 10s\n  a{n=\"1\"} 0+1x200\n  a{n=\"2\"} 0+1x200\n  b{n=\"1\"} 0+1x200\n  b{n=\"2\"} 0+1x200\n  b{n=\"hidden\"} 0+1x200\n")
	defer db.Close()
	var fails bool
	api, err := promapi.New(promapi.Options{
		Queryable: storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
			q, err := db.Querier(mint, maxt)
			return countless{q, &fails}, err
		}),
		MaxSamples: 160, SamplesAdvice: "raise it",
		Retry: func(context.Context, error) promapi.RetryMode { return promapi.NoRetry },
		Restrict: func(context.Context) []*labels.Matcher {
			return []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "n", "hidden")}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		fails bool
		want  string
	}{
		{"query_range?start=0&end=1000&step=10&query=a", false, "more than 160 samples in its 101 steps; its selectors match 2 series, 202 samples with one per step: raise it"},
		{"query_range?start=0&end=1000&step=10&query=a", true, "more than 160 samples in its 101 steps: raise it"},
		{"query_range?start=0&end=1000&step=10&query=b", false, "more than 160 samples in its 101 steps; its selectors match 2 series, 202 samples with one per step: raise it"},
		{"query_range?start=0&end=1990&step=10&query=a%2Bon(n)b", false, "more than 160 samples in its 200 steps; its selectors match 4 series, 800 samples with one per step: raise it"},
		{"query?time=1990&query=b[20m]", false, "more than 160 samples; its selectors match 2 series: raise it"},
	} {
		fails = c.fails
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+c.query, nil))
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s, counting fails: %t: %d %s, want %s", c.query, c.fails, w.Code, w.Body, c.want)
		}
	}
}

// A countless querier refuses to read labels only if it fails.
type countless struct {
	storage.Querier
	fails *bool
}

func (q countless) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if *q.fails && hints.Func == "series" {
		return storage.ErrSeriesSet(errors.New("no labels"))
	}
	return q.Querier.Select(ctx, sorted, hints, ms...)
}
