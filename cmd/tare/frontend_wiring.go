package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/taredb/tare/activeseries"
	"github.com/taredb/tare/frontend"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/memory"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// A frontendService is the frontend's parts, put together.
type frontendService struct {
	cfg      *config.Frontend
	log      *slog.Logger
	data     *dataDir // nil when nothing is kept
	queries  *querylog.Logger
	frontend *frontend.Frontend
	web      *web.Server
	ledger   *memory.Ledger
	listener net.Listener

	metrics    *registry
	supervisor *supervisor // nil when nobody is to be told
}

// runFrontend builds the frontend's parts and runs them until ctx is done.
func runFrontend(ctx context.Context, cfg *config.Frontend, log *slog.Logger) (err error) {
	s := &frontendService{cfg: cfg, log: log, supervisor: newSupervisor(os.Getenv, os.Getpid(), log)}
	defer func() { err = errors.Join(err, s.supervisor.close()) }()
	if err := s.build(); err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	if s.listener, err = listen("HTTP (--http)", cfg.HTTP); err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	defer onSignal(syscall.SIGUSR1, s.reopenLog)()
	defer onSignal(syscall.SIGHUP, func() { s.supervisor.reload(s.reloadDecoding) })()

	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.web.Serve(s.listener); err != nil {
			stop(err)
		}
	})
	background, end := context.WithCancel(context.Background())
	running.Go(func() { _ = s.supervisor.watch(background, func() { s.frontend.Running() }) }) // it has no error but to end
	log.Info("frontend is ready", "http", "http://"+s.listener.Addr().String(),
		"downstreams", len(cfg.Downstreams), "members", len(cfg.Members), "shards", cfg.Shards, "decoder", string(cfg.Decoder))
	s.supervisor.ready("answers on " + s.listener.Addr().String())

	<-ctx.Done()
	cause := context.Cause(ctx)
	err = s.drain()
	end()
	running.Wait()
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err = errors.Join(err, s.close(grace))
	if !errors.Is(cause, errInterrupted) && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// build makes the parts; nothing listens yet.
func (s *frontendService) build() (err error) {
	if err := s.check(); err != nil {
		return err
	}
	o := frontend.Options{
		Downstreams: s.cfg.Downstreams, Members: s.cfg.Members,
		Shards: s.cfg.Shards, MaxShards: s.cfg.MaxShards, MaxRequests: s.cfg.MaxRequests,
		ResponseBytes: int64(s.cfg.ResponseBytes), MergeBytes: int64(s.cfg.MergeBytes),
		Timeout:  s.cfg.Timeout,
		Hedge:    s.cfg.Hedge,
		Encoding: encodingOf(s.cfg.DownstreamEncoding),
		Diag:     s.log,
	}
	if o.Decoding, err = decodingOf(s.cfg); err != nil {
		return err
	}
	if s.cfg.DownstreamCA != "" {
		pool, err := loadDownstreamCAs(s.cfg.DownstreamCA)
		if err != nil {
			return err
		}
		t := frontend.NewTransport()
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		o.Transport = t
	}
	if s.cfg.Log.File != "" {
		if s.data, err = openFrontendDir(s.cfg.DataDir, os.Getenv, s.log); err != nil {
			return err
		}
	}
	if s.queries, err = newQueryLog(s.cfg.Log, s.data, s.log); err != nil {
		return err
	}
	o.Log = s.queries
	if s.frontend, err = frontend.New(o); err != nil {
		return err
	}
	s.metrics = newRegistry()
	s.metrics.MustRegister(processCollectors()...)
	s.metrics.MustRegister(newQueryLogCollector(s.queries))
	s.metrics.MustRegister(s.frontend.Collectors()...)
	reporter := panics.NewReporter(s.log)
	s.metrics.MustRegister(reporter)
	gate, err := web.NewGate(s.cfg.WebConfigFile, s.cfg.AccountsFile, s.log)
	if err != nil {
		return err
	}
	var routes []web.Route
	for i, pattern := range frontend.Patterns() {
		r := web.NewRoute(access.For(access.Viewer).WithTexts(), pattern, s.frontend)
		if i == 0 {
			r = r.Listed("/api/v1/cardinality/active_series?selector=%7B__name__%21%3D%22%22%7D", "active series that match the selector")
		}
		routes = append(routes, r)
	}
	s.web = web.New(web.Options{
		Title: "tare frontend", Gatherer: s.metrics, Ready: s.frontend.Ready,
		QueryLog: s.queries, Routes: routes, Hosts: s.cfg.HTTP.Hosts(s.cfg.AllowedHosts), ConfigFile: s.cfg.WebConfigFile, Gate: gate, Log: s.log, Panics: reporter,
		LogColumns: frontend.LogColumns(), Frontend: s.frontend.Overview, FrontendValues: s.cfg.Log.Redact == config.RedactNone,
		Weight: &web.WeightSource{
			Heap:       func() []memory.Holding { return s.ledger.Holdings() },
			Statements: func() uint64 { return s.frontend.Overview(false).Requests }, StatementName: "request",
		},
	})
	s.ledger = memory.NewLedger( // last: what is made by now is the base
		memory.Owner{Name: "decoders_idle", Bytes: s.frontend.IdleBytes},
		memory.Owner{Name: "query_log", Bytes: s.queries.HeapBytes},
		memory.Owner{Name: "pages", Bytes: s.web.HeapBytes},
	)
	s.metrics.MustRegister(s.ledger)
	return nil
}

// check reports wrong options. It opens no file for writing.
func (s *frontendService) check() error {
	return errors.Join(checkQueryLog(s.cfg.Log, s.log), web.CheckConfig(s.cfg.WebConfigFile, s.cfg.AccountsFile))
}

// openFrontendDir opens --data-dir, or a directory of the frontend's own beside the gateway's.
func openFrontendDir(path string, getenv func(string) string, log *slog.Logger) (*dataDir, error) {
	if path == "" {
		if parent, err := defaultDataDir(getenv); err == nil {
			d, err := lockDataDir(filepath.Join(parent, "frontend"), log)
			if err != nil {
				log.Warn("there is no data directory: how many records a kill has lost will not be in the query log; --data-dir names another one", "error", err)
			}
			return d, nil
		}
	}
	return openDataDir(path, getenv, log)
}

func loadDownstreamCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load --downstream-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("load --downstream-ca: no certificate in %s: want PEM", file)
	}
	return pool, nil
}

func encodingOf(e config.FrontendEncoding) frontend.Encoding {
	switch e {
	case config.EncodingSnappy:
		return frontend.Snappy
	case config.EncodingGzip:
		return frontend.Gzip
	case config.EncodingZstd:
		return frontend.Zstd
	}
	return frontend.Identity
}

func decodingOf(c *config.Frontend) (frontend.Decoding, error) {
	by, err := activeseries.ParseImplementation(string(c.Decoder))
	return frontend.Decoding{By: by, Compare: c.DecoderCompare}, err
}

// reloadDecoding reads the configuration again for what may be changed while requests run.
func (s *frontendService) reloadDecoding() {
	fresh, err := s.cfg.Reload()
	var d frontend.Decoding
	if err == nil {
		d, err = decodingOf(fresh)
	}
	if err == nil {
		err = s.frontend.SetDecoding(d)
	}
	if err != nil {
		s.log.Error("the decoder stays as it was", "error", err)
		return
	}
	s.log.Info("decoder reloaded", "decoder", d.By.String(), "compare", d.Compare)
}

func (s *frontendService) reopenLog() {
	if err := s.queries.Reopen(); err != nil {
		s.log.Error("query log not reopened; continuing in the old file", "error", err)
		return
	}
	s.log.Info("query log reopened")
}

// drain takes no more requests and gives running ones --drain-timeout. The query log closes when they
// are over, which ends the streams of it.
func (s *frontendService) drain() error {
	s.supervisor.stopping()
	s.log.Info("shutting down", "requests", s.frontend.Running(), "drain_timeout", s.cfg.DrainTimeout)
	limit, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	var stopping sync.WaitGroup
	var err error
	stopping.Go(func() { err = s.web.Shutdown(limit) })
	left := s.frontend.Wait(limit)
	grace, end := context.WithTimeout(context.Background(), shutdownGrace)
	defer end()
	closed := s.queries.Close(grace)
	stopping.Wait()
	err = errors.Join(err, closed)
	if left > 0 {
		return errors.Join(err, &partialError{fmt.Errorf("%d requests did not finish within --drain-timeout %v and were ended", left, s.cfg.DrainTimeout)})
	}
	return err
}

// close gives up what build has made.
func (s *frontendService) close(ctx context.Context) error {
	var err error
	if s.frontend != nil {
		s.frontend.Close()
	}
	if s.queries != nil {
		err = s.queries.Close(ctx)
	}
	return errors.Join(err, s.data.close())
}
