package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promlabel "github.com/prometheus/common/model"
	"github.com/thanos-io/objstore"
	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/remotewrite"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/lowpriority"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
	"github.com/taredb/tare/web"
)

// historyCacheBytes is the cache for index pages of blocks in the bucket. Most queries are about local data.
const historyCacheBytes = 32 << 20

// A historyService counts, writes, keeps and serves the history; without a bucket it is a table in memory. A
// nil one does nothing.
type historyService struct {
	server   *server.Server
	cfg      config.History
	registry *server.Registry
	table    *stmtstats.Table
	reader   web.Statements    // over time, if a history is written
	counters func() int64      // heap bytes that reader keeps, if a history is written
	tags     *calls.TagCounts  // nil: none are in the history
	labels   map[string]string // of all series; nil without a bucket, as all below
	archive  *history.Archive
	bucket   objstore.Bucket
	cache    *tsblock.Cache
	disk     *diskcache.Cache   // nil: none
	shared   *sharedcache.Cache // nil: none
	pool     *slab.Pool
	gateway  *storegateway.Gateway
	sender   *remotewrite.Sender // nil without a receiver
	rises    *web.RiseWatch      // nil without an archive or HTTP

	inFlight func(visit func(gateway.Running)) // set before run
}

// The directories of the history.
var (
	historyPiece      = localstate.Piece{Name: "history", Lost: "history until the next start: statements are counted in memory"}
	historyDirPiece   = localstate.Piece{Name: "history directory", Lost: "the digest table and local series"}
	indexHeadersPiece = localstate.Piece{Name: "index headers", Lost: "nothing: they are built again from the bucket"}
)

// advance counts the time of the statements in flight.
func (h *historyService) advance() {
	if h.inFlight != nil {
		h.inFlight(func(r gateway.Running) { h.table.Advance(r.Record, r.Age, r.Unknown) })
	}
}

// openHistory opens the history in the data directory, which is not required without a bucket. The caller has
// checked the options. With a full disk or the like, statements are counted and the history opens later; if the
// directory is unusable for another reason, statements are counted in memory.
func openHistory(s *server.Server, cfg config.History, labels map[string]string, bucket objstore.Bucket, tags *calls.TagCounts) (*historyService, error) {
	h := &historyService{server: s, cfg: cfg, registry: server.EmptyRegistry(), bucket: bucket, labels: labels, tags: tags}
	if !cfg.Enabled() {
		return h, h.openTable("", nil)
	}
	err := h.open()
	if err == nil {
		return h, nil
	}
	if closeErr := h.close(); closeErr != nil {
		s.Log.Warn("history not closed", "err", closeErr)
	}
	s.Data.State.Report(localstate.Loss{Piece: historyPiece, Path: s.Data.File("history"), Cause: err.Error()})
	h = &historyService{server: s, cfg: cfg, registry: server.EmptyRegistry()}
	return h, h.openTable("", nil)
}

func (h *historyService) open() error {
	dir := h.server.Data.File("history")
	tableDir := filepath.Join(dir, "digests")
	for _, d := range []struct {
		path  string
		piece localstate.Piece
	}{
		{dir, historyDirPiece},
		{tableDir, historyDirPiece},
		{filepath.Join(dir, "series"), historyDirPiece},
		{filepath.Join(dir, "bucket"), indexHeadersPiece},
	} {
		if err := h.server.Data.State.Dir(d.path, localstate.File{Piece: d.piece}); err != nil && !localstate.OfMachine(err) {
			return fmt.Errorf("create history directory: %w", err)
		}
	}
	err := h.openTable(tableDir, h.server.Data.State)
	if localstate.OfMachine(err) {
		h.server.Log.Error("digests are counted in memory until the next start", "dir", tableDir, "err", err)
		err = h.openTable("", nil)
	}
	if err != nil {
		return err
	}
	light := int64(h.cfg.ProcessBytes) / lightPart
	if h.disk, err = openDiskCache(h.cfg.DiskCache, h.server.Log); err != nil { // the history does without it
		h.server.Log.Warn("history has no disk cache until the next start", "dir", h.cfg.DiskCache.Dir, "err", err)
	}
	if h.shared, err = openSharedCache(h.cfg.Memcached, h.cfg.Bucket, h.server.Log); err != nil {
		return fmt.Errorf("--history-cache-memcached: %w", err)
	}
	h.cache = tsblock.NewCache(historyCacheBytes)
	h.pool = slab.NewPool(slab.PoolOptions{})
	o := storegateway.Options{
		Options: blocksync.Options{
			Bucket:      h.bucket,
			LocalBucket: h.cfg.Bucket.Local(),
			PlainBucket: h.cfg.Bucket.Plain(),
			Layout:      blocksync.LayoutThanos,
			DataDir:     filepath.Join(dir, "bucket"),
			Cache:       h.cache,
			Disk:        h.disk,
			Shared:      h.shared,
			Pool:        h.pool,
			Missing:     missingBucket(filepath.Join(dir, "series")),
			Advice:      bucketurl.Advice,
			Log:         h.server.Log,
			Registerer:  h.registry,
		},
		Gate: slab.NewGate(slab.GateOptions{
			Bytes: int64(h.cfg.ProcessBytes) + light, PerQuery: int64(h.cfg.QueryBytes), Light: light,
		}),
	}
	h.cfg.Calls.Apply(&o)
	h.gateway, err = storegateway.New(o)
	if err != nil {
		return err
	}
	options := h.cfg.Archive
	options.Source, options.Dir, options.Labels, options.State = h.table, filepath.Join(dir, "series"), h.labels, h.server.Data.State
	options.Advance, options.Tags = h.advance, h.tags
	options.Bucket, options.Gateway, options.Log = h.bucket, h.gateway, h.server.Log
	archive, err := history.OpenArchive(options)
	if err != nil {
		return err
	}
	h.archive = archive
	reader := statements.NewArchiveReader(archive, h.table)
	h.reader, h.counters = reader, reader.HeapBytes
	return errors.Join(h.registry.Register(history.NewArchiveCollector(h.archive)), h.openSender(dir))
}

// openTable opens the table of digests: in a directory, or in memory only.
func (h *historyService) openTable(dir string, state *localstate.Store) (err error) {
	o := h.tableOptions()
	o.Dir, o.State = dir, state
	h.table, err = stmtstats.OpenTable(o)
	if err != nil {
		return err
	}
	h.reader = statements.TableReader{Table: h.table}
	return h.registry.Register(history.NewTableCollector(h.table))
}

func (h *historyService) tableOptions() stmtstats.Options {
	o := h.cfg.Table
	o.Redaction, o.Slog = h.server.Options.Server.Log.Redact, h.server.Log
	return o
}

// historyLabels adds the instance: the previous one of the directory, so that a host may change its name, or
// one derived from host and port.
func historyLabels(given map[string]string, dir string, listen config.Address) (map[string]string, error) {
	labels := maps.Clone(given)
	if labels == nil {
		labels = make(map[string]string)
	}
	if labels[history.InstanceLabel] != "" {
		return labels, nil
	}
	before, err := history.ReadLabels(dir)
	if err == nil && before != nil {
		labels[history.InstanceLabel] = before[history.InstanceLabel]
		return labels, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("choose an instance for the history: %w; name one with --history-labels instance=…", err)
	}
	_, port, err := net.SplitHostPort(string(listen))
	if err != nil {
		return nil, fmt.Errorf("choose an instance for the history: %w; name one with --history-labels instance=…", err)
	}
	labels[history.InstanceLabel] = net.JoinHostPort(host, port)
	return labels, nil
}

// observed returns the table that counts statements and the labels of its series, which are nil if none are
// written.
func (h *historyService) observed() (*stmtstats.Table, func() map[string]string) {
	switch {
	case h == nil:
		return nil, nil
	case h.archive == nil:
		return h.table, nil
	}
	return h.table, h.archive.Labels
}

// now returns the clock of the samples; nil if none are written.
func (h *historyService) now() func() time.Time {
	if h == nil || h.archive == nil {
		return nil
	}
	return h.archive.Now
}

// historyTags returns the tags by which the history has counts of calls.
func (s *service) historyTags() []string {
	if s.history == nil || s.history.archive == nil {
		return nil
	}
	return s.cfg.TagLabels
}

// routes returns the pages of the history. Requests of PromQL have spans, unless they are nil.
func (h *historyService) routes(spans *storegateway.Spans) ([]web.Route, error) {
	if h == nil {
		return nil, nil
	}
	ranked := statements.HandlerOptions{Ranker: h.reader, Counters: statements.TableReader{Table: h.table}, Log: h.server.Log}
	if h.archive != nil {
		ranked.Now = h.archive.Now
	}
	if h.rises != nil {
		ranked.ChangeOf = h.rises.ChangeOf
	}
	full := statements.NewHandler(ranked)
	ranked.NoTexts = true
	ranking := web.NewRoute(access.For(access.Viewer), "GET /api/v1/statements", web.ByTexts(full, statements.NewHandler(ranked))).
		Listed("/api/v1/statements?by=seconds&limit=20", "statements that took the most time")
	digests := web.NewRoute(access.For(access.Metrics), "GET /metrics/digests",
		web.ByTexts(statements.NewScrapeHandler(h.table, false, h.server.Log), statements.NewScrapeHandler(h.table, true, h.server.Log))).
		Listed("/metrics/digests", "counters and native histograms of the statements that took the most time, for scrapers")
	if h.archive == nil {
		return []web.Route{ranking, digests}, nil
	}
	// Each request that reads series is one query of the gateway: the engine's samples, the response and the
	// bytes read from the bucket are reserved from its quota. Local blocks are read through the page cache,
	// which is not counted.
	api, err := storegateway.NewHTTPAPI(h.gateway, storegateway.HTTPOptions{
		Queryable:   h.archive.Queryable(),
		BytesOption: "--history-query-bytes",
		// Statements are relayed on the same CPUs.
		MaxEvaluating: max(1, netloop.CPUs()/2), Background: lowpriority.Do,
		Now:        h.archive.Now,
		Restrict:   textlessSeries,
		Registerer: prometheus.WrapRegistererWithPrefix("tare_", h.registry),
		Spans:      spans,
		Log:        h.server.Log,
		Panics:     h.server.Panics,
		Build:      h.server.Build.Prometheus(),
	})
	if err != nil {
		return nil, fmt.Errorf("HTTP API: %w", err)
	}
	blocks := storegateway.StatusHandler(h.gateway)
	return append(promRoutes(api), ranking, digests,
		web.NewRoute(access.For(access.Viewer), "GET /api/v1/status/blocks", blocks).
			Listed("/api/v1/status/blocks", "blocks of the history in the bucket, and the budgets of queries")), nil
}

// status returns a function for the status of the blocks in the bucket; nil without a bucket.
func (h *historyService) status() func() storegateway.StatusPage {
	if h == nil || h.gateway == nil {
		return nil
	}
	return h.gateway.StatusPage
}

// heapOwners returns the parts whose heap grows. The table's does not: it is part of the base.
func (h *historyService) heapOwners() []memory.Owner {
	if h == nil || h.archive == nil {
		return nil
	}
	return []memory.Owner{
		{Name: "history_head", Bytes: h.archive.HeapBytes},
		{Name: "history_counters", Bytes: h.counters},
		{Name: "history_bucket", Bytes: func() int64 {
			slabs := h.pool.Stats()
			return h.cache.Stats().Bytes + diskCacheBytes(h.disk) + sharedCacheBytes(h.shared) + h.gateway.HeaderBytes() + slabs.OutBytes + slabs.IdleBytes
		}},
	}
}

// run writes, ships and syncs until ctx is done.
func (h *historyService) run(ctx context.Context) error {
	if h == nil {
		return nil
	}
	if h.archive == nil {
		return h.makeRoom(ctx)
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return h.gateway.Run(ctx) })
	if h.sender != nil {
		parts.Go(func() error {
			h.sender.Run(ctx)
			return nil
		})
	}
	parts.Go(func() error { return everyMinute(ctx, h.pool.Age) })
	parts.Go(func() error { return h.archive.Run(ctx) })
	return parts.Wait() //nolint:wrapcheck // errors of the parts
}

// missingBucket returns a function that reports whether an error means that the bucket does not exist, in which case
// the gateway fails at its start: before the first block was uploaded from a directory of series. Later it starts
// without the bucket.
func missingBucket(series string) func(error) bool {
	if history.Shipped(series) {
		return nil
	}
	return bucketurl.Missing
}

// makeRoom evicts digests that are not called any more, which a written history does in its rounds. The table
// is not closed: sessions may count until the process exits.
func (h *historyService) makeRoom(ctx context.Context) error {
	every := time.NewTicker(history.DefaultInterval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			if err := h.table.Collect(func(*stmtstats.Sample) error { return nil }); err != nil {
				return fmt.Errorf("collect digests: %w", err)
			}
		}
	}
}

// close writes the current counts, and releases the resources of open.
func (h *historyService) close() error {
	if h == nil {
		return nil
	}
	var errs []error
	if h.archive != nil {
		errs = append(errs, h.archive.Close())
	}
	if h.gateway != nil {
		errs = append(errs, h.gateway.Close())
	}
	if h.disk != nil {
		errs = append(errs, h.disk.Close())
	}
	if h.shared != nil {
		errs = append(errs, h.shared.Close())
	}
	if h.table != nil && h.labels != nil {
		errs = append(errs, h.table.Close())
	}
	if h.bucket != nil {
		errs = append(errs, h.bucket.Close())
	}
	return errors.Join(errs...)
}

// remoteWriteFile has the position of remote write, in the directory of the history.
const remoteWriteFile = "remote-write.json"

// openSender opens what sends the series to a receiver, if there is one.
func (h *historyService) openSender(dir string) error {
	receiver := remoteReceiver(h.cfg.RemoteWrite)
	if receiver.URL == nil {
		return nil
	}
	types := make(map[string]promlabel.MetricType)
	help := make(map[string]string)
	for m := range stmtseries.Metric(stmtseries.NumMetrics) {
		types[m.String()], help[m.String()] = promlabel.MetricTypeCounter, m.Help()
	}
	for _, m := range calls.TagMetrics {
		types[m.Name], help[m.Name] = promlabel.MetricTypeCounter, m.Help
	}
	types[stmtseries.Duration.String()] = promlabel.MetricTypeHistogram
	types[stmtseries.Info.String()] = promlabel.MetricTypeGauge
	s, err := remotewrite.New(remotewrite.Options{
		Receiver:  receiver,
		Instances: h.remoteInstances,
		File:      filepath.Join(dir, remoteWriteFile),
		State:     h.server.Data.State,
		Interval:  h.cfg.Archive.Interval,
		Metadata:  func(metric string) (promlabel.MetricType, string) { return types[metric], help[metric] },
		Log:       h.server.Log,
	})
	if err != nil {
		return err
	}
	h.sender = s
	return h.registry.Register(remotewrite.NewCollector(s))
}

// remoteReceiver returns the receiver of the options; without a URL if there is none.
func remoteReceiver(c config.RemoteWrite) remotewrite.Receiver {
	return remotewrite.Receiver{URL: c.URL.URL(), Version: c.Version, TokenFile: c.TokenFile, Tenant: c.Tenant, CAFile: c.CAFile}
}

// remoteInstances are the databases that are sent, the oldest first.
func (h *historyService) remoteInstances() []remotewrite.Instance {
	all := h.archive.Instances()
	out := make([]remotewrite.Instance, len(all))
	for i, in := range all {
		out[i] = remotewrite.Instance{Name: in.Hash, Samples: in.Samples, Until: in.Settled}
	}
	return out
}
