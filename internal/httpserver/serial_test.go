package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestOneAtATime sends requests while one is served: they wait, and one whose client has left is not served.
func TestOneAtATime(t *testing.T) {
	var within, served atomic.Int32
	entered, leave := make(chan struct{}), make(chan struct{})
	h := OneAtATime(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if within.Add(1) != 1 {
			t.Error("two requests at a time")
		}
		served.Add(1)
		entered <- struct{}{}
		<-leave
		within.Add(-1)
		w.Header().Set("X-Kept", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("text")) // to memory
	}))
	responses := make(chan *httptest.ResponseRecorder, 3)
	send := func(ctx context.Context) {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
			responses <- w
		}()
	}
	send(t.Context())
	testwait.Receive(t, "the first request", entered)
	left, leaves := context.WithCancel(t.Context())
	send(left)
	leaves()
	if w := testwait.Receive(t, "the response to a client that left", responses); w.Body.Len() != 0 {
		t.Errorf("%q", w.Body)
	}
	send(t.Context())
	leave <- struct{}{}
	testwait.Receive(t, "the next request", entered)
	leave <- struct{}{}
	for range 2 {
		w := testwait.Receive(t, "a response", responses)
		if w.Code != http.StatusTeapot || w.Body.String() != "text" || w.Header().Get("X-Kept") != "yes" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
	}
	if n := served.Load(); n != 2 {
		t.Errorf("%d requests were served, want 2", n)
	}
}

// TestLongPath refuses a path that is longer than any of a page.
func TestLongPath(t *testing.T) {
	h := newGuard(nil).wrap(http.NotFoundHandler())
	for n, want := range map[int]int{maxPath: http.StatusNotFound, maxPath + 1: http.StatusRequestURITooLong} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/"+strings.Repeat("a", n-1)+"?query="+strings.Repeat("b", 2*maxPath), nil))
		if w.Code != want {
			t.Errorf("a path of %d bytes: status %d, want %d", n, w.Code, want)
		}
	}
}
