package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/taredb/tare/frontend"
	"github.com/taredb/tare/internal/memory"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/rowstream"
	"github.com/taredb/tare/storegateway"
)

// Options say what is served.
type Options struct {
	Title    string // of the front page, such as "tare serve"
	Gatherer prometheus.Gatherer
	Ready    func(context.Context) error // nil: ready at once
	Live     func() any                  // what /api/v1/live answers; nil: no such page
	Plans    func(n int) memory.Plans    // what /api/v1/plans answers, with n plans in detail; nil: no such page
	QueryLog http.Handler                // nil: no such page
	Routes   []Route                     // what this server has besides

	// Statements answers the pages about statements; nil: there are none.
	Statements Statements

	// SeriesLabels are on all series of the history. The PromQL on the pages asks for them.
	SeriesLabels map[string]string

	// Latest is what the last seconds were like; nil: not shown.
	Latest func() Latest

	// Events are what has happened to the server, for the first page; nil: it knows of nothing. Those
	// that are not of the time that is looked at are left out.
	Events func() []Event

	LogColumns []LogColumn                    // of the page that shows QueryLog; nil: no such page
	Series     SeriesSource                   // nil: no such page
	Copies     func(context.Context) Copies   // nil: no such page
	Store      func() storegateway.StatusPage // nil: no such page
	Weight     *WeightSource                  // nil: no such page
	Rows       func() rowstream.ServiceStats  // of a server of rows; nil: no such page

	// Frontend is what a frontend did; nil: no such page. It is asked for the values of selectors if
	// FrontendValues allows to show them and the account may see texts.
	Frontend       func(values bool) frontend.Overview
	FrontendValues bool

	// NoTextUsers are the accounts that may not see what statements say: the digests alone.
	NoTextUsers []string

	// Now is the clock; nil: the system's.
	Now func() time.Time

	// Hosts are the host names in Host and Origin headers that are this server's, besides localhost
	// and addresses. Requests under other names are refused.
	Hosts []string

	// ConfigFile is exporter-toolkit's web configuration with TLS and accounts; "" for none.
	ConfigFile string
	Log        *slog.Logger
	Panics     *panics.Reporter // logs and counts requests that panic; nil: they are logged
}

// A Route is a page of one server.
type Route struct {
	Pattern  string // as http.ServeMux takes it
	Handler  http.Handler
	Textless http.Handler // answers accounts that may see no statement texts; nil: they are refused
	Path     string       // on the front page; "" to leave it out
	What     string       // what is there
}

// A Server answers HTTP.
type Server struct {
	opts    Options
	http    *http.Server
	nav     []page // in the navigation
	cache   pageCache
	copying copiesLook
	weigher *weigher
	runtime runtimeCharts
}

// New makes a Server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Panics == nil {
		o.Panics = panics.NewReporter(o.Log)
	}
	s := &Server{opts: o}
	if o.Weight != nil {
		s.weigher = newWeigher(o.Weight.Statements, o.Now())
	}
	s.http = &http.Server{
		Handler:           o.Panics.Handler(newGuard(o.Hosts).wrap(s.Handler())),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers on l until Shutdown; it returns nil then.
func (s *Server) Serve(l net.Listener) error {
	if err := CheckConfig(s.opts.ConfigFile, s.opts.NoTextUsers); err != nil {
		return err
	}
	noSystemd := false
	flags := toolkit.FlagConfig{WebSystemdSocket: &noSystemd, WebConfigFile: &s.opts.ConfigFile}
	// Its log has only two lines to say, the address and whether there is TLS.
	err := toolkit.Serve(l, s.http, &flags, slog.New(slog.DiscardHandler))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
}

// Shutdown ends the service; requests that run, streams among them, have until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.runtime.close()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// Handler is everything that is served. Each route says what it answers to accounts that may see
// no statement texts.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	s.nav = nil
	for _, p := range s.pages() {
		textless := s.servePage(&p)
		if p.texts {
			textless = nil
		}
		pattern := p.path
		if pattern == "/" {
			pattern = "/{$}"
		}
		s.handle(mux, "GET "+pattern, s.servePage(&p), textless)
		if !p.hidden {
			s.nav = append(s.nav, p)
		}
	}
	if s.opts.Weight != nil {
		s.open(mux, "GET "+runtimePath, http.HandlerFunc(s.runtime.serve))
	}
	s.open(mux, "GET /assets/", http.HandlerFunc(serveAsset))
	s.open(mux, "GET /metrics", promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelError),
	}))
	s.open(mux, "GET /-/healthy", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "healthy") }))
	s.open(mux, "GET /-/ready", http.HandlerFunc(s.ready))
	if s.opts.Live != nil {
		s.open(mux, "GET /api/v1/live", http.HandlerFunc(s.live))
	}
	if s.opts.Plans != nil {
		s.handle(mux, "GET /api/v1/plans", http.HandlerFunc(s.plans), nil)
	}
	if s.opts.QueryLog != nil {
		s.handle(mux, "GET /debug/querylog", s.opts.QueryLog, nil)
	}
	for _, r := range s.opts.Routes {
		s.handle(mux, r.Pattern, r.Handler, r.Textless)
	}
	s.open(mux, "GET /debug/pprof/", http.HandlerFunc(pprof.Index))
	s.handle(mux, "GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline), nil)
	s.open(mux, "GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile))
	s.open(mux, "GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	s.open(mux, "POST /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	s.open(mux, "GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	return hardened(mux)
}

// policy lets a page have nothing that does not come from this server, and no script or style of its own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hardened adds the headers that keep a browser from being used against the pages.
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

func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(s.opts.Live()); err != nil {
		s.opts.Log.Debug("live response aborted", "error", err)
	}
}
