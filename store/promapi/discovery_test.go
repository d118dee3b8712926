package promapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/storage"
)

// TestDiscovery responds as a Prometheus without targets and rules, and refuses each wrong parameter with its name.
func TestDiscovery(t *testing.T) {
	none := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })
	api, err := New(Options{Queryable: none, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, query string
		want        string // part of the response
		code        int
	}{
		{"rules", "", `{"groups":[]}`, 200},
		{"rules", "type=alert", `{"groups":[]}`, 200},
		{"rules", "type=RECORD", `{"groups":[]}`, 200},
		{"rules", "type=x", `type`, 400},
		{"rules", "match[]=up", `{"groups":[]}`, 200},
		{"rules", "match[]={", `parse error`, 400},
		{"rules", "exclude_alerts=true", `{"groups":[]}`, 200},
		{"rules", "exclude_alerts=x", `exclude_alerts`, 400},
		{"rules", "group_limit=1", `{"groups":[]}`, 200},
		{"rules", "group_limit=0", `group_limit needs to be greater than 0`, 400},
		{"rules", "group_limit=-1", `group_limit needs to be greater than 0`, 400},
		{"rules", "group_limit=x", `valid number`, 400},
		{"rules", "group_limit=2147483648", `valid number`, 400},
		{"rules", "group_next_token=x", `group_limit needs to be present`, 400},
		{"rules", "group_limit=1&group_next_token=x", `invalid group_next_token 'x'`, 400},
		{"alerts", "", `{"alerts":[]}`, 200},
		{"metadata", "", `"data":{}`, 200},
		{"metadata", "limit=1&limit_per_metric=2", `"data":{}`, 200},
		{"metadata", "limit=x", `limit must be a number`, 400},
		{"metadata", "limit_per_metric=x", `limit_per_metric must be a number`, 400},
		{"targets", "", `"droppedTargetCounts":{}`, 200},
		{"targets", "state=ANY", `"droppedTargetCounts":{}`, 200},
		{"targets", "state=dropped", `"droppedTargetCounts":{}`, 200},
		{"targets", "state=active", `"droppedTargetCounts":null`, 200},
		{"targets/metadata", "", `"data":[]`, 200},
		{"targets/metadata", "limit=1", `"data":[]`, 200},
		{"targets/metadata", "limit=x", `limit must be a number`, 400},
		{"targets/metadata", "match_target={job=\"x\"}", `"data":[]`, 200},
		{"targets/metadata", "match_target={", `match_target`, 400},
	} {
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+c.path+"?"+values.Encode(), nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s?%s: %d %s, want %d with %s", c.path, c.query, w.Code, w.Body, c.code, c.want)
		}
	}
}
