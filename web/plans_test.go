package web

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/web/memory"
)

// TestPlans requests the plan cache's page, with and without a number of plans.
func TestPlans(t *testing.T) {
	o := testOptions()
	o.Plans = func(n int) memory.Plans { return memory.Plans{Entries: n} }
	h := New(o).Handler()
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/api/v1/plans", 200, `"entries":20,`},
		{"/api/v1/plans?limit=0", 200, `"entries":0,`},
		{"/api/v1/plans?limit=1000", 200, `"entries":1000,`},
		{"/api/v1/plans?limit=1001", 400, `limit is "1001": want a number from 0 to 1000`},
		{"/api/v1/plans?limit=-1", 400, "want a number"},
		{"/api/v1/plans?limit=all", 400, "want a number"},
		{"/api/v1/plans?limits=1", 400, `unknown parameter "limits": want limit`},
		{"/api/v1/plans?limit=1&limit=2", 400, "limit is given 2 times"},
		{"/", 200, `href="/api/v1/plans"`},
	} {
		if code, body, _ := request(t, h, "GET", c.path); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %q, want %d with %q", c.path, code, body, c.code, c.body)
		}
	}
	o.Plans = nil
	h = New(o).Handler()
	if code, _, _ := request(t, h, "GET", "/api/v1/plans"); code != 404 {
		t.Errorf("without plans: %d, want 404", code)
	}
	if _, body, _ := request(t, h, "GET", "/"); strings.Contains(body, "plans") {
		t.Error("the front page has a link to plans that there are not")
	}
}
