package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/access"
)

// A Route is an endpoint of a server. NewRoute is the only way to create one, so every endpoint declares the
// role that it requires.
type Route struct {
	need       access.Need
	pattern    string
	handler    http.Handler
	path, what string // for the front page; "" for none
	fallback   bool
	traced     bool
}

// NewRoute returns the endpoint of a pattern in the form of http.ServeMux, with a method. Its handler must
// withhold statement texts if access.SeesTexts reports false, unless the Need excludes such accounts.
func NewRoute(need access.Need, pattern string, h http.Handler) Route {
	return Route{need: need, pattern: pattern, handler: h}
}

// Listed returns the Route with its path and description for the front page.
func (r Route) Listed(path, what string) Route {
	r.path, r.what = path, what
	return r
}

// Fallback returns the Route as one that serves only errors: those for unknown paths below a prefix, and for
// unsupported methods. Its pattern has no method.
func (r Route) Fallback() Route {
	r.fallback = true
	return r
}

// Traced returns the Route as one whose handler creates the spans of its requests.
func (r Route) Traced() Route {
	r.traced = true
	return r
}

// hasSpan reports whether the server creates a span for each request of the route: not for polls, assets, streams and
// profiles.
func (r Route) hasSpan() bool {
	_, path, _ := strings.Cut(r.pattern, " ")
	for _, prefix := range []string{"/-/", "/metrics", "/assets/", "/debug/"} {
		if strings.HasPrefix(path, prefix) {
			return false
		}
	}
	return !r.traced && !r.fallback
}

// ByTexts returns a handler that calls full for accounts that may see statement texts, and textless for
// others.
func ByTexts(full, textless http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.SeesTexts(r.Context()) {
			full.ServeHTTP(w, r)
			return
		}
		textless.ServeHTTP(w, r)
	})
}

// An Endpoint is the documentation of a Route.
type Endpoint struct {
	Method, Path string // a path that ends in / includes all paths below it, except "/"
	Need         access.Need
}

// Endpoints returns all routes except fallbacks, sorted by path.
func (s *Server) Endpoints() []Endpoint {
	var all []Endpoint
	for _, r := range s.routes {
		if r.fallback {
			continue
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		all = append(all, Endpoint{Method: method, Path: strings.TrimSuffix(path, "{$}"), Need: r.need})
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	return all
}

// add registers a route. It is the only function that does.
func (s *Server) add(mux *http.ServeMux, r Route) {
	method, _, ok := strings.Cut(r.pattern, " ")
	if !r.need.Declared() || r.handler == nil || !r.fallback && (!ok || method == "") {
		panic("BUG: route " + r.pattern + " lacks a role, a handler or a method")
	}
	h := s.gate.Require(r.need, r.handler, s.deny)
	if s.opts.Traces != nil && r.hasSpan() {
		h = s.opts.Traces.Handler(r.pattern, h)
	}
	mux.Handle(r.pattern, h)
	s.routes = append(s.routes, r)
}

// deny responds to an account that may not call an endpoint.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, d access.Denial) {
	try := []string{"Log in with such an account.", "Ask the operator for a change in --web-accounts-file."}
	if d.Status == http.StatusTooManyRequests {
		try = []string{"Wait, then log in with the right password.", "Look at the log for the address and the account of failed logins."}
	}
	s.fail(w, r, &problem{Status: d.Status, What: d.Text(r.URL.Path), Try: try})
}

// endpoints returns the listed paths that an account may call.
func (s *Server) endpoints(a access.Account) []endpoint {
	var all []endpoint
	for _, r := range s.routes {
		if r.path != "" && a.May(r.need) {
			all = append(all, endpoint{r.path, r.what})
		}
	}
	return all
}

// mayFollow reports whether an account may follow a link: false only for the listed path of a route that it
// may not call.
func (s *Server) mayFollow(a access.Account, link string) bool {
	return !slices.ContainsFunc(s.routes, func(r Route) bool { return r.path == link && !a.May(r.need) })
}
