package promapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/taredb/tare/promapi"
)

// TestAttempts runs queries that need more samples than their first attempts allow: they are retried with
// more, and fail at MaxSamples.
func TestAttempts(t *testing.T) {
	storage := promqltest.LoadedStorage(t, "load 10s\n  a{n=\"1\"} 0+1x200\n  a{n=\"2\"} 0+1x200\n")
	defer storage.Close()
	var admitted []int
	api, err := promapi.New(promapi.Options{
		Queryable: storage, MaxSamples: 1600,
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
