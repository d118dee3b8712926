package main

import (
	"log/slog"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/server"
)

// newCopyServer returns the HTTP server of a copy, whose pages show its metrics.
func newCopyServer(cfg *config.Copy, m *copier.Metrics, log *slog.Logger) *server.Server {
	s := server.New(server.Options{Name: "copy", Server: config.Server{HTTPAccess: cfg.HTTPAccess}, Build: thisBuild(), Log: log})
	s.Metrics.MustRegister(m)
	return s
}
