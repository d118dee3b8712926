package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/web"
)

// serveCopyMetrics serves the metrics of a copy at --http until the returned function is called. A copy outlives its HTTP
// server: an error of that is logged.
func serveCopyMetrics(cfg *config.Copy, m *copier.Metrics, log *slog.Logger) (end func(), err error) {
	if cfg.HTTP == "" {
		return func() {}, nil
	}
	if err := web.CheckConfig(cfg.WebConfigFile, cfg.AccountsFile); err != nil {
		return nil, err
	}
	server, err := newCopyWeb(cfg, m, log)
	if err != nil {
		return nil, err
	}
	l, err := listen("HTTP (--http)", cfg.HTTP)
	if err != nil {
		return nil, err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			log.Error("metrics are no longer served", "error", err)
		}
	})
	log.Info("metrics are served", "http", "http://"+l.Addr().String())
	return func() {
		grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		_ = server.Shutdown(grace) // the copy is over
		serving.Wait()
	}, nil
}

// newCopyWeb returns the HTTP server of a copy.
func newCopyWeb(cfg *config.Copy, m *copier.Metrics, log *slog.Logger) (*web.Server, error) {
	gate, err := web.NewGate(cfg.WebConfigFile, cfg.AccountsFile, log)
	if err != nil {
		return nil, err
	}
	reporter := panics.NewReporter(log)
	registry := copyMetrics(m)
	registry.MustRegister(reporter)
	return web.New(web.Options{
		Title: "tare copy", Gatherer: registry, Hosts: cfg.HTTP.Hosts(cfg.AllowedHosts), ConfigFile: cfg.WebConfigFile, Gate: gate, Log: log, Panics: reporter,
	}), nil
}

// copyMetrics are the metrics of a copy.
func copyMetrics(m *copier.Metrics) *registry {
	r := newRegistry()
	r.MustRegister(processCollectors()...)
	r.MustRegister(m)
	return r
}
