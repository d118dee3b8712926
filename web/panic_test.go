package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPanicOfAnEventSource expects a panic of a source of events to fail the page, not the process.
func TestPanicOfAnEventSource(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"readiness": func(o *Options) { o.Ready = func(context.Context) error { panic("BUG: secret detail") } },
		"copies":    func(o *Options) { o.Copies = func(context.Context) Copies { panic("BUG: secret detail") } },
		"events":    func(o *Options) { o.Events = func() []Event { panic("BUG: secret detail") } },
	} {
		o := testOptions()
		change(&o)
		w := httptest.NewRecorder()
		New(o).http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
	}
}
