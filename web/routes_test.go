package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// TestRouter lists each account the paths that it may call, and expects unknown paths to be pages of problems for browsers only.
func TestRouter(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	d := newRouter(access.NewOpenGate(log), nil, &renderer{title: "tare test", now: time.Now, log: log})
	says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) })
	d.add(NewRoute(access.For(access.Viewer), "GET /a", says).Listed("/a", "first"))
	d.add(NewRoute(access.For(access.Operator).Changing(), "POST /b", says).Listed("/b", "second"))
	same := NewRoute(access.For(access.Viewer), "GET /c/{name}/same", says)
	d.add(same)
	d.add(NewRoute(access.For(access.Viewer), "/c/", says).Fallback(same))
	d.add(NewRoute(access.For(access.Viewer), "GET /c/read", says))
	d.add(NewRoute(access.For(access.Viewer), "GET /c/{name}/both", says))
	d.add(NewRoute(access.For(access.Operator), "POST /c/{name}/both", says))
	operator, viewer := access.Account{Role: access.Operator, Texts: true}, access.Account{Role: access.Viewer, Texts: true}
	if got, all := d.listed(viewer), d.listed(operator); len(got) != 1 || got[0] != (endpoint{"/a", "first"}) || len(all) != 2 {
		t.Errorf("a viewer is listed %v, an operator %v", got, all)
	}
	if !d.mayFollow(viewer, "/a") || d.mayFollow(viewer, "/b") || !d.mayFollow(operator, "/b") || !d.mayFollow(viewer, "/elsewhere") {
		t.Error("links that accounts may follow are wrong")
	}
	if all := d.documented(); len(all) != 6 || all[0].Path != "/a" || all[1].Method != "POST" {
		t.Errorf("documented are %v", all)
	}
	h := d.handler()
	for _, c := range []struct {
		method, path, accept string
		code                 int
		body                 string
	}{
		{"GET", "/a", "", 200, "GET"},
		{"POST", "/b", "", 200, "POST"},
		{"GET", "/b", "text/html", 405, "Method Not Allowed"},
		{"GET", "/c/x", "text/html", 200, "GET"},
		{"GET", "/d", "text/html", 404, "<title>"},
		{"GET", "/d", "", 404, "Try: Open the overview."},
		{"POST", "/d", "text/html", 404, "404 page not found"},
		{"DELETE", "/c/x", "", 200, "DELETE"},
		{"DELETE", "/c/x/same", "", 200, "DELETE"},
		{"POST", "/c/read", "", 405, "Method Not Allowed"},
		{"OPTIONS", "/c/read", "", 405, "Method Not Allowed"},
		{"HEAD", "/c/read", "", 200, "HEAD"},
		{"PUT", "/c/x/both", "", 405, "Method Not Allowed"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %d %q, want %d with %q", c.method, c.path, w.Code, body, c.code, c.body)
		}
		want := map[string]string{"/b": "POST", "/c/read": "GET, HEAD", "/c/x/both": "GET, HEAD, POST"}[c.path]
		if got := w.Header().Get("Allow"); w.Code == 405 && got != want {
			t.Errorf("%s %s: Allow is %q, want %q", c.method, c.path, got, want)
		}
	}
}
