package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/httpserver"
	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/wire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/web/memory"
)

// Options are the content of a Server. Sources that are nil have no pages.
type Options struct {
	Title    string // of the front page, such as "tare serve"
	Gatherer prometheus.Gatherer
	Ready    func(context.Context) error // nil: always ready
	Live     func() any                  // value of /api/v1/live; nil: no such path
	Plans    func(n int) memory.Plans    // value of /api/v1/plans, with n plans in detail; nil: no such page
	QueryLog http.Handler                // nil: no such page
	Routes   []Route                     // additional endpoints

	// Statements provides the data of the pages about statements; nil: there are none.
	Statements Statements

	// SeriesMatchers returns matchers of the labels that all series of the history have, for the PromQL on
	// the pages. Nil: there are none.
	SeriesMatchers func() []string

	// Earliest returns the time before which PromQL has no samples, and false if that is unknown; nil: unknown.
	Earliest func() (time.Time, bool)

	// Tags are the sqlcommenter tags by which the history has counts of calls.
	Tags []string

	// Latest returns the values of the last seconds; nil: not shown.
	Latest func() Latest

	Attention Attention // of statements

	// Markers are drawn on charts and named as causes; nil: there are none.
	Markers MarkerSource

	// PlanTables sets the tables of the statements whose digests the map has, by their cached plans; nil: they are unknown.
	// It is called for statements whose texts are cut.
	PlanTables func(of map[[16]byte][]string)

	// Sessions has the sessions of a gateway; nil: there are none.
	Sessions *SessionSource

	// Calls has sampled calls of statements; nil: there are none.
	Calls CallSource

	// PlanSource has the execution plans of statements; nil: there are none.
	PlanSource PlanSource

	// Counts has the counts of statements at the server; nil: there are none.
	Counts CountSource

	// Events returns events of the server, for the first page; nil: there are none. Events outside of the
	// selected range are omitted.
	Events func() []Event

	LogColumns []querylog.Column              // columns of the page that shows QueryLog; nil: no such page
	Series     SeriesSource                   // nil: no such page
	Copies     func(context.Context) Copies   // nil: no such page
	Store      func() storegateway.StatusPage // nil: no such page
	Progress   func() Progress                // of the copy or alteration that the process executes; nil: no such page
	Weight     *WeightSource                  // nil: no such page
	Rows       func() wire.ServiceStats       // counts of a server of rows; nil: no such page

	// Frontend returns the state of a frontend; nil: no such page. values is true if FrontendValues is set
	// and the account may see texts: then selectors contain their values.
	Frontend       func(values bool) frontend.Overview
	FrontendValues bool

	// Now returns the current time; nil: time.Now.
	Now func() time.Time

	// Build is the response of /api/v1/status/buildinfo, unless one of the Routes has that path.
	Build promapi.BuildInfo

	// Hosts are this server's names in Host and Origin headers, besides localhost and addresses. Requests
	// with other names are refused.
	Hosts []string

	// ConfigFile is exporter-toolkit's web configuration with TLS and accounts; "" for none.
	ConfigFile string

	// Gate determines the accounts and their permissions, see NewGate; nil: that of ConfigFile.
	Gate     *access.Gate
	InFlight *connlimit.Limit  // of requests; nil: none
	Traces   *tracing.Provider // creates spans of requests; nil: there are none
	Log      *slog.Logger
	Panics   *report.Reporter // logs and counts requests that panic; nil: they are logged
}

// A Server serves HTTP.
type Server struct {
	opts    Options
	http    *http.Server
	gate    *access.Gate
	broken  error // of Options.ConfigFile: every request fails, and Serve returns it
	routes  []Route
	nav     []page // pages of the navigation
	cache   pageCache
	copying copiesCache
	weigher *weigher
}

// New returns a Server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Panics == nil {
		o.Panics = report.New(o.Log)
	}
	var broken error
	if o.Gate == nil && o.ConfigFile != "" {
		o.Gate, broken = access.NewUsersGate(o.ConfigFile, usersOf, o.Log)
	}
	if o.Gate == nil {
		o.Gate = access.NewOpenGate(o.Log)
	}
	s := &Server{opts: o, gate: o.Gate, broken: broken}
	if o.Weight != nil {
		s.weigher = newWeigher(o.Weight.Statements, o.Now())
	}
	s.http = httpserver.New(s.Handler(), httpserver.Options{Hosts: o.Hosts, InFlight: o.InFlight, Log: o.Log, Panics: o.Panics})
	return s
}

// Serve serves requests on l until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := CheckConfig(s.opts.ConfigFile, ""); err != nil {
		return err
	}
	s.warnIfOpen(l.Addr())
	err := configFile(s.opts.ConfigFile).serve(l, s.http)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
}

// Shutdown stops the server; running requests, including streams, may finish until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// Handler returns the handler of all routes. Each route declares the role that it requires.
func (s *Server) Handler() http.Handler {
	if s.broken != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			plain(w, http.StatusInternalServerError, "the web configuration cannot be read")
		})
	}
	mux := http.NewServeMux()
	s.nav, s.routes = nil, nil
	viewer := access.For(access.Viewer)
	for _, p := range s.pages() {
		need := viewer
		if p.texts {
			need = viewer.WithTexts()
		}
		pattern := p.path
		if pattern == "/" {
			pattern = "/{$}"
		}
		s.add(mux, NewRoute(need, "GET "+pattern, s.servePage(&p)))
		if !p.hidden {
			s.nav = append(s.nav, p)
		}
	}
	s.add(mux, NewRoute(viewer, "GET /assets/", http.HandlerFunc(serveAsset)))
	for _, r := range s.opts.Routes {
		s.add(mux, r)
	}
	if s.opts.Live != nil {
		s.add(mux, NewRoute(viewer, "GET /api/v1/live", http.HandlerFunc(s.live)).
			Listed("/api/v1/live", "statements, errors and latency of the last 10 seconds"))
	}
	if s.opts.Plans != nil {
		s.add(mux, NewRoute(viewer.WithTexts(), "GET /api/v1/plans", http.HandlerFunc(s.plans)).
			Listed("/api/v1/plans", "the plan cache and its largest plans"))
	}
	if s.opts.QueryLog != nil {
		s.add(mux, NewRoute(viewer.WithTexts(), "GET /debug/querylog", s.opts.QueryLog).
			Listed("/debug/querylog", "the query log as a stream"))
	}
	if s.opts.Progress != nil {
		s.add(mux, NewRoute(viewer, "GET /api/v1/progress", http.HandlerFunc(s.serveProgress)).
			Listed("/api/v1/progress", "progress, rate, lag, lock waits and the p99 of live statements"))
	}
	if !slices.ContainsFunc(s.opts.Routes, func(r Route) bool { return r.pattern == buildInfoPattern }) {
		s.add(mux, NewRoute(viewer, buildInfoPattern, http.HandlerFunc(s.buildInfo)))
	}
	if s.opts.Sessions != nil {
		s.addSessions(mux)
	}
	if s.opts.Statements != nil {
		s.addIncidents(mux)
	}
	s.addHealth(mux)
	s.addProfiles(mux)
	return hardened(s.orNotFound(mux))
}

// orNotFound responds with a page to a browser that requests an unknown path. The mux responds to all other
// requests, including unsupported methods.
func (s *Server) orNotFound(mux *http.ServeMux) http.Handler {
	missing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, notFound("There is no page "+r.URL.Path, "Open the overview.", "Check the address."))
	})
	// The gate identifies the account, whose pages the navigation has. No account is required.
	identified := s.gate.Require(access.For(access.Viewer), missing, func(w http.ResponseWriter, r *http.Request, _ access.Denial) {
		w.Header().Del("WWW-Authenticate")
		missing(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" || r.Method != http.MethodGet || s.hasPath(mux, r) {
			mux.ServeHTTP(w, r)
			return
		}
		identified.ServeHTTP(w, r)
	})
}

// hasPath reports whether the path of a request exists with a method other than GET.
func (s *Server) hasPath(mux *http.ServeMux, r *http.Request) bool {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "" {
			return true
		}
	}
	return false
}

// addHealth registers metrics and health.
func (s *Server) addHealth(mux *http.ServeMux) {
	metrics := access.For(access.Metrics)
	s.add(mux, NewRoute(metrics, "GET /metrics", httpserver.OneAtATime(promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelError),
	}))).Listed("/metrics", "metrics in Prometheus' text format"))
	healthy := func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "healthy") }
	s.add(mux, NewRoute(metrics, "GET /-/healthy", http.HandlerFunc(healthy)).Listed("/-/healthy", "liveness"))
	s.add(mux, NewRoute(metrics, "GET /-/ready", http.HandlerFunc(s.ready)).Listed("/-/ready", "readiness"))
}

// addProfiles registers Go's profiles. They reveal memory: labels, arguments, names, possibly texts.
func (s *Server) addProfiles(mux *http.ServeMux) {
	operator := access.For(access.Operator).WithTexts()
	s.add(mux, NewRoute(operator, "GET /debug/pprof/", http.HandlerFunc(pprof.Index)).Listed("/debug/pprof/", "Go's profiles"))
	s.add(mux, NewRoute(operator, "GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline)))
	s.add(mux, NewRoute(operator, "GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile)))
	s.add(mux, NewRoute(operator, "GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol)))
	s.add(mux, NewRoute(operator, "POST /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol)))
	s.add(mux, NewRoute(operator, "GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace)))
}

// policy is the content security policy: pages load resources from this server only, and have no inline
// scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hardened adds headers that protect the pages in browsers.
func hardened(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, visible.Text(text))
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.opts.Ready != nil {
		if err := s.opts.Ready(r.Context()); err != nil {
			plain(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
	}
	plain(w, http.StatusOK, "ready")
}

const buildInfoPattern = "GET /api/v1/status/buildinfo"

func (s *Server) buildInfo(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, map[string]any{"status": "success", "data": s.opts.Build})
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, s.opts.Live())
}

func (s *Server) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := visible.NewEncoder(w).Encode(v); err != nil {
		s.opts.Log.Debug("response aborted", "error", err)
	}
}
