package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/access"
)

// TestRoutes serves additional endpoints, and lists those with a description on the front page.
func TestRoutes(t *testing.T) {
	o := testOptions()
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	o.Routes = []Route{
		NewRoute(access.For(access.Viewer), "/api/v1/", says("the API")).Fallback(),
		NewRoute(access.For(access.Viewer), "GET /api/v1/status/blocks", says("the blocks")).Listed("/api/v1/status/blocks", "blocks & budgets"),
	}
	h := New(o).Handler()
	for path, want := range map[string]string{
		"/api/v1/query": "the API", "/api/v1/status/blocks": "the blocks", "/api/v1/live": `{"statements":7}`,
	} {
		if code, body, _ := request(t, h, "GET", path); code != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	_, front, _ := request(t, h, "GET", "/")
	if !strings.Contains(front, "blocks &amp; budgets") || strings.Contains(front, `href=""`) {
		t.Errorf("the front page is %s", front)
	}
}

// TestHiddenCharactersAreShown expects no bidirectional override in a page, whatever the source of the text.
func TestHiddenCharactersAreShown(t *testing.T) {
	o := testOptions()
	o.Title = "title\u202e"
	o.Ready = func(context.Context) error { return errors.New("the server says \u2066\u200b") }
	h := New(o).Handler()
	for path, want := range map[string]string{"/": "title⟨U+202E⟩", "/-/ready": "⟨U+2066⟩⟨U+200B⟩"} {
		if _, body, _ := request(t, h, "GET", path); !strings.Contains(body, want) || strings.ContainsAny(body, "\u202e\u2066\u200b") {
			t.Errorf("%s: %q, want %q", path, body, want)
		}
	}
}
