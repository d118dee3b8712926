package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// Options say what is served.
type Options struct {
	Title    string // of the front page, such as "tare serve"
	Gatherer prometheus.Gatherer
	Ready    func(context.Context) error // nil: ready at once
	Live     func() any                  // what /api/v1/live answers; nil: no such page
	Plans    func(n int) any             // what /api/v1/plans answers, with n plans in detail; nil: no such page
	QueryLog http.Handler                // nil: no such page
	Routes   []Route                     // what this server has besides

	// ConfigFile is exporter-toolkit's web configuration with TLS and accounts; "" for none.
	ConfigFile string
	Log        *slog.Logger
}

// A Route is a page of one server.
type Route struct {
	Pattern string // as http.ServeMux takes it
	Handler http.Handler
	Path    string // on the front page; "" to leave it out
	What    string // what is there
}

// A Server answers HTTP.
type Server struct {
	opts Options
	http *http.Server
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{opts: o}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers on l until Shutdown; it returns nil then.
func (s *Server) Serve(l net.Listener) error {
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
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// Handler is everything that is served.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.front)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "healthy") })
	mux.HandleFunc("GET /-/ready", s.ready)
	if s.opts.Live != nil {
		mux.HandleFunc("GET /api/v1/live", s.live)
	}
	if s.opts.Plans != nil {
		mux.HandleFunc("GET /api/v1/plans", s.plans)
	}
	if s.opts.QueryLog != nil {
		mux.Handle("GET /debug/querylog", s.opts.QueryLog)
	}
	for _, r := range s.opts.Routes {
		mux.Handle(r.Pattern, r.Handler)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return hardened(mux)
}

// hardened adds the headers that keep a browser from being used against the pages.
func hardened(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
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
		s.opts.Log.Debug("the live figures were not read to their end", "error", err)
	}
}

var frontPage = template.Must(template.New("front").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
dt { margin-top: .8rem; } dd { margin: 0 0 0 1.5rem; }
</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<dl>
{{range .Pages}}<dt><a href="{{.Path}}">{{.Path}}</a></dt><dd>{{.What}}</dd>
{{end}}</dl>
</main>
</body>
</html>
`))

type page struct{ Path, What string }

func (s *Server) front(w http.ResponseWriter, _ *http.Request) {
	pages := []page{
		{"/metrics", "metrics in Prometheus' text format"},
		{"/-/healthy", "answers as long as the process does"},
		{"/-/ready", "whether the service can do its work"},
		{"/debug/pprof/", "Go's profiles"},
	}
	if s.opts.QueryLog != nil {
		pages = append([]page{{"/debug/querylog", "the latest lines of the query log, then each as it comes"}}, pages...)
	}
	if s.opts.Plans != nil {
		pages = append([]page{{"/api/v1/plans", "the plan cache and its largest plans"}}, pages...)
	}
	if s.opts.Live != nil {
		pages = append([]page{{"/api/v1/live", "statements, errors and latency of the last 10 seconds"}}, pages...)
	}
	var own []page
	for _, r := range s.opts.Routes {
		if r.Path != "" {
			own = append(own, page{r.Path, r.What})
		}
	}
	pages = append(own, pages...)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := frontPage.Execute(w, map[string]any{"Title": s.opts.Title, "Pages": pages}); err != nil {
		s.opts.Log.Debug("the front page was not read to its end", "error", err)
	}
}
