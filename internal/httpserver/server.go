package httpserver

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/panics/report"
)

// Options of a server.
type Options struct {
	// Hosts are the host names of this server in Host and Origin headers, besides localhost and addresses.
	// Requests with other names are refused.
	Hosts []string

	InFlight *connlimit.Limit // of requests; those above it are refused with 503. nil: none
	Log      *slog.Logger     // required
	Panics   *report.Reporter // logs and counts requests that panic; nil: they are logged
}

// New returns a server that serves a handler behind the guard.
func New(h http.Handler, o Options) *http.Server {
	if o.Panics == nil {
		o.Panics = report.New(o.Log)
	}
	h = newGuard(o.Hosts).wrap(h)
	if o.InFlight != nil {
		h = o.InFlight.Handler(h)
	}
	return &http.Server{
		Handler:           o.Panics.Handler((&bodies{most: BodyBytes}).wrap(h)),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 64, WriteByteTimeout: time.Minute},
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}
