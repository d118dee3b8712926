package main

import (
	"context"
	"log/slog"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// A frontendService is the parts of tare frontend.
type frontendService struct {
	*server.Server
	cfg      *config.Frontend
	frontend *frontend.Frontend
	traces   *tracing.Provider // nil: none
}

func newFrontendService(cfg *config.Frontend, log *slog.Logger) *frontendService {
	s := &frontendService{cfg: cfg}
	s.Server = server.New(server.Options{
		Name: "frontend", Server: cfg.Server, Build: thisBuild(), Log: log,
		DrainHTTP: true, Unit: "requests",
		Reload: s.reloadDecoding, Alive: func() { s.frontend.Running() },
	})
	return s
}

// Check implements server.Service.
func (s *frontendService) Check() error { return nil }

// Open implements server.Service.
func (s *frontendService) Open(ctx context.Context) (err error) {
	o := s.cfg.Options
	o.Diag = s.Log
	authorities, err := server.LoadCAs("--downstream-ca", s.cfg.DownstreamCA)
	if err != nil {
		return err
	}
	if authorities != nil {
		t := frontend.NewTransport()
		t.TLSClientConfig = server.ClientTLS(authorities)
		o.Transport = t
	}
	if s.cfg.Log.Sink.Path != "" {
		if err := s.OpenData("frontend", false); err != nil {
			return err
		}
	}
	if err := s.OpenQueryLog(); err != nil {
		return err
	}
	o.Log = s.Queries
	if s.traces, err = openTraces(ctx, s.Server, s.cfg.TracesURL); err != nil {
		return err
	}
	if s.traces != nil {
		o.Spans = frontend.NewSpans(s.traces.Tracer(frontendTracer))
	}
	if s.frontend, err = frontend.New(o); err != nil {
		return err
	}
	s.Metrics.MustRegister(s.frontend.Collectors()...)
	var routes []web.Route
	for i, pattern := range frontend.Patterns() {
		r := web.NewRoute(access.For(access.Viewer).WithTexts(), pattern, s.frontend).Traced()
		if i == 0 {
			r = r.Listed("/api/v1/cardinality/active_series?selector=%7B__name__%21%3D%22%22%7D", "active series that match the selector")
		}
		routes = append(routes, r)
	}
	return s.OpenWeb(web.Options{
		Ready: s.frontend.Ready, Routes: routes, Traces: s.traces,
		LogColumns: frontend.LogColumns(), Frontend: s.frontend.Overview, FrontendValues: s.cfg.Log.Redact == querylog.RedactNone,
		Weight: &web.WeightSource{
			Statements: func() uint64 { return s.frontend.Overview(false).Requests }, StatementName: "request",
		},
	}, memory.Owner{Name: "decoders_idle", Bytes: s.frontend.IdleBytes})
}

// Announce implements server.Service.
func (s *frontendService) Announce() (status string) {
	addr := s.HTTPListener.Addr().String()
	s.Log.Info("frontend listens", "http", s.Web.URL(s.HTTPListener.Addr()),
		"downstreams", len(s.cfg.Options.Downstreams), "members", len(s.cfg.Options.Members), "shards", s.cfg.Options.Shards, "decoder", s.cfg.Options.Decoding.By.String())
	return "answers on " + addr
}

// Drain implements server.Service.
func (s *frontendService) Drain(ctx context.Context) (left int) {
	s.Log.Info("shutting down", "requests", s.frontend.Running(), "drain_timeout", s.cfg.DrainTimeout)
	return s.frontend.Wait(ctx)
}

// Close implements server.Service.
func (s *frontendService) Close() error {
	if s.frontend != nil {
		s.frontend.Close()
	}
	closeTraces(s.traces, s.Log)
	return nil
}

// reloadDecoding re-reads the options of the configuration that may change while requests run.
func (s *frontendService) reloadDecoding() {
	fresh, err := s.cfg.Reload()
	if err == nil {
		err = s.frontend.SetDecoding(fresh.Options.Decoding)
	}
	if err != nil {
		s.Log.Error("the decoder stays as it was", "error", err)
		return
	}
	s.Log.Info("decoder reloaded", "decoder", fresh.Options.Decoding.By.String(), "compare", fresh.Options.Decoding.Compare)
}
