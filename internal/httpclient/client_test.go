package httpclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLimit: a response of the limit is returned whole, and a longer one is an error, not the start of it.
func TestLimit(t *testing.T) {
	const body = `{"a": 12345}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if text, err := c.Do(t.Context(), http.MethodGet, "/x", nil, int64(len(body))); err != nil || string(text) != body {
		t.Errorf("at the limit: %q, %v", text, err)
	}
	if text, err := c.Do(t.Context(), http.MethodGet, "/x", nil, int64(len(body))-1); err == nil || !strings.Contains(err.Error(), "more than 11 bytes") {
		t.Errorf("beyond the limit: %q, %v", text, err)
	}
}
