package httpclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCutResponse returns an error for a response that breaks off, of any status.
func TestCutResponse(t *testing.T) {
	for _, code := range []int{200, 500} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(code)
			if _, err := io.WriteString(w, "part"); err != nil {
				t.Error(err)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}))
		defer server.Close()
		c, err := New(Options{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := c.Do(t.Context(), http.MethodGet, "/x", nil, 1<<10); err == nil || !strings.Contains(err.Error(), "read /x of "+c.Host()) {
			t.Errorf("%d: %q, %v", code, text, err)
		}
		c.Close()
	}
}
