package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/memory"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway"
	"github.com/taredb/tare/storegateway/blocksync"
	"github.com/taredb/tare/tsblock"
	"github.com/taredb/tare/web"
)

// storeBaseBytes is what tare store takes besides its budgets: the program, index headers, idle
// slabs and frames, connections, and what the garbage collector has not collected yet.
const storeBaseBytes = 192 << 20

// A storeService is the store's parts, put together.
type storeService struct {
	cfg     config.Store
	log     *slog.Logger
	data    *dataDir
	queries *querylog.Logger
	bucket  objstore.Bucket
	cache   *tsblock.Cache
	pool    *slab.Pool
	entries *tsblock.Entries
	gate    *slab.Gate
	limiter *storegateway.Limiter
	gateway *storegateway.Gateway
	waiting *promapi.ResponseBudget
	api     *storegateway.StoreAPI // nil when gRPC is off, as grpc
	grpc    *grpc.Server
	web     *web.Server
	ledger  *memory.Ledger

	metrics    *registry
	panics     *panics.Reporter
	supervisor *supervisor // nil when nobody is to be told

	grpcListener, httpListener net.Listener // nil when off
}

// runStore builds the store's parts and runs them until ctx is done.
func runStore(ctx context.Context, cfg config.Store, log *slog.Logger) (err error) {
	s := &storeService{cfg: cfg, log: log, supervisor: newSupervisor(os.Getenv, os.Getpid(), log)}
	defer func() { err = errors.Join(err, s.supervisor.close()) }()
	if err := s.build(); err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	if err := s.listen(); err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	defer onSignal(syscall.SIGUSR1, s.reopenLog)()
	defer onSignal(syscall.SIGHUP, func() { s.supervisor.reload(s.reloadLimits) })()

	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	part := func(run func() error) {
		running.Go(func() {
			if err := run(); err != nil {
				stop(err)
			}
		})
	}
	background, end := context.WithCancel(context.Background())
	part(func() error { return s.gateway.Run(background) })
	part(func() error { return s.trimIdle(background) })
	part(func() error { return s.supervisor.watch(background, func() { s.gate.Stats() }) })
	if s.grpc != nil {
		part(func() error {
			if err := s.grpc.Serve(s.grpcListener); err != nil {
				return fmt.Errorf("serve gRPC on %s: %w", s.grpcListener.Addr(), err)
			}
			return nil
		})
	}
	if s.web != nil {
		part(func() error { return s.web.Serve(s.httpListener) })
	}
	s.announce()

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
func (s *storeService) build() (err error) {
	if err := s.check(); err != nil {
		return err
	}
	if s.bucket, err = s.cfg.Bucket.Open(); err != nil {
		return err
	}
	if s.data, err = openStoreDir(s.cfg.DataDir, os.Getenv, s.log); err != nil {
		return err
	}
	if s.queries, err = newQueryLog(s.cfg.Log, s.data, s.log); err != nil {
		return err
	}
	s.limitMemory()
	s.metrics = newRegistry()
	s.metrics.MustRegister(processCollectors()...)
	s.metrics.MustRegister(newQueryLogCollector(s.queries))
	s.panics = panics.NewReporter(s.log)
	s.metrics.MustRegister(s.panics)
	s.cache = tsblock.NewCache(int64(s.cfg.IndexCacheBytes))
	s.pool = slab.NewPool(slab.PoolOptions{})
	s.entries = tsblock.NewEntries(slab.EntriesOptions{})
	limits, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	if err != nil {
		return err
	}
	s.limiter = storegateway.NewLimiter(limits)
	s.gate = slab.NewGate(slab.GateOptions{
		Bytes: int64(s.cfg.ProcessBytes) + s.lightBytes(), PerQuery: int64(s.cfg.QueryBytes), Light: s.lightBytes(),
		Limits: s.limiter.Limits,
	})
	o := storegateway.Options{
		Options: blocksync.Options{
			Bucket:        s.bucket,
			LocalBucket:   s.cfg.Bucket.Local(),
			PlainBucket:   s.cfg.Bucket.Plain(),
			Layout:        s.cfg.Layout,
			Tenants:       s.cfg.Tenants,
			Shard:         s.cfg.Shard,
			DataDir:       s.data.file("blocks"),
			Cache:         s.cache,
			Pool:          s.pool,
			Entries:       s.entries,
			SyncInterval:  s.cfg.SyncInterval,
			DeletionDelay: s.cfg.DeletionDelay,
			EagerHeaders:  s.cfg.EagerHeaders,
			HeaderIdle:    s.cfg.HeaderIdle,
			Log:           s.log,
			Registerer:    s.metrics,
		},
		Gate:    s.gate,
		Limiter: s.limiter,
		Limits:  storegateway.Limits{Series: int64(s.cfg.MaxSeries), Chunks: int64(s.cfg.MaxChunks)},
		Partial: s.cfg.Partial,
	}
	s.cfg.Calls.Apply(&o)
	s.gateway, err = storegateway.New(o)
	if err != nil {
		return err
	}
	s.waiting = promapi.NewResponseBudget(int64(s.cfg.ResponseBytes))
	if s.cfg.GRPC != "" {
		if err := s.buildGRPC(); err != nil {
			return err
		}
	}
	if s.cfg.HTTP != "" {
		return s.buildHTTP()
	}
	return nil
}

// check reports wrong options. It opens no file for writing.
func (s *storeService) check() error {
	_, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	errs := []error{err, checkQueryLog(s.cfg.Log, s.log)}
	if s.cfg.HTTP != "" {
		errs = append(errs, web.CheckConfig(s.cfg.WebConfigFile, s.cfg.AccountsFile))
	}
	if s.cfg.GRPC != "" && s.cfg.GRPCCert != "" {
		_, err := loadServerTLS("--grpc-tls", s.cfg.GRPCCert, s.cfg.GRPCKey, s.cfg.GRPCClientCA)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// openStoreDir opens --data-dir, or the default. Unlike a gateway's it must be had: index headers
// lie in it.
func openStoreDir(path string, getenv func(string) string, log *slog.Logger) (*dataDir, error) {
	if path == "" {
		parent, err := defaultDataDir(getenv)
		if err != nil {
			return nil, fmt.Errorf("choose a data directory: %w; name one with --data-dir", err)
		}
		path = filepath.Join(parent, "store")
	}
	return lockDataDir(path, log)
}

// lightPart is the part of --process-bytes that light queries have besides it.
const lightPart = 16

// lightBytes is what light queries are admitted with, besides --process-bytes.
func (s *storeService) lightBytes() int64 { return int64(s.cfg.ProcessBytes) / lightPart }

// limitMemory has the garbage collector keep the process within its budgets as well as it can.
func (s *storeService) limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(s.cfg.MemoryLimit)
	if limit == 0 {
		limit = int64(s.cfg.ProcessBytes) + s.lightBytes() + int64(s.cfg.IndexCacheBytes) + int64(s.cfg.ResponseBytes) + storeBaseBytes
	}
	debug.SetMemoryLimit(limit)
}

func (s *storeService) buildGRPC() error {
	storegateway.RegisterSnappy()
	options := []grpc.ServerOption{
		// Queriers keep connections for long and ping them.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if s.cfg.GRPCCert != "" {
		c, err := loadServerTLS("--grpc-tls", s.cfg.GRPCCert, s.cfg.GRPCKey, s.cfg.GRPCClientCA)
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	s.api = storegateway.NewStoreAPI(s.gateway, storegateway.StoreAPIOptions{
		Timeout: s.cfg.QueryTimeout, WriteTimeout: s.cfg.WriteTimeout, Responses: s.waiting, Log: s.queries, Panics: s.panics,
	})
	s.grpc = s.api.NewServer(options...)
	return nil
}

// loadServerTLS reads a server's certificate, and the authorities of its clients' if they have
// to have one. The options' names begin with option.
func loadServerTLS(option, cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load %s-cert and %s-key: %w", option, option, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA != "" {
		text, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, fmt.Errorf("load %s-client-ca: %w", option, err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("load %s-client-ca: no certificate in %s: want PEM", option, clientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func (s *storeService) buildHTTP() error {
	api, err := storegateway.NewHTTPAPI(s.gateway, storegateway.HTTPOptions{
		Timeout:       s.cfg.QueryTimeout,
		LookbackDelta: s.cfg.LookbackDelta,
		MaxSamples:    s.cfg.MaxSamples,
		Responses:     s.waiting,
		WriteTimeout:  s.cfg.WriteTimeout,
		Restrict:      textlessSeries,
		Registerer:    prometheus.WrapRegistererWithPrefix("tare_", s.metrics),
		Queries:       s.queries,
		Log:           s.log,
		Panics:        s.panics,
		Features:      s.cfg.Features,
		Build:         promapi.BuildInfo{Revision: commit},
	})
	if err != nil {
		return fmt.Errorf("HTTP API: %w", err)
	}
	gate, err := web.NewGate(s.cfg.WebConfigFile, s.cfg.AccountsFile, s.log)
	if err != nil {
		return err
	}
	blocks := storegateway.StatusHandler(s.gateway)
	s.web = web.New(web.Options{
		Title:    "tare store",
		Gatherer: s.metrics,
		Ready: func(context.Context) error {
			if !s.gateway.Ready() {
				return errors.New("the first sync with the bucket is under way")
			}
			return nil
		},
		QueryLog:   s.queries,
		LogColumns: storegateway.LogColumns(),
		Store:      s.gateway.StatusPage,
		Weight:     &web.WeightSource{Heap: func() []memory.Holding { return s.ledger.Holdings() }},
		Routes: append(promRoutes(api), web.NewRoute(access.For(access.Viewer), "GET /api/v1/status/blocks", blocks).
			Listed("/api/v1/status/blocks", "blocks that are served and that are not, and the budgets")),
		Hosts:      s.cfg.HTTP.Hosts(s.cfg.AllowedHosts),
		ConfigFile: s.cfg.WebConfigFile,
		Gate:       gate,
		Log:        s.log,
		Panics:     s.panics,
	})
	s.ledger = memory.NewLedger(s.heapOwners()...) // last: what is made by now is the base
	s.metrics.MustRegister(s.ledger)
	return nil
}

// heapOwners are the parts whose heap is bounded and counted.
func (s *storeService) heapOwners() []memory.Owner {
	slabs := func() slab.PoolStats { return s.pool.Stats().Add(s.entries.Stats()) }
	return []memory.Owner{
		{Name: "slabs_lent", Bytes: func() int64 { return slabs().OutBytes }},
		{Name: "slabs_idle", Bytes: func() int64 { return slabs().IdleBytes }},
		{Name: "index_cache", Bytes: func() int64 { return s.cache.Stats().Bytes }},
		{Name: "index_headers", Bytes: s.gateway.HeaderBytes},
		{Name: "frames_idle", Bytes: func() int64 {
			if s.api == nil {
				return 0
			}
			return s.api.FrameBytes()
		}},
		{Name: "query_log", Bytes: s.queries.HeapBytes},
		{Name: "pages", Bytes: s.web.HeapBytes},
	}
}

func (s *storeService) listen() (err error) {
	if s.grpc != nil {
		if s.grpcListener, err = listen("queriers (--grpc)", s.cfg.GRPC); err != nil {
			return err
		}
	}
	if s.web != nil {
		if s.httpListener, err = listen("HTTP (--http)", s.cfg.HTTP); err != nil {
			return err
		}
	}
	return nil
}

func (s *storeService) announce() {
	attrs := []any{"bucket", s.cfg.Bucket.String(), "shard", s.cfg.Shard.String(), "data_dir", s.data.path}
	if s.httpListener != nil {
		attrs = append(attrs, "http", "http://"+s.httpListener.Addr().String())
	}
	if s.grpcListener != nil {
		attrs = append(attrs, "grpc", s.grpcListener.Addr().String())
	}
	limit := debug.SetMemoryLimit(-1)
	if limit != math.MaxInt64 {
		attrs = append(attrs, "memory_limit", config.Bytes(limit).String())
	}
	s.log.Info("store listens", attrs...)
	s.supervisor.ready("serves " + s.cfg.Bucket.String())
}

// trimIdle gives back slabs that no query has used for a minute or two.
func (s *storeService) trimIdle(ctx context.Context) error {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			s.pool.Age()
			s.entries.Age()
		}
	}
}

// drain takes no more requests and gives running ones --drain-timeout. The query log closes when
// they are over, which ends the streams of it.
func (s *storeService) drain() error {
	s.supervisor.stopping()
	s.log.Info("shutting down", "queries", s.gate.Stats().Running, "drain_timeout", s.cfg.DrainTimeout)
	limit, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	var stopping sync.WaitGroup
	var err error
	if s.web != nil {
		stopping.Go(func() { err = s.web.Shutdown(limit) })
	}
	left := 0
	if s.grpc != nil {
		left = s.stopGRPC(limit)
	}
	left = max(left, s.waitForQueries(limit))
	grace, end := context.WithTimeout(context.Background(), shutdownGrace)
	defer end()
	closed := s.queries.Close(grace)
	stopping.Wait()
	err = errors.Join(err, closed)
	if left > 0 {
		return errors.Join(err, &partialError{fmt.Errorf("%d queries did not finish within --drain-timeout %v and were ended", left, s.cfg.DrainTimeout)})
	}
	return err
}

// stopGRPC lets running calls finish, and returns how many queries run when limit ends and those
// that are left are ended.
func (s *storeService) stopGRPC(limit context.Context) int {
	var left atomic.Int64
	stop := context.AfterFunc(limit, func() {
		left.Store(int64(s.gate.Stats().Running))
		s.grpc.Stop() // which ends GracefulStop
	})
	defer stop()
	s.grpc.GracefulStop()
	return int(left.Load())
}

// waitForQueries waits until no query runs or waits, and returns how many do when limit ends.
func (s *storeService) waitForQueries(limit context.Context) int {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		st := s.gate.Stats()
		if st.Running+st.Waiting == 0 {
			return 0
		}
		select {
		case <-look.C:
		case <-limit.Done():
			return st.Running + st.Waiting
		}
	}
}

// reopenLog starts new files of the query log.
func (s *storeService) reopenLog() {
	if err := s.queries.Reopen(); err != nil {
		s.log.Error("query log not reopened; continuing in the old file", "error", err)
		return
	}
	s.log.Info("query log reopened")
}

// reloadLimits reads the file of --tenant-limits again.
func (s *storeService) reloadLimits() {
	if s.cfg.TenantLimits == "" {
		return
	}
	fresh, err := config.LoadTenantLimits(s.cfg.TenantLimits)
	if err != nil {
		s.log.Error("tenant limits not reloaded; the old ones stay in force", "error", err)
		return
	}
	s.limiter.Set(fresh)
	s.gate.Recheck()
	s.log.Info("tenant limits reloaded", "tenants", len(fresh.Tenants), "clients", len(fresh.Clients))
}

// close gives up what build has made.
func (s *storeService) close(ctx context.Context) error {
	var err error
	if s.gateway != nil {
		err = s.gateway.Close()
	}
	if s.bucket != nil {
		err = errors.Join(err, s.bucket.Close())
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
