package storegateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// TestUnreachableBucket queries two APIs of a gateway whose syncs fail: that of the bucket alone is unavailable with
// the cause, that of a queryable with samples of its own responds, with a warning.
func TestUnreachableBucket(t *testing.T) {
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	bucket.Fail(testbucket.FailRule{Times: -1, How: testbucket.FailDenied})
	g := teststore.New(t, teststore.Options(t, bucket))
	o := storegateway.HTTPOptions{Log: slog.New(slog.DiscardHandler), Panics: report.New(slog.New(slog.DiscardHandler))}
	query := func(o storegateway.HTTPOptions) testpromql.Response {
		t.Helper()
		h, err := storegateway.NewHTTPAPI(g, o)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		defer server.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/query?query=up", nil)
		if err != nil {
			t.Fatal(err)
		}
		return testpromql.Exchange(http.DefaultClient, r)
	}
	both := o
	both.Queryable = g.Queryable(noTenant)
	if got := query(both); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body, "under way") {
		t.Errorf("before the first sync: %s", got)
	}
	if g.Sync(t.Context()) == nil {
		t.Fatal("a sync of a denied bucket succeeded")
	}
	if got := query(o); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body, "403 access denied") {
		t.Errorf("the bucket alone: %s", got)
	}
	if got := query(both); got.Code != http.StatusOK || !strings.Contains(got.Body, `"warnings":["incomplete result: the blocks of the bucket are not known yet: syncs have failed since `) {
		t.Errorf("with samples of its own: %s", got)
	}
}
