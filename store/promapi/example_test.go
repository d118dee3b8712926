package promapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/store/promapi"
)

// An API serves any storage, here one with a single series, and notifies an observer of each request.
func Example() {
	up := storage.NewListSeries(labels.FromStrings("__name__", "up", "job", "api"), []chunks.Sample{sample{t: 60_000, f: 1}})
	api, err := promapi.New(promapi.Options{
		Queryable: script{set: newSet(up)},
		Observe: func(_ context.Context, _ *http.Request, o *promapi.Observation) {
			fmt.Printf("%s %s: %d, %d series\n", o.Endpoint, o.Query, o.Status, o.Series)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/query?query=up&time=90", nil))
	fmt.Println(w.Body)
	// Output:
	// query up: 200, 1 series
	// {"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"api"},"value":[90,"1"]}]}}
}
