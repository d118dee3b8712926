package promapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/taredb/tare/store/promapi"
)

// TestRestrict sends every request that could reveal a series for a client that may not see it.
func TestRestrict(t *testing.T) {
	db := promqltest.LoadedStorage(t, `load 1m
  info{digest="a",text="the secret"} 1
  calls{digest="a"} 5`)
	t.Cleanup(func() { _ = db.Close() })
	type guest struct{}
	api, err := promapi.New(promapi.Options{
		Queryable: db,
		Restrict: func(ctx context.Context) []*labels.Matcher {
			if ctx.Value(guest{}) == nil {
				return nil
			}
			return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "text", "")}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, told := range map[string]string{
		"query?time=0&query=" + url.QueryEscape(`info`):                                       "the secret",
		"query?time=0&query=" + url.QueryEscape(`label_replace(info,"x","$1","text","(.*)")`): "the secret",
		"query?time=0&query=" + url.QueryEscape(`count(info{text=~"the.*"})`):                 `"1"`,
		"query?time=0&query=" + url.QueryEscape(`calls * on (digest) group_left (text) info`): "the secret",
		"query_range?start=0&end=60&step=60&query=" + url.QueryEscape(`{__name__=~".+"}`):     "the secret",
		"series?start=0&end=60&match[]=" + url.QueryEscape(`{digest="a"}`):                    "the secret",
		"labels?start=0&end=60":                              `"text"`,
		"label/text/values?start=0&end=60":                   "the secret",
		"label/__name__/values?start=0&end=60":               `"info"`,
		"label/text/values?start=0&end=60&match[]=" + "info": "the secret",
	} {
		ask := func(ctx context.Context) string {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/"+path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			return w.Body.String()
		}
		if got := ask(t.Context()); !strings.Contains(got, told) {
			t.Errorf("%s: %s, want %s", path, got, told)
		}
		if got := ask(context.WithValue(t.Context(), guest{}, true)); strings.Contains(got, told) || strings.Contains(got, "secret") {
			t.Errorf("%s tells a guest %s", path, got)
		}
	}
}
