package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/web"
)

// A rowstreamService is the parts of tare rowstream.
type rowstreamService struct {
	*server.Server
	cfg    *config.Rowstream
	source *binlog.Direct
	rows   *wire.Service
	grpc   *grpc.Server
}

func newRowstreamService(cfg *config.Rowstream, log *slog.Logger) *rowstreamService {
	s := &rowstreamService{cfg: cfg}
	s.Server = server.New(server.Options{
		Name: "rowstream", Server: cfg.Server, Build: thisBuild(), Log: log,
		Listen: cfg.Listen, Purpose: "copies (--listen)", MaxConnections: server.MaxGRPCConnections, Unit: "snapshots",
		Alive: func() { s.rows.Stats() },
	})
	return s
}

// Check implements server.Service.
func (s *rowstreamService) Check() error { return nil }

// Open implements server.Service.
func (s *rowstreamService) Open(ctx context.Context) error {
	from, err := loadLeg(s.cfg.FromTLS, "--from-ca", s.cfg.FromCA, &s.cfg.FromKey)
	if err != nil {
		return err
	}
	token, err := s.cfg.Token.Read()
	if err != nil {
		return err
	}
	options := append(s.Panics.ServerOptions(), grpc.ConnectionTimeout(10*time.Second), grpc.MaxHeaderListSize(64<<10))
	c, err := server.LoadServerTLS("--tls", s.cfg.TLSCert, s.cfg.TLSKey, s.cfg.TLSClientCA)
	if err != nil {
		return err
	}
	if c != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	if s.cfg.Log.Sink.Path != "" {
		if err := s.OpenData("rowstream", false); err != nil {
			return err
		}
	}
	if err := s.OpenQueryLog(); err != nil {
		return err
	}
	if s.source, err = binlog.OpenDirect(ctx, from.server(s.cfg.From)); err != nil {
		return fmt.Errorf("connect to --from: %w", err)
	}
	o := s.cfg.Service
	o.Server, o.Token, o.Log = s.source, token, s.Queries
	if s.rows, err = wire.NewService(o); err != nil {
		return err
	}
	s.grpc = s.rows.NewServer(options...)
	s.Go(func(context.Context) error {
		if err := s.grpc.Serve(s.Listener); err != nil {
			return fmt.Errorf("serve rows on %s: %w", s.Listener.Addr(), err)
		}
		return nil
	})
	s.Metrics.MustRegister(newRowstreamCollector(s.rows))
	return s.OpenWeb(web.Options{Ready: s.source.Ping, LogColumns: wire.LogColumns(), Rows: s.rows.Stats, Weight: &web.WeightSource{}})
}

// Announce implements server.Service.
func (s *rowstreamService) Announce() (status string) {
	attrs := []any{"listen", s.Listener.Addr().String(), "from", s.cfg.From.String()}
	if s.HTTPListener != nil {
		attrs = append(attrs, "http", s.Web.URL(s.HTTPListener.Addr()))
	}
	s.Log.Info("rowstream is ready", attrs...)
	return "serves rows of " + string(s.cfg.From.Addr)
}

// Drain implements server.Service.
func (s *rowstreamService) Drain(ctx context.Context) (left int) {
	st := s.rows.Stats()
	s.Log.Info("shutting down", "snapshots", st.Snapshots, "streams_of_changes", st.Following, "drain_timeout", s.cfg.DrainTimeout)
	left = s.rows.Drain(ctx)
	s.grpc.Stop()
	return left
}

// Close implements server.Service.
func (s *rowstreamService) Close() error {
	if s.source == nil {
		return nil
	}
	return s.source.Close()
}

// A rowstreamCollector exposes the counters of a row service.
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
