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

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/rowstream/wire"
	"github.com/taredb/tare/web"
)

// A rowstreamService is the parts of tare rowstream, put together.
type rowstreamService struct {
	cfg     *config.Rowstream
	log     *slog.Logger
	data    *dataDir // nil when nothing is kept
	queries *querylog.Logger
	source  *binlog.Direct
	rows    *wire.Service
	grpc    *grpc.Server
	web     *web.Server // nil when it is off

	supervisor *supervisor // nil when nobody is to be told

	grpcListener, httpListener net.Listener
}

// runRowstream builds the parts and runs them until ctx is done.
func runRowstream(ctx context.Context, cfg *config.Rowstream, log *slog.Logger) (err error) {
	s := &rowstreamService{cfg: cfg, log: log, supervisor: newSupervisor(os.Getenv, os.Getpid(), log)}
	defer func() { err = errors.Join(err, s.supervisor.close()) }()
	err = s.build(ctx)
	if err == nil {
		err = s.listen()
	}
	if err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	defer onSignal(syscall.SIGUSR1, s.reopenLog)()

	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	part := func(run func() error) {
		running.Go(func() {
			if err := run(); err != nil {
				stop(err)
			}
		})
	}
	part(func() error {
		if err := s.grpc.Serve(s.grpcListener); err != nil {
			return fmt.Errorf("serve rows on %s: %w", s.grpcListener.Addr(), err)
		}
		return nil
	})
	attrs := []any{"listen", s.grpcListener.Addr().String(), "from", cfg.From.String()}
	if s.web != nil {
		part(func() error { return s.web.Serve(s.httpListener) })
		attrs = append(attrs, "http", "http://"+s.httpListener.Addr().String())
	}
	background, end := context.WithCancel(context.Background())
	part(func() error { return s.supervisor.watch(background, func() { s.rows.Stats() }) })
	log.Info("rowstream is ready", attrs...)
	s.supervisor.ready("serves rows of " + string(cfg.From.Addr))

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
func (s *rowstreamService) build(ctx context.Context) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	authorities, err := loadCAs("--from-ca", s.cfg.FromCA)
	if err != nil {
		return err
	}
	token, err := s.cfg.Token.Read()
	if err != nil {
		return err
	}
	var options []grpc.ServerOption
	if s.cfg.TLSCert != "" {
		c, err := loadServerTLS("--tls", s.cfg.TLSCert, s.cfg.TLSKey, s.cfg.TLSClientCA)
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	if s.cfg.Log.File != "" {
		if s.data, err = openSubDir("rowstream", s.cfg.DataDir, os.Getenv, s.log); err != nil {
			return err
		}
	}
	if s.queries, err = newQueryLog(s.cfg.Log, s.data, s.log); err != nil {
		return err
	}
	if s.source, err = binlog.OpenDirect(ctx, mysqlServer(s.cfg.From, s.cfg.FromTLS, authorities)); err != nil {
		return fmt.Errorf("connect to --from: %w", err)
	}
	if s.rows, err = wire.NewService(wire.ServiceOptions{
		Server: s.source, Token: token, MaxSnapshots: s.cfg.MaxSnapshots, MaxWorkers: s.cfg.MaxWorkers, MaxFollows: s.cfg.MaxFollows, Log: s.queries,
	}); err != nil {
		return err
	}
	reporter := panics.NewReporter(s.log)
	s.grpc = s.rows.NewServer(append(options, reporter.ServerOptions()...)...)
	if s.cfg.HTTP == "" {
		return nil
	}
	gate, err := web.NewGate(s.cfg.WebConfigFile, s.cfg.AccountsFile, s.log)
	if err != nil {
		return err
	}
	registry := rowstreamMetrics(s.queries, s.rows)
	registry.MustRegister(reporter)
	s.web = web.New(web.Options{
		Title: "tare rowstream", Gatherer: registry, QueryLog: s.queries, Hosts: s.cfg.HTTP.Hosts(s.cfg.AllowedHosts), ConfigFile: s.cfg.WebConfigFile, Gate: gate, Log: s.log, Panics: reporter,
		Ready: s.source.Ping, LogColumns: wire.LogColumns(), Rows: s.rows.Stats, Weight: &web.WeightSource{},
	})
	return nil
}

// rowstreamMetrics are the metrics of a row service and its log.
func rowstreamMetrics(queries *querylog.Logger, rows *wire.Service) *registry {
	r := newRegistry()
	r.MustRegister(processCollectors()...)
	r.MustRegister(newQueryLogCollector(queries), newRowstreamCollector(rows))
	return r
}

// mysqlServer is how to connect to a server for rows.
func mysqlServer(u config.ControlURL, mode mysqlconn.TLSMode, authorities *x509.CertPool) mysqlconn.Config {
	return mysqlconn.Config{
		Addr: string(u.Addr), User: u.User, Password: u.Password.Reveal(),
		TLSMode: mode, TLS: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, MaxPacket: 1 << 30,
	}
}

func (s *rowstreamService) listen() (err error) {
	if s.grpcListener, err = listen("copies (--listen)", s.cfg.Listen); err != nil {
		return err
	}
	if s.web != nil {
		if s.httpListener, err = listen("HTTP (--http)", s.cfg.HTTP); err != nil {
			return err
		}
	}
	return nil
}

// drain takes no more snapshots and gives open ones --drain-timeout.
func (s *rowstreamService) drain() error {
	s.supervisor.stopping()
	s.log.Info("shutting down", "snapshots", s.rows.Stats().Snapshots, "streams_of_changes", s.rows.Stats().Following, "drain_timeout", s.cfg.DrainTimeout)
	limit, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	left := s.rows.Drain(limit)
	s.grpc.Stop()
	grace, end := context.WithTimeout(context.Background(), shutdownGrace)
	defer end()
	err := s.queries.Close(grace)
	if s.web != nil {
		err = errors.Join(err, s.web.Shutdown(grace))
	}
	if left > 0 {
		return errors.Join(err, &partialError{fmt.Errorf("%d snapshots did not end within --drain-timeout %v and were cut off", left, s.cfg.DrainTimeout)})
	}
	return err
}

// reopenLog starts new files of the query log.
func (s *rowstreamService) reopenLog() {
	if err := s.queries.Reopen(); err != nil {
		s.log.Error("query log not reopened; continuing in the old file", "error", err)
		return
	}
	s.log.Info("query log reopened")
}

// close gives up what build has made.
func (s *rowstreamService) close(ctx context.Context) error {
	var err error
	if s.source != nil {
		err = s.source.Close()
	}
	if s.queries != nil {
		err = errors.Join(err, s.queries.Close(ctx))
	}
	for _, l := range []net.Listener{s.grpcListener, s.httpListener} {
		if l != nil {
			if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
	}
	return errors.Join(err, s.data.close())
}

// check reports wrong options. It opens no file for writing.
func (s *rowstreamService) check() error {
	errs := []error{checkQueryLog(s.cfg.Log, s.log)}
	if s.cfg.HTTP != "" {
		errs = append(errs, web.CheckConfig(s.cfg.WebConfigFile, s.cfg.AccountsFile))
	}
	return errors.Join(errs...)
}

// openSubDir opens --data-dir, or a directory of the server's own beside the gateway's.
func openSubDir(name, path string, getenv func(string) string, log *slog.Logger) (*dataDir, error) {
	if path == "" {
		if parent, err := defaultDataDir(getenv); err == nil {
			path = filepath.Join(parent, name)
			d, err := lockDataDir(path, log)
			if err != nil {
				log.Warn("there is no data directory: how many records a kill has lost will not be in the query log; --data-dir names another one", "error", err)
			}
			return d, nil
		}
	}
	return openDataDir(path, getenv, log)
}

// A rowstreamCollector answers a row service's counts to Prometheus.
type rowstreamCollector struct {
	rows *wire.Service

	snapshots, running, reads, failed, sentRows, rowBytes, sentBytes, sums *prometheus.Desc

	following, follows, failedFollows, changes, changeBytes, changeSent *prometheus.Desc
}

var _ prometheus.Collector = (*rowstreamCollector)(nil)

func newRowstreamCollector(s *wire.Service) *rowstreamCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tare_rowstream_"+name, help, nil, nil)
	}
	return &rowstreamCollector{
		rows:      s,
		snapshots: desc("snapshots", "Open snapshots."),
		running:   desc("reads", "Chunk reads running."),
		reads:     desc("reads_total", "Chunk reads finished."),
		failed:    desc("failed_reads_total", "Chunk reads that failed."),
		sentRows:  desc("rows_total", "Rows sent."),
		rowBytes:  desc("row_bytes_total", "Uncompressed bytes of rows sent."),
		sentBytes: desc("sent_bytes_total", "Bytes of rows on the wire."),
		sums:      desc("sums_total", "Chunk checksums computed by the source."),

		following:     desc("follows", "Change streams running."),
		follows:       desc("follows_total", "Change streams finished."),
		failedFollows: desc("failed_follows_total", "Change streams that failed."),
		changes:       desc("changes_total", "Row changes sent."),
		changeBytes:   desc("change_bytes_total", "Uncompressed bytes of row images sent."),
		changeSent:    desc("sent_change_bytes_total", "Bytes of row images on the wire."),
	}
}

// Describe implements prometheus.Collector.
func (c *rowstreamCollector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, ch)
}

// Collect implements prometheus.Collector.
func (c *rowstreamCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v int64) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v))
	}
	st := c.rows.Stats()
	send(c.snapshots, prometheus.GaugeValue, int64(st.Snapshots))
	send(c.running, prometheus.GaugeValue, st.Running)
	send(c.reads, prometheus.CounterValue, st.Reads)
	send(c.failed, prometheus.CounterValue, st.Failed)
	send(c.sentRows, prometheus.CounterValue, st.Rows)
	send(c.rowBytes, prometheus.CounterValue, st.Bytes)
	send(c.sentBytes, prometheus.CounterValue, st.Sent)
	send(c.sums, prometheus.CounterValue, st.Sums)
	send(c.following, prometheus.GaugeValue, st.Following)
	send(c.follows, prometheus.CounterValue, st.Follows)
	send(c.failedFollows, prometheus.CounterValue, st.FailedFollows)
	send(c.changes, prometheus.CounterValue, st.Changes)
	send(c.changeBytes, prometheus.CounterValue, st.ChangeBytes)
	send(c.changeSent, prometheus.CounterValue, st.ChangeSent)
}
