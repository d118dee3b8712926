package frontend

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/panics/report"
)

// panicking is a transport with a bug.
type panicking struct {
	next   http.RoundTripper
	broken *atomic.Bool
}

func (p panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.broken.Load() {
		panic("BUG: in a transport")
	}
	return p.next.RoundTrip(r)
}

// TestPanicFailsOneRequest lets a goroutine that requests a shard panic: only its request fails, the panic is
// logged with its stack, and the slot of the request is freed.
func TestPanicFailsOneRequest(t *testing.T) {
	var log strings.Builder
	reporter := report.New(slog.New(slog.NewTextHandler(&log, nil)))
	var broken atomic.Bool
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	l := newFleet(t, false, func(o *Options) {
		o.MaxRequests, o.Transport = 1, panicking{transport, &broken}
	}, hasSeries(3))
	h := reporter.Handler(l.frontend)
	get := func(fails bool) *httptest.ResponseRecorder {
		broken.Store(fails)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cardinality/active_series?selector=up", nil))
		return w
	}
	for range 2 {
		if w := get(true); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "transport") {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	if w := get(false); w.Code != http.StatusOK {
		t.Errorf("the next request: %d %q", w.Code, w.Body)
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 2 || !strings.Contains(text, "in a transport") || !strings.Contains(text, "RoundTrip") {
		t.Errorf("log: %s", text)
	}
}
