package copier

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestGatewayRoute asks gateways that answer this and that: errors say what to do and show no
// password.
func TestGatewayRoute(t *testing.T) {
	status, body := http.StatusOK, ""
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = r.Method + " " + r.URL.Path + " " + user + ":" + password + " " + r.Header.Get("Content-Type")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	g := newGatewayRoute(strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/")
	defer g.close()
	body = `{"held": true, "token": "abc"}`
	if token, err := g.hold(t.Context(), time.Second); err != nil || token != "abc" || got != "POST /api/v1/route/hold me:hunter2 application/json" {
		t.Errorf("hold: %q, %v; it was asked %s", token, err, got)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{http.StatusConflict, `{"error": "sessions are pinned", "pinned": []}`, "the gateway says: sessions are pinned"},
		{http.StatusUnauthorized, "no", "--gateway http://user:password@host:port"},
		{http.StatusNotFound, "404 page not found", "start tare serve with --standby"},
		{http.StatusBadGateway, "<html>", "502 Bad Gateway"},
		{http.StatusOK, "<html>", "is it a tare serve?"},
	} {
		status, body = c.status, c.body
		if _, err := g.change(t.Context(), "abc", "standby", true); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%d %s: %v, want %q", c.status, c.body, err, c.want)
		}
	}
	server.Close()
	if _, err := g.route(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "me:xxxxx@") {
		t.Errorf("a gateway that is gone: %v", err)
	}
}

// TestRouteAnswer tells whether a gateway's servers are a copy's, and where its clients are.
func TestRouteAnswer(t *testing.T) {
	for _, c := range []struct {
		a    routeAnswer
		side string
		at   cutRoute
	}{
		{routeAnswer{Backend: "a:1", Standby: "b:1", Address: "a:1", Stage: "open"}, "standby", routeSource},
		{routeAnswer{Backend: "a:1", Standby: "b:1", Address: "b:1", Stage: "open"}, "standby", routeTarget},
		{routeAnswer{Backend: "b:1", Standby: "a:1", Address: "a:1", Stage: "open"}, "backend", routeSource},
		{routeAnswer{Backend: "a:1", Standby: "b:1", Address: "a:1", Stage: "saving"}, "standby", routeUnknown},
		{routeAnswer{Backend: "a:1", Standby: "c:1", Address: "a:1", Stage: "open"}, "", routeSource},
		{routeAnswer{Backend: "a:1", Address: "a:1", Stage: "open"}, "", routeSource},
	} {
		n, ok := c.a.namesOf("a:1", "b:1")
		if n.side != c.side || ok != (c.side != "") {
			t.Errorf("%+v: side %q, %v", c.a, n.side, ok)
		}
		if at := c.a.at(routeNames{from: "a:1", to: "b:1"}); at != c.at {
			t.Errorf("%+v: clients are at %d, want %d", c.a, at, c.at)
		}
	}
}
