package promapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/store/promapi"
)

// exemplars is a storage of exemplars.
type exemplars struct {
	openErr, err error
	found        []exemplar.QueryResult
	from, to     int64
	selectors    int
}

func (e *exemplars) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	if e.openErr != nil {
		return nil, e.openErr
	}
	return e, nil
}

func (e *exemplars) Select(from, to int64, ms ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	e.from, e.to, e.selectors = from, to, len(ms)
	return e.found, e.err
}

// TestExemplars responds with the exemplars of the series that an expression selects, and with the storage's errors.
func TestExemplars(t *testing.T) {
	e := &exemplars{found: []exemplar.QueryResult{
		{SeriesLabels: labels.FromStrings("a", "b"), Exemplars: []exemplar.Exemplar{
			{Labels: labels.FromStrings("trace_id", "1"), Value: 1.5, Ts: 2500}, {Value: 2, Ts: 3000},
		}},
		{SeriesLabels: labels.FromStrings("a", "c")},
	}}
	const all = `{"status":"success","data":[{"seriesLabels":{"a":"b"},"exemplars":[{"labels":{"trace_id":"1"},"value":"1.5","timestamp":2.500},{"labels":{},"value":"2","timestamp":3}]},{"seriesLabels":{"a":"c"},"exemplars":[]}]}`
	var seen *promapi.Observation
	api := mustNew(t, promapi.Options{Queryable: script{}, ExemplarQueryable: e, Observe: func(_ context.Context, _ *http.Request, o *promapi.Observation) { seen = o }})
	for _, c := range []struct {
		query        string
		openErr, err error
		code         int
		want         string
	}{
		{"query=up&start=1&end=5", nil, nil, 200, all},
		{"query=" + url.QueryEscape("rate(a[5m]) / b") + "&start=5&end=5", nil, nil, 200, all},
		{"query=up&start=5&end=4", nil, nil, 400, "end timestamp must not be before start timestamp"},
		{"query=up&start=x&end=4", nil, nil, 400, "start"},
		{"query=" + url.QueryEscape("up{") + "&start=1&end=5", nil, nil, 400, "unexpected"},
		{"query=1&start=1&end=5", nil, nil, 204, ""},
		{"query=up&start=1&end=5", errors.New("not open"), nil, 422, "not open"},
		{"query=up&start=1&end=5", nil, errors.New("damaged"), 422, "damaged"},
	} {
		e.openErr, e.err, e.selectors = c.openErr, c.err, 0
		w := get(api, "query_exemplars?"+c.query)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || c.code == 200 && (w.Body.String() != c.want || seen.Series != 2 || seen.Samples != 2) {
			t.Errorf("%s: %d %s, want %d %s", c.query, w.Code, w.Body, c.code, c.want)
		}
		if c.code == 200 && (e.to != 5000 || e.selectors == 0) {
			t.Errorf("%s: up to %d, %d selectors", c.query, e.to, e.selectors)
		}
	}
	without := get(mustNew(t, promapi.Options{Queryable: script{}}), "query_exemplars?query=up&start=1&end=5")
	if without.Code != http.StatusOK || without.Body.String() != `{"status":"success","data":[]}` {
		t.Errorf("without exemplars: %d %s", without.Code, without.Body)
	}
}

// TestEndpoints lists each endpoint once, sorted, with its method.
func TestEndpoints(t *testing.T) {
	all := mustNew(t, promapi.Options{Queryable: script{}, Prefix: "/p/v1"}).Endpoints()
	keys := make([]string, len(all))
	for i, e := range all {
		keys[i] = e.Path + e.Method
	}
	if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) || !slices.Contains(keys, "/p/v1/queryGET") || !slices.Contains(keys, "/p/v1/queryPOST") ||
		!slices.Contains(keys, "/p/v1/label/{name}/valuesGET") || !slices.Contains(keys, "/p/v1/readPOST") || slices.Contains(keys, "/p/v1/readGET") {
		t.Errorf("endpoints %q", keys)
	}
}

// TestRuntimeInfo has what the hook adds, and the clock of the options.
func TestRuntimeInfo(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	api := mustNew(t, promapi.Options{Queryable: script{}, Now: func() time.Time { return now }, Runtime: func(i *promapi.RuntimeInfo) { i.StorageRetention = "15d" }})
	if body := get(api, "status/runtimeinfo").Body.String(); !strings.Contains(body, `"storageRetention":"15d"`) || !strings.Contains(body, `"serverTime":"2026-03-01T00:00:00Z"`) || !strings.Contains(body, `"reloadConfigSuccess":true`) {
		t.Error(body)
	}
	if body := get(mustNew(t, promapi.Options{Queryable: script{}}), "status/runtimeinfo").Body.String(); !strings.Contains(body, `"storageRetention":""`) {
		t.Error(body)
	}
}

// A closedStorage cannot be queried.
type closedStorage struct{}

var errClosedStorage = errors.New("the storage is closed")

func (closedStorage) Querier(int64, int64) (storage.Querier, error) { return nil, errClosedStorage }
func (closedStorage) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	return nil, errClosedStorage
}

// TestClosedStorage has each request that reads the storage fail with its error.
func TestClosedStorage(t *testing.T) {
	o := promapi.Options{Queryable: closedStorage{}, ChunkQueryable: closedStorage{}}
	api := mustNew(t, o)
	for _, target := range []string{"query?query=up", "query_range?query=up&start=1&end=2&step=1", "labels", "label/a/values", "series?match%5B%5D=up"} {
		if w := get(api, target); w.Code < 400 || !strings.Contains(w.Body.String(), errClosedStorage.Error()) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for _, accepts := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/read", readBody(t, accepts))
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code < 400 || !strings.Contains(w.Body.String(), errClosedStorage.Error()) {
			t.Errorf("read %v: %d %s", accepts, w.Code, w.Body)
		}
	}
	for query, want := range map[string]string{"up{": "unexpected", "": "no expression", "up": "success"} {
		for _, target := range []string{"parse_query?query=", "format_query?query="} {
			if w := get(api, target+url.QueryEscape(query)); !strings.Contains(w.Body.String(), want) || (w.Code == http.StatusOK) != (query == "up") {
				t.Errorf("%s%s: %d %s, want %s", target, query, w.Code, w.Body, want)
			}
		}
	}
}
