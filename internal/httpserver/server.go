package httpserver

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/panics"
)

// Options of a server.
type Options struct {
	// Hosts are the host names of this server in Host and Origin headers, besides localhost and addresses.
	// Requests with other names are refused.
	Hosts []string

	Log    *slog.Logger     // required
	Panics *panics.Reporter // logs and counts requests that panic; nil: they are logged
}

// New returns a server that serves a handler behind the guard.
func New(h http.Handler, o Options) *http.Server {
	if o.Panics == nil {
		o.Panics = panics.NewReporter(o.Log)
	}
	return &http.Server{
		Handler:           o.Panics.Handler(newGuard(o.Hosts).wrap(h)),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}
