package promapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/store/promapi"
)

// TestStorageWarningFirst evaluates a query with a warning for each of its 20 steps. The storage's warning is named,
// before the first of them.
func TestStorageWarningFirst(t *testing.T) {
	list := storage.NewListSeries(labels.FromStrings("__name__", "up"), []chunks.Sample{sample{t: 1000, f: 3}})
	api := mustNew(t, promapi.Options{Queryable: script{set: warned{newSet(list), "incomplete result: block 01B is missing"}}})
	w := get(api, "query_range?query=quantile_over_time(time()%2B2,up%5B10m%5D+%40+1)&start=1&end=20&step=1")
	var response struct{ Warnings []string }
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	got := response.Warnings
	const more = "10 more warning annotations omitted"
	if len(got) != 12 || got[0] != "incomplete result: block 01B is missing" || got[11] != more || !slices.IsSorted(got[1:11]) {
		t.Errorf("got the warnings %q, want the storage's, 10 of the engine, and %q", got, more)
	}
}
