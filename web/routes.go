package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/tracing"
)

// A Route is an endpoint of a server. NewRoute is the only way to create one, so every endpoint declares the
// role that it requires.
type Route struct {
	need       access.Need
	pattern    string
	handler    http.Handler
	path, what string // for the front page; "" for none
	fallback   bool
	others     []string // patterns of the routes whose unsupported methods a fallback serves
	traced     bool
	page       *page // nil: of an endpoint
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

// Fallback returns the Route as one that serves only errors: those for unknown paths below a prefix, and for unsupported methods of
// other routes, which have the same handler. Its pattern has no method.
func (r Route) Fallback(others ...Route) Route {
	r.fallback = true
	for _, other := range others {
		r.others = append(r.others, other.pattern)
	}
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

// A router has the routes of a server, each behind the gate. A request gets a span if there are Traces.
type router struct {
	gate   *access.Gate
	traces *tracing.Provider // nil: there are none
	pages  *renderer         // of the responses to denied requests and unknown paths
	mux    *http.ServeMux
	routes []Route
}

func newRouter(gate *access.Gate, traces *tracing.Provider, pages *renderer) *router {
	return &router{gate: gate, traces: traces, pages: pages, mux: http.NewServeMux()}
}

// add registers a route. It is the only function that does.
func (d *router) add(r Route) {
	method, _, ok := strings.Cut(r.pattern, " ")
	if !r.need.Declared() || r.handler == nil || !r.fallback && (!ok || method == "") {
		panic("BUG: route " + r.pattern + " lacks a role, a handler or a method")
	}
	h := r.handler
	if r.fallback {
		h = d.fallback(r)
	}
	h = d.gate.Require(r.need, h, d.deny)
	if d.traces != nil && r.hasSpan() {
		h = d.traces.Handler(r.pattern, h)
	}
	d.mux.Handle(r.pattern, h)
	d.routes = append(d.routes, r)
}

// fallback returns the handler of a fallback. The mux calls it for unsupported methods of all paths below its prefix: it responds
// like the mux to those of routes with another handler.
func (d *router) fallback(f Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut} {
			if pattern := d.patternOf(r, method); pattern != "" && pattern != f.pattern && !slices.Contains(f.others, pattern) {
				allowed = append(allowed, method)
				if method == http.MethodGet {
					allowed = append(allowed, http.MethodHead)
				}
			}
		}
		if allowed == nil {
			f.handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	})
}

// patternOf returns the pattern of the route that serves a request with another method; "" if there is none.
func (d *router) patternOf(r *http.Request, method string) string {
	other := *r
	other.Method = method
	_, pattern := d.mux.Handler(&other)
	return pattern
}

// deny responds to an account that may not call an endpoint.
func (d *router) deny(w http.ResponseWriter, r *http.Request, why access.Denial) {
	try := []string{"Log in with such an account.", "Ask the operator for a change of the file of option web-accounts-file."}
	if why.Status == http.StatusTooManyRequests {
		try = []string{"Wait, then log in with the right password.", "Look at the log for the address and the account of failed logins."}
	}
	d.pages.fail(w, r, &problem{Status: why.Status, What: why.Text(r.URL.Path), Try: try})
}

// handler returns the handler of all routes. It responds with a page to a browser that requests an unknown path. The mux
// responds to all other requests, including unsupported methods.
func (d *router) handler() http.Handler {
	missing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.pages.fail(w, r, notFound("There is no page "+r.URL.Path, "Open the overview.", "Check the address."))
	})
	// The gate identifies the account, whose pages the navigation has. No account is required.
	identified := d.gate.Require(access.For(access.Viewer), missing, func(w http.ResponseWriter, r *http.Request, _ access.Denial) {
		w.Header().Del("WWW-Authenticate")
		missing(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := d.mux.Handler(r); pattern != "" || r.Method != http.MethodGet || d.hasPath(r) {
			d.mux.ServeHTTP(w, r)
			return
		}
		identified.ServeHTTP(w, r)
	})
}

// hasPath reports whether the path of a request exists with a method other than GET.
func (d *router) hasPath(r *http.Request) bool {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if d.patternOf(r, method) != "" {
			return true
		}
	}
	return false
}

// documented returns all routes except fallbacks, sorted by path.
func (d *router) documented() []Endpoint {
	var all []Endpoint
	for _, r := range d.routes {
		if r.fallback {
			continue
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		all = append(all, Endpoint{Method: method, Path: strings.TrimSuffix(path, "{$}"), Need: r.need})
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	return all
}

// listed returns the listed paths that an account may call.
func (d *router) listed(a access.Account) []endpoint {
	var all []endpoint
	for _, r := range d.routes {
		if r.path != "" && a.May(r.need) {
			all = append(all, endpoint{r.path, r.what})
		}
	}
	return all
}

// mayFollow reports whether an account may follow a link: false only for the listed path of a route that it
// may not call.
func (d *router) mayFollow(a access.Account, link string) bool {
	return !slices.ContainsFunc(d.routes, func(r Route) bool { return r.path == link && !a.May(r.need) })
}
