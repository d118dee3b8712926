package promapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDeviations lists each request to which package promapi responds differently than Prometheus, with both
// responses. It also fails if the two agree: then the entry is removed.
func TestDeviations(t *testing.T) {
	p := newPair(t, 50_000_000)
	for _, c := range []struct {
		why, method, target, body string
		theirs, ours              string // status and error type
	}{
		{
			"a parameter that does not read is refused, not left out",
			"GET", "/api/v1/query?query=temperature&time=%zz", "", "200 ", "400 bad_data",
		},
		{
			"a time must fit in milliseconds",
			"GET", "/api/v1/query?query=temperature&time=NaN", "", "200 ", "400 bad_data",
		},
		{
			"a duration must be a number",
			"GET", "/api/v1/query?query=temperature&time=5&lookback_delta=NaN", "", "200 ", "400 bad_data",
		},
		{
			"what is not there is said in JSON",
			"GET", "/api/v1/nowhere", "", "404 ", "404 not_found",
		},
		{
			"and so is what cannot be asked that way",
			"POST", "/api/v1/alerts", "", "405 ", "405 bad_data",
		},
		{
			"a client that left is no failed query",
			"GET", "/api/v1/labels?match%5B%5D=canceled", "", "422 execution", "499 canceled",
		},
		{
			"a storage's own errors have one class on all endpoints",
			"GET", "/api/v1/label/job/values?match%5B%5D=broken", "", "422 execution", "500 internal",
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			for _, h := range []struct {
				name    string
				handler http.Handler
				want    string
			}{{"Prometheus", p.theirs, c.theirs}, {"ours", p.ours, c.ours}} {
				r := httptest.NewRequest(c.method, "http://prometheus"+c.target, strings.NewReader(c.body))
				a := ask(h.handler, r)
				typ := errorType(a.Body)
				if typ == "no JSON" {
					typ = ""
				}
				if got := fmt.Sprintf("%d %s", a.Code, typ); got != h.want {
					t.Errorf("%s: got %s, want %s: %s", h.name, got, h.want, a.Body)
				}
			}
		})
	}
}
