package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/httpserver"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
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

// A Server serves HTTP. Its routes are those of the table.
type Server struct {
	config  configFile
	broken  error // of config: every request fails, and Serve returns it
	http    *http.Server
	handler http.Handler
	router  *router
	pages   *renderer
	parts   *parts
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
	pages := &renderer{title: o.Title, attention: o.Attention, now: o.Now, log: o.Log}
	s := &Server{config: configFile(o.ConfigFile), broken: broken, router: newRouter(o.Gate, o.Traces, pages), pages: pages}
	s.parts = newParts(&o, pages, s.router)
	s.handler = s.newHandler(&o)
	s.http = httpserver.New(s.handler, httpserver.Options{Hosts: o.Hosts, InFlight: o.InFlight, Log: o.Log, Panics: o.Panics})
	return s
}

// Serve serves requests on l until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := CheckConfig(string(s.config), ""); err != nil {
		return err
	}
	s.warnIfOpen(l.Addr())
	err := s.config.serve(l, s.http)
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
func (s *Server) Handler() http.Handler { return s.handler }

// newHandler registers the routes of the table.
func (s *Server) newHandler(o *Options) http.Handler {
	if s.broken != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			plain(w, http.StatusInternalServerError, "the web configuration cannot be read")
		})
	}
	for _, r := range s.parts.table(o) {
		if !r.has {
			continue
		}
		s.router.add(r.Route)
		if p := r.page; p != nil && !p.hidden {
			s.pages.nav = append(s.pages.nav, *p)
		}
	}
	return hardened(s.router.handler())
}

// Endpoints returns all routes except fallbacks, sorted by path.
func (s *Server) Endpoints() []Endpoint { return s.router.documented() }

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

// metricsOf returns the handler of metrics.
func metricsOf(of prometheus.Gatherer, log *slog.Logger) http.Handler {
	return httpserver.OneAtATime(promhttp.HandlerFor(of, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError)}))
}

func healthy(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "healthy") }

// readiness returns the handler of a check, which may be nil.
func readiness(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if check != nil {
			if err := check(r.Context()); err != nil {
				plain(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
				return
			}
		}
		plain(w, http.StatusOK, "ready")
	}
}

const buildInfoPattern = "GET /api/v1/status/buildinfo"

// value returns a handler that responds with a value as JSON.
func (d *renderer) value(of func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { d.writeJSON(w, of()) }
}

func (d *renderer) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := visible.NewEncoder(w).Encode(v); err != nil {
		d.log.Debug("response aborted", "error", err)
	}
}
